"""Options of every service."""

import socket

from oslo_config import cfg

GROUP = None

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<current_hostname>",
        help="Name of this host as a service; must be unique among the hosts of a kind.",
    ),
    cfg.HostAddressOpt(
        "my_ip",
        default="127.0.0.1",
        help="Address of this host, stored as host_ip of its compute nodes.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/minova",
        help="Top folder of what minova keeps on this host.",
    ),
    cfg.IntOpt(
        "free_space_reserve_mb",
        default=1024,
        min=0,
        mutable=True,
        help="MB of their file systems that uploads to the image store and downloads to a host's image cache leave free. A file "
        "that would take more is refused, and one without an announced length is stopped.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        help="Seconds between heartbeats; stretched by the conductor when there are many hosts.",
    ),
    cfg.BoolOpt(
        "enable_new_services",
        default=True,
        help="Whether a compute that registers for the first time gets servers at once. If not, it is disabled until "
        "`minova service set HOST --enable`. Conductors read the option.",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        min=0,
        help="Seconds that builds and removals may take to end when minova-compute is stopped; 0 waits until all have ended. What has "
        "not ended by then is left as it is, and the next start resumes it.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        help="Seconds after its last heartbeat until a service counts as down. While ten services and more than a third are silent "
        "together and no service but conductors is heard, they are in doubt: they count as up for five times as long at most.",
    ),
]
