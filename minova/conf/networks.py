"""Options of the networks of guests on a host."""

from oslo_config import cfg

GROUP = "networks"
HELPER = "/run/minova/network.sock"
# In another folder: the units of other services than minova-compute hide that of HELPER.
METADATA_HELPER = "/run/minova-metadata/network.sock"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "local_ranges",
        default=[],
        help="Ranges such as 10.128.0.0/9 in which users may make subnets of local networks; empty: private ones, and any for administrators. Hosts have routes to "
        "subnets of reachable networks, which come before their route to the same addresses elsewhere: name ranges that no host, "
        "broker or database of this cloud is in. Of the conductors.",
    ),
    cfg.StrOpt(
        "default_subnet",
        default="auto",
        help="Range of the network `default`, which minova-standalone makes at its first start, shared by all projects: auto: one to which the "
        "host has no route; none: no network is made.",
    ),
    cfg.BoolOpt(
        "metadata_service",
        default=True,
        help="Whether guests of local networks reach the metadata service: minova-metadata answers "
        "at 169.254.169.254 in each of them. Without it guests reach nothing at that address.",
    ),
    cfg.StrOpt(
        "helper_socket",
        default=HELPER,
        help="Where minova-network-helper makes local networks for minova-compute, which is not root.",
    ),
    cfg.StrOpt(
        "metadata_helper_socket",
        default=METADATA_HELPER,
        help="Where minova-network-helper opens sockets in local networks for minova-metadata, and does nothing else.",
    ),
    cfg.DictOpt(
        "bridge_mappings",
        default={},
        help="Bridges of this host that carry flat networks and VLANs: PHYSICAL_NETWORK:BRIDGE for a flat network, "
        "PHYSICAL_NETWORK.VLAN:BRIDGE for a VLAN, whose bridge stands on the tagged interface. A host offers those that "
        "are there (traits CUSTOM_PHYSNET_...), and the scheduler sends it no server on any other.",
    ),
]
