"""The networks of servers: minova's own, or those of a Neutron beside minova."""
