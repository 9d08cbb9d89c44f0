"""Policies of the Network API. Names and defaults are Neutron's. Names with an attribute behind a colon are for
requests that set it.

`create_port:fixed_ips...` and `create_port:mac_address` are about the project of the port's network.
"""

from minova.api.policies.base import ADMIN, EVERY_USER, MEMBER, READER, PolicyRule, rules

_PROVIDER = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")

_BINDING = ("host_id", "profile", "vif_type", "vif_details")
_TAGGED = ("network", "subnet", "subnetpool", "port", "security_group", "security_group_rule", "address_group")

RULES: tuple[PolicyRule, ...] = rules(
    "",
    ("get_extension", EVERY_USER, "List the extensions of the Network API."),
    ("get_agent", ADMIN, "List and show the computes, as agents."),
    ("get_availability_zone", READER, "List the availability zones of networks."),
    ("get_network_ip_availability", ADMIN, "See how many addresses of networks are used."),
    ("get_router", READER, "List routers: there are none."),
    ("get_floatingip", READER, "List floating addresses: there are none."),
    ("get_rbac_policy", READER, "List RBAC policies: there are none."),
    ("get_service_provider", EVERY_USER, "List providers of further network services: there are none."),
    ("get_quota", ADMIN, "List the limits of projects, and show those of another project."),
    ("update_quota", ADMIN, "Change the limits of a project."),
    ("delete_quota", ADMIN, "Give a project the default limits again."),
    ("create_network", MEMBER, "Create a network."),
    ("create_network:shared", ADMIN, "Create a network that every project may use."),
    ("create_network:router:external", ADMIN, "Create a network that every project sees."),
    ("create_network:minova:reachable", ADMIN, "Create a network that its hosts reach."),
    *((f"create_network:{name}", ADMIN, f"Choose {name} of a new network.") for name in _PROVIDER),
    ("get_network", READER, "Show and list networks."),
    ("get_network:minova:reachable", ADMIN, "See whether hosts reach a network."),
    *((f"get_network:{name}", ADMIN, f"See {name} of networks.") for name in _PROVIDER),
    ("update_network", MEMBER, "Change a network."),
    ("update_network:shared", ADMIN, "Let every project use a network, or no longer."),
    ("update_network:router:external", ADMIN, "Let every project see a network, or no longer."),
    ("update_network:minova:reachable", ADMIN, "Let hosts reach a network, or no longer."),
    ("delete_network", MEMBER, "Delete a network."),
    ("create_subnet", MEMBER, "Create a subnet of an own network."),
    ("get_subnet", READER, "Show and list subnets."),
    ("update_subnet", MEMBER, "Change a subnet."),
    ("delete_subnet", MEMBER, "Delete a subnet."),
    ("create_subnetpool", MEMBER, "Create a subnet pool."),
    ("create_subnetpool:shared", ADMIN, "Create a subnet pool that every project may use."),
    ("create_subnetpool:is_default", ADMIN, "Make a new subnet pool the default one of its IP version."),
    ("get_subnetpool", READER, "Show and list subnet pools."),
    ("update_subnetpool", MEMBER, "Change a subnet pool."),
    ("update_subnetpool:is_default", ADMIN, "Make a subnet pool the default one of its IP version, or no longer."),
    ("delete_subnetpool", MEMBER, "Delete a subnet pool."),
    ("create_port", MEMBER, "Create a port."),
    ("create_port:mac_address", MEMBER, "Choose the MAC address of a new port, on an own network."),
    ("create_port:device_owner", MEMBER, "Name a device owner `network:...` of a new port, on an own network."),
    ("create_port:fixed_ips:ip_address", MEMBER, "Choose the addresses of a new port, on an own network."),
    ("create_port:fixed_ips:subnet_id", MEMBER, "Choose the subnets of a new port, on an own network."),
    ("create_port:binding:host_id", ADMIN, "Name the host of a new port."),
    ("create_port:binding:profile", ADMIN, "Give a new port a profile: it is kept and shown."),
    ("get_port", READER, "Show and list ports."),
    *((f"get_port:binding:{name}", ADMIN, f"See binding:{name} of ports.") for name in _BINDING),
    ("update_port", MEMBER, "Change a port."),
    ("update_port:mac_address", ADMIN, "Change the MAC address of a port."),
    ("update_port:device_owner", MEMBER, "Name a device owner `network:...` of a port, on an own network."),
    ("update_port:fixed_ips:ip_address", MEMBER, "Choose other addresses of a port, on an own network."),
    ("update_port:fixed_ips:subnet_id", MEMBER, "Choose other subnets of a port, on an own network."),
    ("update_port:binding:host_id", ADMIN, "Name another host of a port."),
    ("update_port:binding:profile", ADMIN, "Give a port another profile: it is kept and shown."),
    ("delete_port", MEMBER, "Delete a port."),
    ("create_port:port_security_enabled", MEMBER, "Choose whether a new port is secured, on an own network."),
    ("create_port:allowed_address_pairs", MEMBER, "Let a new port send from other addresses, on an own network."),
    ("update_port:port_security_enabled", MEMBER, "Choose whether a port is secured, on an own network."),
    ("update_port:allowed_address_pairs", MEMBER, "Let a port send from other addresses, on an own network."),
    *((f"get_{kind}:tags", READER, f"See the tags of a {kind}.") for kind in _TAGGED),
    *(
        (f"{verb}_{kind}:tags", MEMBER, f"{verb.capitalize()} tags of a {kind}.")
        for kind in _TAGGED
        for verb in ("create", "update", "delete")
    ),
    ("create_security_group", MEMBER, "Create a security group."),
    ("get_security_group", READER, "Show and list security groups."),
    ("update_security_group", MEMBER, "Change a security group."),
    ("delete_security_group", MEMBER, "Delete a security group."),
    ("create_security_group_rule", MEMBER, "Create a rule of an own security group."),
    ("get_security_group_rule", READER, "Show and list rules of security groups."),
    ("delete_security_group_rule", MEMBER, "Delete a rule of a security group."),
    ("create_address_group", MEMBER, "Create an address group."),
    ("get_address_group", READER, "Show and list address groups."),
    ("update_address_group", MEMBER, "Change an address group."),
    ("add_addresses", MEMBER, "Add addresses to an address group."),
    ("remove_addresses", MEMBER, "Remove addresses from an address group."),
    ("delete_address_group", MEMBER, "Delete an address group."),
)
