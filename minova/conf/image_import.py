"""From where `web-download` may fetch images, with Glance's names."""

from oslo_config import cfg, types

GROUP = "import_filtering_opts"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "allowed_schemes",
        item_type=types.String(choices=["http", "https"]),
        default=["http", "https"],
        help="Schemes of addresses for web-download.",
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        help="Hosts that web-download may fetch from, as addresses name them. Empty: all, but for disallowed_hosts.",
    ),
    cfg.ListOpt("disallowed_hosts", default=[], help="Hosts that web-download may not fetch from."),
    cfg.ListOpt(
        "allowed_ports",
        item_type=types.Integer(min=1, max=65535),
        default=[80, 443],
        help="Ports that web-download may connect to.",
    ),
    cfg.ListOpt(
        "allowed_networks",
        default=[],
        help="Networks beside the public internet that web-download may connect to, such as 10.1.2.0/24. Private, link-local, "
        "loopback and other special addresses are refused, whatever name leads to them.",
    ),
    cfg.IntOpt(
        "web_download_timeout",
        default=3600,
        min=1,
        help="Seconds that one web-download may take.",
    ),
]
