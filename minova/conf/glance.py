"""Where computes fetch images, and which service keeps them."""

from oslo_config import cfg

GROUP = "glance"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "backend",
        default="minova",
        choices=["minova", "glance"],
        help="Which service keeps images: minova-api's own, or a Glance beside minova, which needs [api] auth_strategy keystone and "
        "the user of [service_user]. For minova-api; computes fetch images from minova-api in both cases.",
    ),
    cfg.ListOpt(
        "api_servers",
        default=[],
        help="URLs of Glance, each of which is asked in turn. Empty: the catalog of Keystone says where it is.",
    ),
    cfg.StrOpt("service_type", default="image", help="Of Glance in the catalog."),
    cfg.StrOpt("service_name", help="Of Glance in the catalog, if there are several."),
    cfg.StrOpt("region_name", help="Of Glance in the catalog."),
    cfg.ListOpt(
        "valid_interfaces", default=["internal", "public"], help="Of Glance in the catalog, the best one first."
    ),
    cfg.IntOpt("image_chunk_size", default=65536, min=1, help="Bytes that minova-api reads from Glance at a time."),
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
        help="How often a broken download is taken up again, or Glance is asked once more.",
    ),
    cfg.IntOpt(
        "timeout",
        default=60,
        min=1,
        help="Seconds without a byte after which a download counts as broken, or Glance does not answer.",
    ),
]
