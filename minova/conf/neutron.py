"""Options of Neutron."""

from oslo_config import cfg

GROUP = "neutron"

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "backend",
        default="minova",
        choices=["minova", "neutron"],
        help="Which service has the networks of new servers: minova's own, or a Neutron beside minova, which needs auth_type and the options of that "
        "plugin of keystoneauth in this section. Read by minova-api and the conductors. Existing servers keep their interfaces.",
    ),
    cfg.StrOpt("service_type", default="network", help="Of Neutron in the catalog."),
    cfg.StrOpt("service_name", help="Of Neutron in the catalog, if there are several."),
    cfg.StrOpt("region_name", help="Of Neutron in the catalog."),
    cfg.ListOpt(
        "valid_interfaces", default=["internal", "public"], help="Of Neutron in the catalog, the best one first."
    ),
    cfg.StrOpt(
        "endpoint_override",
        help="URL of Neutron, without its version. Empty: the catalog of Keystone says where it is.",
    ),
    cfg.StrOpt(
        "ovs_bridge",
        default="br-int",
        help="Bridge of Open vSwitch on which hosts plug interfaces of type ovs, where Neutron names none.",
    ),
    cfg.IntOpt("http_retries", default=3, min=0, help="How often a request to Neutron that fails is sent again."),
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
