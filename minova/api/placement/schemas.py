"""JSON schemas of bodies and query strings, each with the microversion from which it holds.

Their content is that of OpenStack Placement's API reference. The newest schema that is not above the version applies.
"""

from typing import Any

from minova.api.http.json_schema import Schema, VersionedSchemas
from minova.db.models.placement import MAX_INT

MAX_RATIO = 3.40282e38
UUID_KEY = "^[0-9a-fA-F-]{36}$"
NAME = "^[A-Z0-9_]+$"
CUSTOM = "^CUSTOM_[A-Z0-9_]+$"

UUID: Schema = {"type": "string", "format": "uuid"}
TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
IDENTITY: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def strict(properties: Schema, *required: str, **more: Any) -> Schema:
    """Returns the schema of an object with these properties and no others."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**schema, "required": [*required]} if required else schema


def keyed(pattern: str, value: Schema, **more: Any) -> Schema:
    """Returns the schema of an object whose keys match the pattern."""
    return {"type": "object", "patternProperties": {pattern: value}, "additionalProperties": False, **more}


# -- resource providers ------------------------------------------------------------------------------------------------

_NAME_OF_PROVIDER: Schema = {"type": "string", "maxLength": 200}
_PARENT: Schema = {"anyOf": [UUID, {"type": "null"}]}

MAKE_PROVIDER: VersionedSchemas = (
    ((1, 0), strict({"name": _NAME_OF_PROVIDER, "uuid": UUID}, "name")),
    ((1, 14), strict({"name": _NAME_OF_PROVIDER, "uuid": UUID, "parent_provider_uuid": _PARENT}, "name")),
)
CHANGE_PROVIDER: VersionedSchemas = (
    ((1, 0), strict({"name": _NAME_OF_PROVIDER}, "name")),
    ((1, 14), strict({"name": _NAME_OF_PROVIDER, "parent_provider_uuid": _PARENT}, "name")),
)
LIST_PROVIDERS: VersionedSchemas = (
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
SET_INVENTORIES: VersionedSchemas = (((1, 0), _INVENTORIES),)
ADD_INVENTORY: VersionedSchemas = (
    ((1, 0), strict({**_NUMBERS, "resource_class": {"type": "string", "pattern": NAME}}, "total", "resource_class")),
)
CHANGE_INVENTORY: VersionedSchemas = (((1, 0), strict(_NUMBERS, "total", "resource_provider_generation")),)

# -- aggregates, traits, resource classes ------------------------------------------------------------------------------

_AGGREGATES: Schema = {"type": "array", "items": UUID, "uniqueItems": True}
SET_AGGREGATES: VersionedSchemas = (
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
SET_TRAITS: VersionedSchemas = (
    (
        (1, 6),
        strict(
            {"traits": {"type": "array", "items": IDENTITY}, "resource_provider_generation": INTEGER},
            "traits",
            "resource_provider_generation",
        ),
    ),
)
LIST_TRAITS: VersionedSchemas = (((1, 6), strict({"name": TEXT, "associated": TEXT})),)
CUSTOM_TRAIT: Schema = {**IDENTITY, "pattern": CUSTOM}
RESOURCE_CLASS: VersionedSchemas = (
    ((1, 2), strict({"name": {"type": "string", "pattern": CUSTOM, "maxLength": 255}}, "name")),
)

# -- usages ------------------------------------------------------------------------------------------------------------

_TYPE_ASKED: Schema = {**IDENTITY, "pattern": f"{NAME}|^all$|^unknown$"}
LIST_USAGES: VersionedSchemas = (
    ((1, 9), strict({"project_id": IDENTITY, "user_id": IDENTITY}, "project_id")),
    ((1, 38), strict({"project_id": IDENTITY, "user_id": IDENTITY, "consumer_type": _TYPE_ASKED}, "project_id")),
)

# -- allocations: of one consumer, of several, and of a reshape -----------------------------------------------------------

_RESOURCES: Schema = keyed(NAME, {"type": "integer", "minimum": 1}, minProperties=1)
_OWNERS: Schema = {"project_id": IDENTITY, "user_id": IDENTITY}
_LISTED: Schema = {
    "type": "array",
    "minItems": 1,
    "items": strict(
        {"resource_provider": strict({"uuid": UUID}, "uuid"), "resources": _RESOURCES}, "resource_provider", "resources"
    ),
}
_BY_PROVIDER: Schema = keyed(UUID_KEY, strict({"generation": INTEGER, "resources": _RESOURCES}, "resources"))
_GENERATION: Schema = {"type": ["integer", "null"]}
# The providers of each request group. Accepted, but not stored.
_MAPPINGS: Schema = keyed("^[a-zA-Z0-9_-]{0,64}$", {"type": "array", "minItems": 1, "items": UUID}, minProperties=1)
_TYPE: Schema = {**IDENTITY, "pattern": NAME}

_NEEDED = ("allocations", "project_id", "user_id")
_V1_12: Schema = strict({"allocations": {**_BY_PROVIDER, "minProperties": 1}, **_OWNERS}, *_NEEDED)
_V1_13: Schema = strict({"allocations": _BY_PROVIDER, **_OWNERS}, *_NEEDED)
_V1_28: Schema = strict({**_V1_13["properties"], "consumer_generation": _GENERATION}, *_NEEDED, "consumer_generation")
_V1_34: Schema = strict({**_V1_28["properties"], "mappings": _MAPPINGS}, *_V1_28["required"])
_V1_38: Schema = strict({**_V1_34["properties"], "consumer_type": _TYPE}, *_V1_34["required"], "consumer_type")

SET_ALLOCATIONS: VersionedSchemas = (
    ((1, 0), strict({"allocations": _LISTED}, "allocations")),
    ((1, 8), strict({"allocations": _LISTED, **_OWNERS}, *_NEEDED)),
    ((1, 12), _V1_12),
    ((1, 28), _V1_28),
    ((1, 34), _V1_34),
    ((1, 38), _V1_38),
)
MANY_ALLOCATIONS: VersionedSchemas = (
    ((1, 13), keyed(UUID_KEY, _V1_13, minProperties=1)),
    ((1, 28), keyed(UUID_KEY, _V1_28, minProperties=1)),
    ((1, 34), keyed(UUID_KEY, _V1_34, minProperties=1)),
    ((1, 38), keyed(UUID_KEY, _V1_38, minProperties=1)),
)


def _reshape(allocations: Schema) -> Schema:
    inventories = keyed(UUID_KEY, SET_INVENTORIES[0][1], minProperties=1)
    return strict(
        {"inventories": inventories, "allocations": keyed(UUID_KEY, allocations)}, "inventories", "allocations"
    )


RESHAPE: VersionedSchemas = (((1, 30), _reshape(_V1_28)), ((1, 34), _reshape(_V1_34)), ((1, 38), _reshape(_V1_38)))
