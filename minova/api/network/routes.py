"""The route table of the Network API."""

from minova.api.http.definition import Route
from minova.api.network import (
    networks,
    not_served,
    ports,
    quotas,
    security_group_rules,
    security_groups,
    subnets,
    versions,
)

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *networks.ROUTES,
    *subnets.ROUTES,
    *ports.ROUTES,
    *security_groups.ROUTES,
    *security_group_rules.ROUTES,
    *quotas.ROUTES,
    *not_served.ROUTES,
)
