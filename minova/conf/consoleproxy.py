"""minova-consoleproxy, between browsers or terminals and the consoles of guests."""

from oslo_config import cfg

GROUP = "consoleproxy"

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt("listen", default="127.0.0.1", help="Address that minova-consoleproxy listens on."),
    cfg.PortOpt("port", default=6080, help="Port that minova-consoleproxy listens on; 0 takes a free one."),
    cfg.StrOpt(
        "web",
        default="/usr/share/novnc",
        help="Folder of noVNC's page, as the package novnc has it. Where it is missing there are serial consoles alone.",
    ),
    cfg.StrOpt("ssl_cert_file", help="Certificate (PEM) to serve HTTPS with; together with ssl_key_file."),
    cfg.StrOpt("ssl_key_file", help="Private key (PEM) of ssl_cert_file."),
    cfg.ListOpt(
        "allowed_origins",
        default=[],
        help="Hosts of pages, such as dashboard.example.com, that may open consoles beside minova-consoleproxy's own pages.",
    ),
    cfg.IntOpt(
        "max_connections",
        default=400,
        min=1,
        max=400,
        help="Connections at the same time; further ones are closed at once.",
    ),
    cfg.IntOpt(
        "max_connections_per_address",
        default=100,
        min=1,
        help="Connections at the same time from one address of a client or of a proxy before minova-consoleproxy; for a further one, that of "
        "them is closed which has been idle longest: no console yet, or a console without data for 10 minutes. If there is none, the "
        "further one is closed.",
    ),
]
