"""The Compute API's `/images` with a Glance beside minova: each request becomes a request of the user to Glance."""

from collections.abc import Callable
from typing import Any

from minova import errors
from minova.api.http.call import Call
from minova.api.image.glance.client import GlanceClient
from minova.api.image.glance.images import image_of
from minova.api.image.proxy import Filters, Properties, with_reserved
from minova.objects.catalogue.image import Image
from minova.uuids import canonical_uuid


class GlanceProxy:
    """Glance decides who may see and change an image."""

    def __init__(self, client: GlanceClient) -> None:
        self._client = client

    def page(self, call: Call, filters: Filters, limit: int, marker: str | None) -> list[Image]:
        own_filters = {
            "name": filters.name,
            "status": filters.status,
            "updated_at": filters.updated_at,
            "marker": marker,
        }
        query = {**filters.others, **{key: value for key, value in own_filters.items() if value is not None}}
        return [image_of(each) for each in self._client.page({**query, "limit": str(limit)}, _token(call))]

    def show(self, call: Call) -> Image:
        document = self._client.image(_image_id(call), _token(call))
        if document is None:
            raise errors.NotFound("Image not found.")
        return image_of(document)

    def set_properties(self, call: Call, make: Callable[[Properties], Properties]) -> Properties:
        """If two requests change one property at the same time, Glance keeps the last value."""
        before = self.show(call).properties
        after = with_reserved(before, make(before))
        operations = [_operation("remove", key) for key in before.keys() - after.keys()]
        operations += [
            _operation("replace" if key in before else "add", key, value=value)
            for key, value in after.items()
            if before.get(key) != value
        ]
        if operations:
            self._client.patch(_image_id(call), operations, _token(call))
        return after

    def delete(self, call: Call) -> None:
        self._client.remove(_image_id(call), _token(call))


def _operation(name: str, key: str, **more: str) -> dict[str, Any]:
    """Returns an operation of a JSON patch. Its paths have their own escapes."""
    return {"op": name, "path": "/" + key.replace("~", "~0").replace("/", "~1"), **more}


def _image_id(call: Call) -> str:
    """Returns the id for a path in Glance. Raises NotFound if the text cannot be an id."""
    image_id = canonical_uuid(call.path["image_id"])
    if image_id is None:
        raise errors.NotFound("Image not found.")
    return image_id


def _token(call: Call) -> str:
    return call.request.get_header("X-Auth-Token") or ""
