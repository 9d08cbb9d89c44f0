"""The route table of the Network API."""

from minova.api.http.definition import Route
from minova.api.network import networks, ports, subnets, tags
from minova.api.network.security import security_group_rules, security_groups
from minova.api.network.overview import agents, ip_availability, not_served, quotas, versions

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *networks.ROUTES,
    *subnets.ROUTES,
    *ports.ROUTES,
    *security_groups.ROUTES,
    *security_group_rules.ROUTES,
    *tags.ROUTES,
    *quotas.ROUTES,
    *agents.ROUTES,
    *ip_availability.ROUTES,
    *not_served.ROUTES,
)
