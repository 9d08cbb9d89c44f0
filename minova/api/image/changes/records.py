"""Changes of an image's record: PATCH, tags, deactivate and reactivate.

The API computes the new record, and the conductor stores it if the record has not changed since the API read it.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from minova import errors
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.image.changes.json_patch import Operation, Patch, patched
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.images import checked_tags, find_for, require_visibility
from minova.api.image.view import ImageAnswer, view
from minova.context import RequestContext
from minova.db.api_queries import images
from minova.objects.catalogue.image import Image
from minova.races import Race, repeat_lost

LOG = logging.getLogger(__name__)


def change(api: ImageApiCollaborators, ctx: RequestContext, image_id: str, make: Callable[[Image], Image]) -> Image:
    """Replaces an image with the result of `make`.

    Raises NotFound if there is no such image, the errors of `make`, and Conflict if other requests change the image all
    the time.
    """

    def attempt() -> Image:
        with api.db.read() as session:
            current = images.image(session, image_id)
        if current is None:
            raise errors.NotFound(f"No image found with ID {image_id[:255]}.")
        changed_image = make(current)
        if changed_image == current:
            return current
        try:
            return api.conductor.change_image(ctx, expected=current, image=changed_image)
        except errors.PeerTooOld:
            return api.conductor.update_image(ctx, image=changed_image, expected_status=current.status)

    busy = errors.Conflict(f"Image {image_id} is being changed by other requests. Please try again.")
    return repeat_lost(attempt, [Race(errors.ImageChanged, given_up=lambda _: busy)])


def _change_own(api: ImageApiCollaborators, call: Call, image: Image, make: Callable[[Image], Image]) -> Image:
    """The same as `change`, for an image whose policy the caller has passed.

    Raises NotFound if the image belongs to another project by now.
    """

    def make_if_owned(current: Image) -> Image:
        if current.owner != image.owner:
            raise errors.NotFound(f"No image found with ID {image.id}.")
        return make(current)

    return change(api, call.ctx, image.id, make_if_owned)


def update(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    operations: tuple[Operation, ...] = call.body
    image = find_for(api, call)
    for operation in operations:
        _require(call, operation)
    return view(_change_own(api, call, image, lambda current: patched(current, operations)))


def _require(call: Call, operation: Operation) -> None:
    if operation.attribute == "owner" and not call.ctx.is_admin:
        raise errors.Forbidden("Owner can't be updated by non admin.")
    if operation.attribute == "visibility" and operation.name != "remove":
        require_visibility(call, operation.value)


def add_tag(api: ImageApiCollaborators, call: Call) -> None:
    tag = call.path["tag"]
    if len(tag) > 255:
        raise errors.BadRequest("Provided object does not match schema 'image': a tag is longer than 255 characters.")
    image = find_for(api, call)

    def tagged(current: Image) -> Image:
        try:
            return msgspec.structs.replace(current, tags=checked_tags((*current.tags, tag)))
        except errors.ImageLimitExceeded as error:
            raise errors.ImageLimitExceeded(f"Image tag limit exceeded for image {image.id}: {error}:") from None

    _change_own(api, call, image, tagged)


def remove_tag(api: ImageApiCollaborators, call: Call) -> None:
    tag = call.path["tag"]
    image = find_for(api, call)

    def untagged(current: Image) -> Image:
        if tag not in current.tags:
            raise errors.NotFound("The resource could not be found.")
        return msgspec.structs.replace(current, tags=tuple(each for each in current.tags if each != tag))

    _change_own(api, call, image, untagged)


def deactivate(api: ImageApiCollaborators, call: Call) -> None:
    """Deactivates an image: only administrators can download its data then, and no server can be made from it."""
    image = find_for(api, call)
    _change_own(api, call, image, lambda current: _with_status(current, "deactivate", "active", "deactivated"))


def reactivate(api: ImageApiCollaborators, call: Call) -> None:
    image = find_for(api, call)
    _change_own(api, call, image, lambda current: _with_status(current, "reactivate", "deactivated", "active"))


def _with_status(image: Image, verb: str, before: str, after: str) -> Image:
    if image.status not in (before, after):
        raise errors.Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    return msgspec.structs.replace(image, status=after)


ROUTES: tuple[Route, ...] = (
    Route(
        method="PATCH",
        path="/v2/images/{image_id}",
        rule="modify_image",
        handler=update,
        answer=ImageAnswer,
        body=Patch,
    ),
    Route(method="PUT", path="/v2/images/{image_id}/tags/{tag}", rule="modify_image", handler=add_tag, status=204),
    Route(
        method="DELETE", path="/v2/images/{image_id}/tags/{tag}", rule="modify_image", handler=remove_tag, status=204
    ),
    Route(
        method="POST",
        path="/v2/images/{image_id}/actions/deactivate",
        rule="deactivate",
        handler=deactivate,
        status=204,
    ),
    Route(
        method="POST",
        path="/v2/images/{image_id}/actions/reactivate",
        rule="reactivate",
        handler=reactivate,
        status=204,
    ),
)
