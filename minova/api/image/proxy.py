"""Images for the Compute API's `/images`, which Nova has until 2.35. Lists, shows and deletes images and sets their
properties, but makes none.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Protocol

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.image.changes.records import change
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.filters import ImagesQuery, any_of, matcher, order
from minova.api.image.images import (
    FIELDS,
    RESERVED_PREFIX,
    checked_properties,
    delete,
    find_for,
    require_free,
    target_of,
)
from minova.api.image.view import is_visible
from minova.db.api_queries import images
from minova.objects.catalogue.image import Image

Properties = dict[str, str]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters in the format of the Image API.

    `updated_at`: with an operator, for example gte:2026-01-31T12:00:00Z.
    `others`: fields and properties.
    """

    name: str | None = None
    status: str | None = None
    updated_at: str | None = None
    others: Mapping[str, str] = {}


class ImageProxy(Protocol):
    """The interface of the built-in service and of Glance. `call.path` has the `image_id`.

    All methods raise NotFound, Forbidden and ServiceUnavailable.
    """

    def page(self, call: Call, filters: Filters, limit: int, marker: str | None) -> list[Image]:
        """Returns the images that the caller sees, the newest first. Raises BadRequest if there is no such marker, or a
        filter is malformed.
        """
        ...

    def show(self, call: Call) -> Image: ...

    def set_properties(self, call: Call, make: Callable[[Properties], Properties]) -> Properties:
        """Replaces the properties with the result of `make`; properties that no user may set stay. Raises BadRequest if
        they are invalid.
        """
        ...

    def delete(self, call: Call) -> None: ...


def checked(properties: Properties) -> Properties:
    """Returns the properties if a request may set them. Raises Forbidden, BadRequest or ImageLimitExceeded
    otherwise.
    """
    for key in properties:
        require_free(key)
        if key in FIELDS:
            raise errors.BadRequest(f"'{key}' is a field of an image, and no property: the Image API changes it.")
    return checked_properties(properties)


def with_reserved(before: Properties, after: Properties) -> Properties:
    reserved_properties = {key: value for key, value in before.items() if key.startswith(RESERVED_PREFIX)}
    return {
        **checked({key: value for key, value in after.items() if reserved_properties.get(key) != value}),
        **reserved_properties,
    }


class BuiltInProxy:
    """Uses the Image API in this process, with its policies."""

    def __init__(self, api: ImageApiCollaborators) -> None:
        self._api = api

    def page(self, call: Call, filters: Filters, limit: int, marker: str | None) -> list[Image]:
        call.require("get_images")
        query = ImagesQuery(name=filters.name, status=filters.status, updated_at=filters.updated_at, marker=marker)
        matches = matcher(msgspec.structs.replace(call, query=query), filters.others)
        with self._api.db.read() as session:
            try:
                rows = images.images(
                    session,
                    order(query),
                    marker,
                    project_id=call.ctx.project_id,
                    is_visible=lambda seen_image: is_visible(seen_image, call),
                    names=any_of(query.name),
                    statuses=any_of(query.status),
                )
                allowed = (
                    seen_image
                    for seen_image in rows
                    if matches(seen_image) and call.permits("get_image", target_of(call, seen_image))
                )
                return [seen_image.image for seen_image in islice(allowed, limit)]
            except LookupError:
                raise errors.BadRequest(f"marker {marker} could not be found") from None

    def show(self, call: Call) -> Image:
        return find_for(self._api, _as(call, "get_image"))

    def set_properties(self, call: Call, make: Callable[[Properties], Properties]) -> Properties:
        image = find_for(self._api, _as(call, "modify_image"))

        def changed(current: Image) -> Image:
            properties = with_reserved(current.properties, make(current.properties))
            return msgspec.structs.replace(current, properties=properties)

        return change(self._api, call.ctx, image.id, changed).properties

    def delete(self, call: Call) -> None:
        delete(self._api, _as(call, "delete_image"))


def _as(call: Call, rule: str) -> Call:
    """Returns the same request for the Image API. Raises Forbidden if the Image API's policy does not permit it."""
    call.require(rule)
    return msgspec.structs.replace(call, rule=rule)
