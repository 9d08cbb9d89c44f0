"""Changes of an image by PATCH: a list of operations in one of two media types, for drafts 4 and 10 of JSON Patch.

The operations take effect one after the other; either all of them do, or none.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import falcon
import msgspec

from minova import errors
from minova.api.http.body import JsonBody, check_json, media_type, read_bytes
from minova.api.image.images import (
    FIELDS,
    check_number,
    check_property,
    check_size,
    checked_field,
    decoded,
    require_free,
)
from minova.codecs import parse_json
from minova.objects.catalogue.image import Image

DRAFTS = {
    "application/openstack-images-v2.0-json-patch": 4,
    "application/openstack-images-v2.1-json-patch": 10,
}
OPERATIONS = ("add", "remove", "replace")
# The operations as a client sends them, in either draft.
Patch = list[dict[str, Any]]
# The length of a path to a location. Every other path names an attribute and has one part.
_LOCATION_DEPTHS = {"add": 2, "remove": 2, "replace": 1}
_ALLOWED = ", ".join(OPERATIONS)
# Attributes that every image has.
_OWN = FIELDS - {"id"}
_ONCE = ("disk_format", "container_format")


class Operation(NamedTuple):
    """In draft 4, an attribute or property that exists cannot be added."""

    name: str
    attribute: str
    value: Any = None
    draft: int = 10


def read_patch(request: falcon.Request, limit: int) -> JsonBody:
    """Returns the operations, each of which has been validated.

    Raises HTTPUnsupportedMediaType, BadRequest or Forbidden if the body or an operation is invalid.
    """
    draft = DRAFTS.get(media_type(request))
    if draft is None:
        accepted = ", ".join(sorted(DRAFTS))
        raise falcon.HTTPUnsupportedMediaType(
            description=f"Image PATCH expects Content-Type one of: {accepted}", headers={"Accept-Patch": accepted}
        )
    raw = read_bytes(request, limit)
    if not raw.strip():
        raise errors.BadRequest("Body expected in request.")
    try:
        document = parse_json(raw)
        check_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.BadRequest(f"Malformed request body: {error}") from None
    except RecursionError:
        raise errors.BadRequest("Malformed request body: it is nested too deeply") from None
    if not isinstance(document, list):
        raise errors.BadRequest("Request body must be a JSON array of operation objects.")
    return JsonBody(raw=raw, document=tuple(_operation(change, draft) for change in document))


def _operation(change: Any, draft: int) -> Operation:
    if not isinstance(change, dict):
        raise errors.BadRequest("Operations must be JSON objects.")
    name, pointer = _operation_of(change) if draft == 10 else _keyed(change)
    path = _path(pointer)
    depth = _LOCATION_DEPTHS[name] if path[0] == "locations" else 1
    if len(path) != depth:
        raise errors.BadRequest(f"Invalid JSON pointer for this resource: '/{'/'.join(path)[:255]}'")
    if name != "remove" and "value" not in change:
        raise errors.BadRequest(f'Operation "{name}" requires a member named "value".')
    if path[0] == "id":
        raise errors.Forbidden("Attribute 'id' is read-only.")
    require_free(path[0])
    value = change.get("value")
    if path[0] == "locations":
        _refuse_locations(name, value)
    if name == "remove":
        return Operation(name, path[0], None, draft)
    return Operation(name, path[0], _checked(path[0], value), draft)


def _operation_of(change: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the operation and the pointer in the form of draft 10."""
    name = change.get("op")
    if name is None:
        raise errors.BadRequest(
            f"Unable to find `op` in JSON Schema change. It must be one of the following: {_ALLOWED}."
        )
    if name not in OPERATIONS:
        raise errors.BadRequest(f"Invalid operation: `{str(name)[:64]}`. It must be one of the following: {_ALLOWED}.")
    if "path" not in change:
        raise errors.BadRequest("Unable to find 'path' in JSON Schema change")
    return name, change["path"]


def _keyed(change: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the operation and the pointer in the form of draft 4, where the operation is a key."""
    operations = [name for name in OPERATIONS if name in change]
    if len(operations) != 1:
        number = "only one" if operations else "exactly one"
        raise errors.BadRequest(f'Operation objects must contain {number} member named "add", "remove", or "replace".')
    return operations[0], change[operations[0]]


def _path(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or not pointer.startswith("/"):
        raise errors.BadRequest(f'Pointer `{str(pointer)[:255]}` does not start with "/".')
    pointer_text = f"Pointer `{pointer[:255]}`"
    if re.search(r"/[^\S/]*/", pointer[1:]):
        raise errors.BadRequest(f'{pointer_text} contains adjacent "/".')
    if len(pointer) > 1 and pointer.endswith("/"):
        raise errors.BadRequest(f'{pointer_text} end with "/".')
    if re.search(r"~[^01]|~$", pointer):
        raise errors.BadRequest(f'{pointer_text} contains "~" not part of a recognized escape sequence.')
    return [part.replace("~1", "/").replace("~0", "~").strip() for part in pointer.lstrip("/").split("/")]


def _refuse_locations(name: str, value: Any) -> None:
    if name == "replace" and not value:
        raise errors.Forbidden("Cannot set locations to empty list.")
    verb = {"replace": "update"}.get(name, name)
    raise errors.Forbidden(f"It's not allowed to {verb} locations if locations are invisible.")


def _checked(attribute: str, value: Any) -> Any:
    if attribute not in _OWN:
        check_property(attribute, value)
        return value
    return checked_field(attribute, getattr(decoded({attribute: value}), attribute))


def patched(image: Image, operations: tuple[Operation, ...]) -> Image:
    """Returns the changed image.

    Raises Conflict if a property that is added exists (draft 4), or one that is replaced or removed does not.
    Raises Forbidden if an attribute that every image has is removed.
    """
    fields: dict[str, Any] = {}
    properties = dict(image.properties)
    for operation in operations:
        if operation.attribute in _OWN:
            fields[operation.attribute] = _attribute(image, operation)
        else:
            _change_property(properties, operation)
    if len(properties) > len(image.properties):
        check_number(properties)
    check_size(properties)
    return msgspec.structs.replace(image, **fields, properties=properties)


def _attribute(image: Image, operation: Operation) -> Any:
    if operation.name == "remove":
        raise errors.Forbidden(f"Property {operation.attribute} may not be removed.")
    if operation.name == "add" and operation.draft == 4:
        raise errors.Conflict(f"Property {operation.attribute} already present.")
    if operation.attribute in _ONCE and image.status not in ("queued", "importing"):
        raise errors.Forbidden(f"Attribute {operation.attribute} can be only replaced for a queued image.")
    return operation.value


def _change_property(properties: dict[str, str], operation: Operation) -> None:
    key = operation.attribute
    if operation.name == "add":
        if operation.draft == 4 and key in properties:
            raise errors.Conflict(f"Property {key} already present.")
    elif key not in properties:
        raise errors.Conflict(f"Property {key} does not exist.")
    if operation.name == "remove":
        del properties[key]
    else:
        properties[key] = operation.value
