"""The route table of Placement."""

from minova.api.http.definition import Route
from minova.api.placement import (
    aggregates,
    allocations,
    candidates,
    inventories,
    providers,
    resource_classes,
    traits,
    usages,
    versions,
)

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *resource_classes.ROUTES,
    *providers.ROUTES,
    *inventories.ROUTES,
    *usages.ROUTES,
    *aggregates.ROUTES,
    *allocations.ROUTES,
    *traits.ROUTES,
    *candidates.ROUTES,
)
