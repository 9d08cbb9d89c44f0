"""JSON schemas of bodies and query strings, each with the microversion from which it holds.

The facts are those of OpenStack Placement's API reference; the newest schema that is not above the version counts.
"""

from typing import Any, TypeAlias

from minova.api.placement.microversion import Version
from minova.db.models.placement import MAX_INT

Schema: TypeAlias = dict[str, Any]
Versions: TypeAlias = tuple[tuple[Version, Schema], ...]

MAX_RATIO = 3.40282e38
UUID_KEY = "^[0-9a-fA-F-]{36}$"
NAME = "^[A-Z0-9_]+$"
CUSTOM = "^CUSTOM_[A-Z0-9_]+$"

UUID: Schema = {"type": "string", "format": "uuid"}
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
IDENTITY: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def strict(properties: Schema, *required: str, **more: Any) -> Schema:
    """An object with these properties and no others."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**schema, "required": [*required]} if required else schema


def keyed(pattern: str, value: Schema, **more: Any) -> Schema:
    """An object whose keys fit the pattern."""
    return {"type": "object", "patternProperties": {pattern: value}, "additionalProperties": False, **more}


def newest(versions: Versions, wanted: Version) -> Schema:
    return max((entry for entry in versions if entry[0] <= wanted), key=lambda entry: entry[0])[1]


# -- resource providers ------------------------------------------------------------------------------------------------

_NAME_OF_PROVIDER: Schema = {"type": "string", "maxLength": 200}
_PARENT: Schema = {"anyOf": [UUID, {"type": "null"}]}

MAKE_PROVIDER: Versions = (
    ((1, 0), strict({"name": _NAME_OF_PROVIDER, "uuid": UUID}, "name")),
    ((1, 14), strict({"name": _NAME_OF_PROVIDER, "uuid": UUID, "parent_provider_uuid": _PARENT}, "name")),
)
CHANGE_PROVIDER: Versions = (
    ((1, 0), strict({"name": _NAME_OF_PROVIDER}, "name")),
    ((1, 14), strict({"name": _NAME_OF_PROVIDER, "parent_provider_uuid": _PARENT}, "name")),
)
LIST_PROVIDERS: Versions = (
    ((1, 0), strict({"name": TEXT, "uuid": UUID})),
    ((1, 3), strict({"name": TEXT, "uuid": UUID, "member_of": TEXT})),
    ((1, 4), strict({"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT})),
    ((1, 14), strict({"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT, "in_tree": UUID})),
    (
        (1, 18),
        strict({"name": TEXT, "uuid": UUID, "member_of": TEXT, "resources": TEXT, "in_tree": UUID, "required": TEXT}),
    ),
)

# -- inventories -------------------------------------------------------------------------------------------------------


def _from(least: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": MAX_INT}


_NUMBERS: Schema = {
    "total": _from(1),
    "reserved": _from(0),
    "min_unit": _from(1),
    "max_unit": _from(1),
    "step_size": _from(1),
    "allocation_ratio": {"type": "number", "maximum": MAX_RATIO},
    "resource_provider_generation": INTEGER,
}
_INVENTORIES: Schema = strict(
    {
        "resource_provider_generation": INTEGER,
        "inventories": keyed(NAME, strict(_NUMBERS, "total")),
    },
    "resource_provider_generation",
    "inventories",
)
SET_INVENTORIES: Versions = (((1, 0), _INVENTORIES),)
ADD_INVENTORY: Versions = (
    ((1, 0), strict({**_NUMBERS, "resource_class": {"type": "string", "pattern": NAME}}, "total", "resource_class")),
)
CHANGE_INVENTORY: Versions = (((1, 0), strict(_NUMBERS, "total", "resource_provider_generation")),)

# -- aggregates, traits, resource classes ------------------------------------------------------------------------------

_AGGREGATES: Schema = {"type": "array", "items": UUID, "uniqueItems": True}
SET_AGGREGATES: Versions = (
    ((1, 1), _AGGREGATES),
    (
        (1, 19),
        strict(
            {"aggregates": _AGGREGATES, "resource_provider_generation": INTEGER},
            "aggregates",
            "resource_provider_generation",
        ),
    ),
)
SET_TRAITS: Versions = (
    (
        (1, 6),
        strict(
            {"traits": {"type": "array", "items": IDENTITY}, "resource_provider_generation": INTEGER},
            "traits",
            "resource_provider_generation",
        ),
    ),
)
LIST_TRAITS: Versions = (((1, 6), strict({"name": TEXT, "associated": TEXT})),)
CUSTOM_TRAIT: Schema = {**IDENTITY, "pattern": CUSTOM}
RESOURCE_CLASS: Versions = (
    ((1, 2), strict({"name": {"type": "string", "pattern": CUSTOM, "maxLength": 255}}, "name")),
)

# -- usages ------------------------------------------------------------------------------------------------------------

_TYPE_ASKED: Schema = {**IDENTITY, "pattern": f"{NAME}|^all$|^unknown$"}
LIST_USAGES: Versions = (
    ((1, 9), strict({"project_id": IDENTITY, "user_id": IDENTITY}, "project_id")),
    ((1, 38), strict({"project_id": IDENTITY, "user_id": IDENTITY, "consumer_type": _TYPE_ASKED}, "project_id")),
)
