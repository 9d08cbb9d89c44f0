"""Where computes fetch images."""

from oslo_config import cfg

GROUP = "glance"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "endpoint_override",
        default="http://127.0.0.1:8774",
        help="URL of the image service: minova-api.",
    ),
    cfg.StrOpt(
        "username",
        help="User for an image service that is not minova-api, or for one beside conductors of 0.1.0. minova-api takes the "
        "conductors' tokens, and a compute needs no user there.",
    ),
    cfg.StrOpt("password", secret=True, help="Password of username."),
    cfg.StrOpt(
        "cafile",
        help="Certificates (PEM) to check an https image service against; default: those of the system.",
    ),
    cfg.IntOpt(
        "num_retries",
        default=3,
        min=0,
        help="How often a broken download is taken up again.",
    ),
    cfg.IntOpt(
        "timeout",
        default=60,
        min=1,
        help="Seconds without a byte after which a download counts as broken.",
    ),
]
