"""VNC consoles: off unless asked for, unlike in Nova, because an open console port is a surprise."""

from oslo_config import cfg

GROUP = "vnc"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt("enabled", default=False, help="Give each guest a VNC console."),
    cfg.HostAddressOpt(
        "server_listen",
        default="127.0.0.1",
        help="Address that the guests' VNC consoles listen on.",
    ),
]
