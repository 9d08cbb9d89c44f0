"""Serial consoles: off unless asked for, as in Nova."""

from oslo_config import cfg

GROUP = "serial_console"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=False,
        help="Let users type into the serial console of each guest that is made from now on.",
    ),
    cfg.StrOpt(
        "port_range",
        default="10000:20000",
        regex=r"^\d+:\d+$",
        help="First and last port of this host for the guests' serial consoles, one each.",
    ),
    cfg.HostAddressOpt(
        "server_listen",
        default="127.0.0.1",
        help="Address that the guests' serial consoles listen on. They ask for no password: let only minova-consoleproxy reach it.",
    ),
    cfg.IPOpt(
        "proxyclient_address",
        default="127.0.0.1",
        help="IP address of this host at which minova-consoleproxy reaches the guests' serial consoles.",
    ),
    cfg.URIOpt(
        "base_url",
        default="ws://127.0.0.1:6080/",
        schemes=["ws", "wss"],
        help="Address of minova-consoleproxy for terminals. Read by minova-api.",
    ),
]
