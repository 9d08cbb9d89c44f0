"""Options of Neutron."""

from oslo_config import cfg

GROUP = "neutron"

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "service_metadata_proxy",
        default=False,
        help="Whether minova-metadata serves Neutron's metadata proxy, which names the server in X-Instance-ID.",
    ),
    cfg.StrOpt(
        "metadata_proxy_shared_secret",
        default="",
        secret=True,
        help="The secret with which Neutron's metadata proxy signs X-Instance-ID: the same as in its own configuration. Needed for "
        "service_metadata_proxy.",
    ),
]
