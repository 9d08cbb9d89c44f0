"""The route table of the Network API."""

from minova.api.http.definition import Route
from minova.api.network import networks, ports, subnet_pools, subnets, tags
from minova.api.network.overview import agents, ip_availability, not_served, quotas, versions
from minova.api.network.security import address_groups, security_group_rules, security_groups

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *networks.ROUTES,
    *subnets.ROUTES,
    *subnet_pools.ROUTES,
    *ports.ROUTES,
    *security_groups.ROUTES,
    *security_group_rules.ROUTES,
    *address_groups.ROUTES,
    *tags.ROUTES,
    *quotas.ROUTES,
    *agents.ROUTES,
    *ip_availability.ROUTES,
    *not_served.ROUTES,
)
