"""Nova's group [image_cache], as far as it concerns minova."""

from oslo_config import cfg

GROUP = "image_cache"

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "precache_concurrency",
        default=1,
        min=1,
        help="How many hosts a conductor lets cache images at the same time (POST /os-aggregates/{id}/images). A host that "
        "needs more than a minute lets others begin.",
    ),
    cfg.IntOpt(
        "manager_interval",
        default=2400,
        min=-1,
        deprecated_name="image_cache_manager_interval",
        deprecated_group="DEFAULT",
        help="Seconds between clean-ups of the image cache; 0 means 60, -1 switches them off.",
    ),
    cfg.BoolOpt(
        "remove_unused_base_images",
        default=True,
        mutable=True,
        deprecated_group="DEFAULT",
        help="Remove base images on which no disk of this host stands any more.",
    ),
    cfg.IntOpt(
        "remove_unused_original_minimum_age_seconds",
        default=86400,
        min=0,
        mutable=True,
        deprecated_group="DEFAULT",
        help="Seconds since a base image was last asked for before it counts as unused; at least 300 are waited, since a disk may "
        "be made on it right now.",
    ),
]
