"""`/v2/images`: the records of images. `data` serves their bytes."""

import uuid
from collections.abc import Mapping, Sequence, Sized
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec

from minova import errors
from minova.api.http import links, names
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.structs import page_size
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.filters import ImagesQuery, any_of, matcher, order
from minova.api.image.view import ImageAnswer, find_visible, is_visible, view
from minova.api.policies.enforcer import Target
from minova.codecs import Decoder
from minova.db.api_queries import images
from minova.db.api_queries.images import ImageWithMembership
from minova.objects.catalogue.image import Image

PAGE = 25  # the Image API's default
TAGS = 128
PROPERTIES = 128
# The most bytes of all names and values together, in UTF-8.
PROPERTY_BYTES = 128 << 10
Visibility = Literal["public", "private", "shared", "community"]
Size = Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]
Tag = Annotated[str, msgspec.Meta(max_length=255)]
READ_ONLY = frozenset(
    ("status", "created_at", "updated_at", "checksum", "os_hash_algo", "os_hash_value", "size", "virtual_size")
) | frozenset(("self", "file", "schema", "direct_url", "stores"))
# As in Glance: names that a later release may define.
RESERVED = frozenset(("location", "deleted", "deleted_at"))
RESERVED_PREFIX = "os_glance"
# Disk formats that an instance can boot from. Images in other formats are refused, because they could not be checked.
DISK_FORMATS = ("qcow2", "raw")
CONTAINER_FORMATS = ("bare",)
_SERVED = {"disk_format": DISK_FORMATS, "container_format": CONTAINER_FORMATS}


class NewImage(msgspec.Struct, frozen=True, kw_only=True):
    """`min_disk` in GB, `min_ram` in MB. All other keys of the body are properties, and their values must
    be strings.
    """

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
FIELDS = frozenset(NewImage.__struct_fields__)


