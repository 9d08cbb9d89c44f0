"""Which networks a server is to be on: minova's own, or those of a Neutron beside minova."""
