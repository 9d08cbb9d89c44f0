"""Calls of the API whose second delivery would do harm: the change of another request would be undone, or a thing made again.

The sender gives each message of these calls an ID, and the conductor executes each ID once (`conductor/tasks/delivery.py`). The other
calls that write need none: they have an ID or a condition of their own (servers, server actions, images, UUIDs of what is deleted).
"""

ONCE = frozenset(
    {
        *("update_server", "reset_server_state", "clear_server_password"),
        *("create_flavor", "update_flavor", "delete_flavor", "add_flavor_access", "remove_flavor_access"),
        "update_flavor_extra_specs",
        *(
            "create_aggregate",
            "update_aggregate",
            "delete_aggregate",
            "add_host_to_aggregate",
            "remove_host_from_aggregate",
        ),
        "create_server_group",
        *("create_key_pair", "delete_key_pair"),
        *("update_quota_set", "delete_quota_set", "update_quota_class_set"),
        *("create_networks", "update_network", "create_subnets", "update_subnet"),
        *("create_port", "create_ports", "update_port"),
        *("create_security_groups", "update_security_group", "create_security_group_rules"),
        *("create_address_groups", "update_address_group", "change_addresses"),
        *("create_subnet_pools", "update_subnet_pool"),
        "update_network_tags",
        *("add_image_member", "update_image_member", "remove_image_member"),
        "update_service",
    }
)
