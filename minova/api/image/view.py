"""The representation of images, their visibility, and their schemas."""

from typing import Any, ClassVar

import msgspec
from sqlalchemy.orm import Session

from minova.api.http import times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.policies.base import AUTHENTICATED
from minova.db.api_queries import images
from minova.db.api_queries.images import ImageWithMembership
from minova.objects.catalogue.image import Image, ImageMember


def is_visible(seen: ImageWithMembership, call: Call) -> bool:
    """Whether the caller may see the image. Members see a shared image whether they have accepted it or not."""
    image = seen.image
    if call.ctx.is_admin or image.visibility in ("public", "community") or image.owner == call.ctx.project_id:
        return True
    return image.visibility == "shared" and seen.member_status is not None


def find_visible(session: Session, image_id: str, call: Call) -> ImageWithMembership | None:
    """Returns None also if the caller may not see the image."""
    row = images.image_for_project(session, image_id, call.ctx.project_id)
    return row if row is not None and is_visible(row, call) else None


class ImageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Only for the description of the API. Sizes in bytes, `min_disk` in GB, `min_ram` in MB. An answer also has the
    properties of the image.
    """

    properties_beside: ClassVar[bool] = True

    id: str
    name: str | None
    status: str
    visibility: str
    protected: bool
    os_hidden: bool
    owner: str | None
    tags: tuple[str, ...]
    disk_format: str | None
    container_format: str | None
    min_disk: int
    min_ram: int
    size: int | None
    virtual_size: int | None
    checksum: str | None
    os_hash_algo: str | None
    os_hash_value: str | None
    created_at: str
    updated_at: str
    self_path: str = msgspec.field(name="self")
    file: str
    schema: str


class MemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Only for the description of the API."""

    image_id: str
    member_id: str
    status: str
    created_at: str
    updated_at: str
    schema: str


class BuiltInImages:
    """Uses the Image API in this process."""

    def visible(self, session: Session, image_id: str, call: Call) -> Image | None:
        row = find_visible(session, image_id, call)
        return None if row is None else row.image

    def announce(self, call: Call, image: Image) -> Image:
        """Returns the image unchanged: the conductor's record is all that it needs."""
        return image

    def withdraw(self, call: Call, image: Image) -> None:
        """Does nothing: there is no image without the conductor's record."""


def view(image: Image) -> dict[str, Any]:
    """Returns the representation in the Image API: a flat document, with the properties beside the fields."""
    assert image.created_at is not None
    return {
        **image.properties,
        "id": image.id,
        "name": image.name,
        "status": image.status,
        "visibility": image.visibility,
        "protected": image.protected,
        "os_hidden": image.os_hidden,
        "owner": image.owner,
        "tags": image.tags,
        "disk_format": image.disk_format,
        "container_format": image.container_format,
        "min_disk": image.min_disk,
        "min_ram": image.min_ram,
        "size": image.size,
        "virtual_size": image.virtual_size,
        "checksum": image.checksum,
        "os_hash_algo": image.os_hash_algo,
        "os_hash_value": image.os_hash_value,
        "created_at": times.seconds(image.created_at),
        "updated_at": times.seconds(image.updated_at or image.created_at),
        "self": f"/v2/images/{image.id}",
        "file": f"/v2/images/{image.id}/file",
        "schema": "/v2/schemas/image",
    }


def member_view(member: ImageMember) -> dict[str, Any]:
    assert member.created_at is not None
    return {
        "image_id": member.image_id,
        "member_id": member.member_id,
        "status": member.status,
        "created_at": times.seconds(member.created_at),
        "updated_at": times.seconds(member.updated_at or member.created_at),
        "schema": "/v2/schemas/member",
    }


_STRING = {"type": ["null", "string"]}
_INTEGER = {"type": ["null", "integer"]}
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(
        ("id", "name", "owner", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at"), _STRING
    ),
    **{key: {"type": "string", "readOnly": True} for key in ("self", "file", "schema")},
    **dict.fromkeys(("size", "virtual_size", "min_disk", "min_ram"), _INTEGER),
    **{key: {"type": "boolean"} for key in ("protected", "os_hidden")},
    "status": {
        "type": "string",
        "enum": ["queued", "saving", "uploading", "importing", "active", "deactivated", "killed"],
        "readOnly": True,
    },
    "visibility": {"type": "string", "enum": ["community", "public", "private", "shared"]},
    "disk_format": {"type": ["null", "string"], "enum": [None, "raw", "qcow2"]},
    "container_format": {"type": ["null", "string"], "enum": [None, "bare"]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 255}},
}
_LINKS = [
    {"rel": rel, "href": f"{{{field}}}"}
    for rel, field in (("self", "self"), ("enclosure", "file"), ("describedby", "schema"))
]
_IMAGE = {"name": "image", "properties": _FIELDS, "additionalProperties": {"type": "string"}, "links": _LINKS}
_IMAGES = {
    "name": "images",
    "properties": {
        "images": {"type": "array", "items": _IMAGE},
        **{key: {"type": "string"} for key in ("first", "next", "schema")},
    },
    "links": [{"rel": rel, "href": f"{{{rel}}}"} for rel in ("first", "next")]
    + [{"rel": "describedby", "href": "{schema}"}],
}


_MEMBER = {
    "name": "member",
    "properties": {
        **{key: {"type": "string"} for key in ("member_id", "image_id")},
        "status": {"type": "string", "enum": ["pending", "accepted", "rejected"]},
        **{key: {"type": "string", "readOnly": True} for key in ("created_at", "updated_at", "schema")},
    },
}
_MEMBERS = {
    "name": "members",
    "properties": {"members": {"type": "array", "items": _MEMBER}, "schema": {"type": "string"}},
    "links": [{"rel": "describedby", "href": "{schema}"}],
}


def image_schema(_: Any, call: Call) -> dict[str, Any]:
    return _IMAGE


def images_schema(_: Any, call: Call) -> dict[str, Any]:
    return _IMAGES


def member_schema(_: Any, call: Call) -> dict[str, Any]:
    return _MEMBER


def members_schema(_: Any, call: Call) -> dict[str, Any]:
    return _MEMBERS


ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/v2/schemas/image", rule=AUTHENTICATED, handler=image_schema),
    Route(method="GET", path="/v2/schemas/images", rule=AUTHENTICATED, handler=images_schema),
    Route(method="GET", path="/v2/schemas/member", rule=AUTHENTICATED, handler=member_schema),
    Route(method="GET", path="/v2/schemas/members", rule=AUTHENTICATED, handler=members_schema),
)
