"""How an image looks, which ones a caller sees, and the schemas that describe them."""

from typing import Any

from minova.api.http import times
from minova.api.http.call import Call
from minova.objects.image import Image


def visible(image: Image | None, call: Call) -> Image | None:
    if image is None or call.ctx.is_admin or image.visibility in ("public", "community"):
        return image
    return image if image.owner == call.ctx.project_id else None


def view(image: Image) -> dict[str, Any]:
    """As the Image API has it: a flat document, with the properties beside the fields."""
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


_STRING = {"type": ["null", "string"]}
_INTEGER = {"type": ["null", "integer"]}
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(
        ("id", "name", "owner", "checksum", "os_hash_algo", "os_hash_value", "created_at", "updated_at"), _STRING
    ),
    **{key: {"type": "string", "readOnly": True} for key in ("self", "file", "schema")},
    **dict.fromkeys(("size", "virtual_size", "min_disk", "min_ram"), _INTEGER),
    **{key: {"type": "boolean"} for key in ("protected", "os_hidden")},
    "status": {"type": "string", "enum": ["queued", "saving", "active", "killed"], "readOnly": True},
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


def image_schema(_: Any, call: Call) -> dict[str, Any]:
    return _IMAGE


def images_schema(_: Any, call: Call) -> dict[str, Any]:
    return _IMAGES
