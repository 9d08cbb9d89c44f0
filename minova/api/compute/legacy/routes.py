"""Routes that newer microversions do not have, and routes that Nova has removed."""

from minova.api.compute.legacy import extensions, floating_ips, images, networks, retired, security_groups
from minova.api.http.definition import Route

ROUTES: tuple[Route, ...] = (
    *extensions.ROUTES,
    *floating_ips.ROUTES,
    *images.ROUTES,
    *networks.ROUTES,
    *security_groups.ROUTES,
    *retired.ROUTES,
)
