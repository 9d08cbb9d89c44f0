"""`/v2/images`: the records of images. Their bytes have a file of their own."""

import uuid
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.structs import page_size
from minova.api.image.collaborators import Collaborators
from minova.api.image.filters import ImagesQuery, any_of, matcher, order
from minova.api.image.view import view, visible
from minova.api.policies.enforcer import Target
from minova.codecs import Decoder
from minova.db.api_queries import images
from minova.objects.image import Image

PAGE = 25  # the Image API's, when no limit is asked for
TAGS = 128
PROPERTIES = 128
Visibility = Literal["public", "private", "shared", "community"]
Size = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
Tag = Annotated[str, msgspec.Meta(max_length=255)]
READ_ONLY = frozenset(
    ("status", "created_at", "updated_at", "checksum", "os_hash_algo", "os_hash_value", "size", "virtual_size")
) | frozenset(("self", "file", "schema", "direct_url", "locations", "stores"))
# Which disk formats an instance can boot from, and in which they must be: nothing else could be checked.
DISK_FORMATS = ("qcow2", "raw")
CONTAINER_FORMATS = ("bare",)


class NewImage(msgspec.Struct, frozen=True, kw_only=True):
    """`min_disk` in GB, `min_ram` in MB. What else the body has is a property, and must be a string."""

    id: str | None = None
    name: str | None = None
    visibility: Visibility = "shared"
    protected: bool = False
    os_hidden: bool = False
    owner: str | None = None
    tags: tuple[Tag, ...] = ()
    disk_format: str | None = None
    container_format: str | None = None
    min_disk: Size = 0
    min_ram: Size = 0


_NEW_IMAGE = Decoder(NewImage, strict=False)


def list_images(api: Collaborators, call: Call) -> dict[str, Any]:
    query: ImagesQuery = call.query
    size = page_size(PAGE if query.limit is None else query.limit, api.conf.api.max_limit)
    with api.db.read() as session:
        try:
            rows = images.images(
                session,
                order(query),
                query.marker or None,
                is_visible=lambda image: visible(image, call) is not None,
                names=any_of(query.name),
                statuses=any_of(query.status),
            )
            matches = matcher(call)
            page = list(islice((image for image in rows if matches(image)), size + 1))
        except LookupError:
            raise errors.BadRequest(f"marker {query.marker} could not be found") from None
    answer: dict[str, Any] = {
        "images": [view(image) for image in page[:size]],
        "first": links.first_path(call),
        "schema": "/v2/schemas/images",
    }
    if 0 < size < len(page):
        answer["next"] = links.next_path(call, page[size - 1].id)
    return answer


def show(api: Collaborators, call: Call) -> dict[str, Any]:
    image = find(api, call)
    call.require_for(target_of(image))
    return view(image)


def create(api: Collaborators, call: Call) -> dict[str, Any]:
    image = _new(call)
    made = view(api.conductor.create_image(call.ctx, image=image))
    call.response.set_header("Location", call.url(f"/v2/images/{image.id}"))
    return made


def delete(api: Collaborators, call: Call) -> None:
    """Deletes the record first: bytes without a record do no harm."""
    image = find(api, call)
    call.require_for(target_of(image))
    if image.protected:
        raise errors.Forbidden(f"Image {image.id} is protected and cannot be deleted.")
    api.conductor.delete_image(call.ctx, image_id=image.id)
    api.store.delete(image.id)


def find(api: Collaborators, call: Call) -> Image:
    """The image in the path. Raises NotFound also for an image that the caller may not see."""
    wanted = call.path["image_id"]
    with api.db.read() as session:
        image = visible(images.image(session, wanted), call)
    if image is None:
        raise errors.NotFound(f"No image found with ID {wanted[:255]}.")
    return image


def target_of(image: Image) -> Target:
    return Target(project_id=image.owner or "", visibility=image.visibility)


def _new(call: Call) -> Image:
    body: dict[str, Any] = call.body
    for key in READ_ONLY & body.keys():
        raise errors.Forbidden(f"Attribute '{key}' is read-only.")
    known = set(NewImage.__struct_fields__)
    try:
        record = _NEW_IMAGE.from_builtins({key: value for key, value in body.items() if key in known})
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Provided object does not match schema 'image': {error}") from None
    if record.visibility == "public":
        call.require("publicize_image")
    if record.visibility == "community":
        call.require("communitize_image")
    if record.owner not in (None, call.ctx.project_id):
        call.require_for(Target(project_id=record.owner))
    return Image(
        id=_new_id(record.id),
        name=None if record.name is None else names.checked("Image name", record.name),
        disk_format=_one_of("disk_format", record.disk_format, DISK_FORMATS),
        container_format=_one_of("container_format", record.container_format, CONTAINER_FORMATS),
        min_disk=record.min_disk,
        min_ram=record.min_ram,
        visibility=record.visibility,
        protected=record.protected,
        os_hidden=record.os_hidden,
        owner=record.owner or call.ctx.project_id,
        tags=_tags(record.tags),
        properties=_properties({key: value for key, value in body.items() if key not in known}),
    )


def _new_id(requested: str | None) -> str:
    if requested is None:
        return str(uuid.uuid4())
    try:
        return str(uuid.UUID(requested))
    except ValueError:
        raise errors.BadRequest("An image's id must be a UUID.") from None


def _one_of(field: str, value: str | None, served: Sequence[str]) -> str | None:
    if value is not None and value not in served:
        raise errors.BadRequest(f"{field} '{value[:64]}' is not served; served are: {', '.join(served)}.")
    return value


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    if len(tags) > TAGS:
        raise errors.BadRequest(f"An image may have {TAGS} tags.")
    return tuple(dict.fromkeys(tags))


def _properties(properties: dict[str, Any]) -> dict[str, str]:
    if len(properties) > PROPERTIES:
        raise errors.BadRequest(f"An image may have {PROPERTIES} properties.")
    for key, value in properties.items():
        fault = names.fault_of(key)
        if fault:
            raise errors.BadRequest(f"The name of a property is not valid: {fault}.")
        if not isinstance(value, str):
            raise errors.BadRequest(f"Property '{key}' must be a string.")
    return properties
