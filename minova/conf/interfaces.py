"""Options of servers' interfaces on networks of Neutron."""

from oslo_config import cfg

GROUP = None

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "vif_plugging_timeout",
        default=300,
        min=0,
        help="Seconds that a host waits until Neutron has wired the interfaces of a new server, before the guest runs. 0: it does not wait. Of the computes.",
    ),
    cfg.BoolOpt(
        "vif_plugging_is_fatal",
        default=True,
        help="Whether a server fails whose interfaces are not wired in time; else its guest runs without. Of the computes.",
    ),
    cfg.IntOpt(
        "heal_instance_info_cache_interval",
        default=60,
        help="Seconds between two looks of a conductor at what Neutron knows of servers' interfaces, of those that were looked at the longest "
        "time ago. 0 or less: it does not look by itself, and changes come with events of Neutron alone.",
    ),
]
