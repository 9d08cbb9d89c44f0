"""JSON schemas of allocations: of one consumer, of several, and of a reshape."""

from minova.api.placement.schemas import (
    IDENTITY,
    INTEGER,
    NAME,
    SET_INVENTORIES,
    UUID,
    UUID_KEY,
    Schema,
    Versions,
    keyed,
    strict,
)

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
# Which request group each provider answers: sent back as it came, and kept by nobody.
_MAPPINGS: Schema = keyed("^[a-zA-Z0-9_-]{0,64}$", {"type": "array", "minItems": 1, "items": UUID}, minProperties=1)
_TYPE: Schema = {**IDENTITY, "pattern": NAME}

_NEEDED = ("allocations", "project_id", "user_id")
_V1_12: Schema = strict({"allocations": {**_BY_PROVIDER, "minProperties": 1}, **_OWNERS}, *_NEEDED)
_V1_13: Schema = strict({"allocations": _BY_PROVIDER, **_OWNERS}, *_NEEDED)
_V1_28: Schema = strict({**_V1_13["properties"], "consumer_generation": _GENERATION}, *_NEEDED, "consumer_generation")
_V1_34: Schema = strict({**_V1_28["properties"], "mappings": _MAPPINGS}, *_V1_28["required"])
_V1_38: Schema = strict({**_V1_34["properties"], "consumer_type": _TYPE}, *_V1_34["required"], "consumer_type")

SET_ALLOCATIONS: Versions = (
    ((1, 0), strict({"allocations": _LISTED}, "allocations")),
    ((1, 8), strict({"allocations": _LISTED, **_OWNERS}, *_NEEDED)),
    ((1, 12), _V1_12),
    ((1, 28), _V1_28),
    ((1, 34), _V1_34),
    ((1, 38), _V1_38),
)
MANY_ALLOCATIONS: Versions = (
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


RESHAPE: Versions = (((1, 30), _reshape(_V1_28)), ((1, 34), _reshape(_V1_34)), ((1, 38), _reshape(_V1_38)))
