"""The route table of the Image API."""

from minova.api.http.definition import Route
from minova.api.image import data, images, versions, view
from minova.api.image.changes import members, records
from minova.api.image.importing import imports

ROUTES: tuple[Route, ...] = (
    *versions.ROUTES,
    *images.ROUTES,
    *imports.ROUTES,
    *records.ROUTES,
    *data.ROUTES,
    *members.ROUTES,
    *view.ROUTES,
)
