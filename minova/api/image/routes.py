"""The route table of the Image API."""

from typing import Any

from minova.api.http.definition import Route
from minova.api.image import data, images, versions, view
from minova.api.image.filters import ImagesQuery
from minova.api.policies.base import AUTHENTICATED

_IMAGE = "/v2/images/{image_id}"

ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/image", handler=versions.versions, status=300),
    Route(method="GET", path="/v2", handler=versions.versions, status=300),
    Route(method="GET", path="/v2/images", rule="get_images", handler=images.list_images, query=ImagesQuery),
    Route(method="POST", path="/v2/images", rule="add_image", handler=images.create, body=dict[str, Any], status=201),
    Route(method="GET", path=_IMAGE, rule="get_image", handler=images.show),
    Route(method="DELETE", path=_IMAGE, rule="delete_image", handler=images.delete, status=204),
    Route(method="PUT", path=f"{_IMAGE}/file", rule="upload_image", handler=data.upload, status=204),
    Route(method="GET", path=f"{_IMAGE}/file", rule="download_image", handler=data.download),
    Route(method="GET", path="/v2/schemas/image", rule=AUTHENTICATED, handler=view.image_schema),
    Route(method="GET", path="/v2/schemas/images", rule=AUTHENTICATED, handler=view.images_schema),
)
