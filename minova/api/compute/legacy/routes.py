"""Routes that newer microversions do not have, and routes that Nova has removed."""

from minova.api.compute.legacy import extensions, images, networks, retired, security_groups
from minova.api.http.definition import Route

ROUTES: tuple[Route, ...] = (
    *extensions.ROUTES,
    *images.ROUTES,
    *networks.ROUTES,
    *security_groups.ROUTES,
    *retired.ROUTES,
)
