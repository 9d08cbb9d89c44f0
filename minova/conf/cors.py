"""Which pages a browser may show that ask Placement; the names are oslo.middleware's."""

from oslo_config import cfg

GROUP = "cors"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "allowed_origin", default=[], help="Origins, such as https://dashboard.example.com; none: no page may."
    ),
    cfg.ListOpt(
        "allow_headers",
        default=["Content-Type", "OpenStack-API-Version", "X-Auth-Token"],
        help="Headers that such a page may send.",
    ),
]
