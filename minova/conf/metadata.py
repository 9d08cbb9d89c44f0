"""Options of minova-metadata for Neutron's proxy."""

from oslo_config import cfg

GROUP = None

OPTS: list[cfg.Opt] = [
    cfg.HostAddressOpt(
        "metadata_listen",
        default="127.0.0.1",
        help="Address that minova-metadata listens on for Neutron's proxy, with [neutron] service_metadata_proxy.",
    ),
    cfg.PortOpt(
        "metadata_listen_port",
        default=8775,
        help="Port that minova-metadata listens on for Neutron's proxy; 0 takes a free one.",
    ),
]