def list_images(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    query: ImagesQuery = call.query
    size = page_size(PAGE if query.limit is None else query.limit, api.conf.api.max_limit)
    with api.db.read() as session:
        try:
            rows = images.images(
                session,
                order(query),
                query.marker or None,
                project_id=call.ctx.project_id,
                is_visible=lambda seen: is_visible(seen, call),
                names=any_of(query.name),
                statuses=any_of(query.status),
            )
            matches = matcher(call)
            page = [matching_row.image for matching_row in islice((row for row in rows if matches(row)), size + 1)]
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


def show(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    return view(find_for(api, call))


def create(api: ImageApiCollaborators, call: Call) -> dict[str, Any]:
    image = _new(call)
    image_view = view(api.conductor.create_image(call.ctx, image=image))
    call.response.set_header("Location", call.url(f"/v2/images/{image.id}"))
    return image_view


def delete(api: ImageApiCollaborators, call: Call) -> None:
    """Deletes the record first: bytes without a record do no harm."""
    image = find_for(api, call)
    if image.protected:
        raise errors.Forbidden(f"Image {image.id} is protected and cannot be deleted.")
    api.conductor.delete_image(call.ctx, image_id=image.id)
    api.store.delete(image.id)
    api.store.stop_upload(image.id)


def find(api: ImageApiCollaborators, call: Call) -> ImageWithMembership:
    """Returns the image in the path. Raises NotFound also if the caller may not see it."""
    image_id = call.path["image_id"]
    with api.db.read() as session:
        visible = find_visible(session, image_id, call)
    if visible is None:
        raise errors.NotFound(f"No image found with ID {image_id[:255]}.")
    return visible


def find_for(api: ImageApiCollaborators, call: Call) -> Image:
    """Returns the image in the path.

    Raises NotFound if the caller may not see it, Forbidden if the policy of the route does not permit the request for
    this image.
    """
    visible = find(api, call)
    call.require_for(target_of(call, visible))
    return visible.image


def target_of(call: Call, seen: ImageWithMembership) -> Target:
    image = seen.image
    member_id = call.ctx.project_id if seen.member_status is not None else ""
    return Target(project_id=image.owner or "", visibility=image.visibility, member_id=member_id)


def _new(call: Call) -> Image:
    body: dict[str, Any] = call.body
    for key in body:
        require_free(key)
    record = decoded({key: value for key, value in body.items() if key in FIELDS})
    require_visibility(call, record.visibility)
    if record.owner not in (None, call.ctx.project_id):
        call.require_for(Target(project_id=record.owner))
    checked = {field: checked_field(field, getattr(record, field)) for field in FIELDS - {"id", "owner"}}
    return Image(
        **checked,
        id=_new_id(record.id),
        owner=record.owner or call.ctx.project_id,
        properties=checked_properties({key: value for key, value in body.items() if key not in FIELDS}),
    )


def require_free(key: str) -> None:
    """Raises Forbidden if no request may set the attribute."""
    if key in READ_ONLY:
        raise errors.Forbidden(f"Attribute '{key}' is read-only.")
    if key in RESERVED or key.startswith(RESERVED_PREFIX):
        raise errors.Forbidden(f"Attribute '{key}' is reserved.")


def require_visibility(call: Call, visibility: str) -> None:
    if visibility == "public":
        call.require("publicize_image")
    if visibility == "community":
        call.require("communitize_image")


def decoded(fields: dict[str, Any]) -> NewImage:
    try:
        return _NEW_IMAGE.from_builtins(fields)
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Provided object does not match schema 'image': {error}") from None


def checked_field(field: str, value: Any) -> Any:
    """Returns the value of a field of NewImage, as the image gets it. Raises BadRequest if it is invalid."""
    if field == "name":
        return None if value is None else names.checked("Image name", value)
    if field in _SERVED:
        return _one_of(field, value, _SERVED[field])
    return checked_tags(value) if field == "tags" else value


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


def checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Returns each tag once. Raises ImageLimitExceeded if there are too many."""
    unique_tags = tuple(dict.fromkeys(tags))
    if len(unique_tags) > TAGS:
        raise errors.ImageLimitExceeded(_too_many("tags", len(unique_tags), TAGS))
    return unique_tags


def checked_properties(properties: dict[str, Any]) -> dict[str, str]:
    """Raises ImageLimitExceeded if there are too many properties or bytes, BadRequest if a property is invalid."""
    check_number(properties)
    for key, value in properties.items():
        check_property(key, value)
    check_size(properties)
    return properties


def check_number(properties: Sized) -> None:
    """Raises ImageLimitExceeded if there are too many properties."""
    if len(properties) > PROPERTIES:
        raise errors.ImageLimitExceeded(_too_many("properties", len(properties), PROPERTIES))


def check_size(properties: Mapping[str, str]) -> None:
    """Raises ImageLimitExceeded if the properties are too long: listings read them, and servers keep a copy of those of
    their image.
    """
    size = sum(len(text.encode()) for pair in properties.items() for text in pair)
    if size > PROPERTY_BYTES:
        raise errors.ImageLimitExceeded(
            f"The properties of an image have at most {PROPERTY_BYTES} bytes together, names and values, and these have {size}."
        )


def check_property(key: str, value: Any) -> None:
    fault = names.fault_of(key)
    if fault:
        raise errors.BadRequest(f"The name of a property is not valid: {fault}.")
    if not isinstance(value, str):
        raise errors.BadRequest(f"Provided object does not match schema 'image': Property '{key}' must be a string.")


def _too_many(what: str, attempted: int, maximum: int) -> str:
    return (
        f"The limit has been exceeded on the number of allowed image {what}. Attempted: {attempted}, Maximum: {maximum}"
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2/images",
        rule="get_images",
        handler=list_images,
        answer={"images": list[ImageAnswer], "first": str, "schema": str, "next?": str},
        query=ImagesQuery,
    ),
    Route(method="GET", path="/v2/images/{image_id}", rule="get_image", handler=show, answer=ImageAnswer),
    Route(method="DELETE", path="/v2/images/{image_id}", rule="delete_image", handler=delete, status=204),
)
