"""VNC consoles: off unless asked for, unlike in Nova, because an open console port is a surprise."""

from oslo_config import cfg

GROUP = "vnc"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt("enabled", default=False, help="Give each guest a VNC console."),
    cfg.HostAddressOpt(
        "server_listen",
        default="127.0.0.1",
        help="Address that the guests' VNC consoles listen on. They ask for no password: let only minova-consoleproxy reach it.",
    ),
    cfg.IPOpt(
        "server_proxyclient_address",
        default="127.0.0.1",
        help="IP address of this host at which minova-consoleproxy reaches the guests' VNC consoles.",
    ),
    cfg.URIOpt(
        "novncproxy_base_url",
        default="http://127.0.0.1:6080/vnc_lite.html",
        schemes=["http", "https"],
        help="Address of the page of noVNC, as browsers reach minova-consoleproxy. Read by minova-api.",
    ),
]
