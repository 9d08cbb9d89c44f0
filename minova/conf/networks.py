"""Options of the networks of guests on a host."""

from oslo_config import cfg

GROUP = "networks"

OPTS: list[cfg.Opt] = [
    cfg.ListOpt(
        "local_ranges",
        default=[],
        help="Ranges such as 10.128.0.0/9 in which users may make subnets of local networks; empty: private ones, and any for administrators. Every host has routes to "
        "these subnets, which come before its route to the same addresses elsewhere: name ranges that no host, broker or database "
        "of this cloud is in. Of the conductors.",
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
        help="Whether guests of local networks reach the metadata service: minova-compute gives the host the address "
        "169.254.169.254, and minova-metadata answers there. Without it guests reach nothing at that address.",
    ),
    cfg.DictOpt(
        "bridge_mappings",
        default={},
        help="Bridges of this host that carry flat networks and VLANs: PHYSICAL_NETWORK:BRIDGE for a flat network, "
        "PHYSICAL_NETWORK.VLAN:BRIDGE for a VLAN, whose bridge stands on the tagged interface. A host offers those that "
        "are there (traits CUSTOM_PHYSNET_...), and the scheduler sends it no server on any other.",
    ),
]
