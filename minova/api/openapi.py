"""The OpenAPI description of all four APIs, generated from their route tables and from the structs and JSON schemas
beside them.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import falcon
import msgspec

from minova.api.compute import versions as compute_versions
from minova.api.compute.routes import ROUTES as COMPUTE
from minova.api.http.definition import Route
from minova.api.http.json_schema import newest
from minova.api.http.microversions import HIGHEST, LOWEST, Version, history_of, text
from minova.api.image.changes.json_patch import DRAFTS, Patch
from minova.api.image.routes import ROUTES as IMAGE
from minova.api.network.routes import ROUTES as NETWORK
from minova.api.placement import versions as placement_versions
from minova.api.placement.routes import ROUTES as PLACEMENT

Json = dict[str, Any]

OCTETS = "application/octet-stream"
_REFERENCE = "#/components/schemas/{name}"
_NO_CONTENT = 204
_VARIABLE = re.compile(r"\{(\w+)\}")


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """`prefix`: precedes the paths of the API in minova-api.
    `version`: the described microversion, and its header.
    """

    name: str
    prefix: str
    routes: Sequence[Route]
    version: Version | None = None


APIS = (
    Api(name="compute", prefix="", routes=COMPUTE, version=compute_versions.MAX),
    Api(name="image", prefix="", routes=IMAGE),
    Api(name="network", prefix="/network", routes=NETWORK),
    Api(name="placement", prefix="/placement", routes=PLACEMENT, version=placement_versions.MAX),
)


def at(version: Version) -> tuple[Api, ...]:
    """Returns the APIs with this microversion of Compute."""
    return tuple(msgspec.structs.replace(api, version=version) if api.name == "compute" else api for api in APIS)


def describe(apis: Iterable[Api] = APIS) -> Json:
    """Returns a document of OpenAPI 3.1. It describes one microversion of Compute and of Placement, by default the
    newest.
    """
    apis = tuple(apis)
    kinds, schemas, complete = _schemas()
    # A copy of the top level, which `_cut` changes.
    components = {name: dict(schema) for name, schema in complete.items()}
    _cut(kinds, components, next((api.version for api in apis if api.name == "compute"), None))
    paths: dict[str, Json] = {}
    for api in apis:
        for route in api.routes:
            if api.version is None or route.since <= api.version <= route.until:
                path = paths.setdefault(api.prefix + route.path, {})
                path[route.method.lower()] = _operation(api, route, schemas, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "minova: Compute, Image, Network and Placement", "version": "2.1"},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}},
    }


@cache
def _schemas() -> tuple[list[Any], dict[int, Json], Json]:
    """Returns the types of all routes, the schema of each type by its `id`, and the schemas that these refer to. The
    schemas have the fields of all versions.
    """
    routes = [route for api in APIS for route in api.routes]
    answers = [kind for route in routes for kind in _answers(route)]
    kinds = [kind for route in routes for kind in (route.query, route.body) if _is_type(kind)] + answers
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    # Clients may rely on it: an answer has no other fields than those of its microversion.
    for kind in _structs(answers):
        beside = getattr(kind, "properties_beside", False)
        components[kind.__name__]["additionalProperties"] = {"type": "string"} if beside else False
    return kinds, dict(zip(map(id, kinds), schemas, strict=True)), components


def _answers(route: Route) -> list[Any]:
    """Returns the types in the answer of a route."""
    return [route.answer] if isinstance(route.answer, type) else [*route.answer.values()]


def _cut(kinds: Iterable[Any], components: Json, version: Version | None) -> None:
    """Removes the fields that this version does not have from all structs with a History."""
    for kind in _structs(kinds) if version is not None else ():
        history, schema = history_of(kind), components.get(kind.__name__)
        if history is None or schema is None or version is None:
            continue
        absent = history.absent(version)
        schema["properties"] = {name: each for name, each in schema["properties"].items() if name not in absent}
        schema["required"] = sorted({*schema.get("required", ()), *history.required(version)} - absent)


def _structs(kinds: Iterable[Any]) -> Iterable[type]:
    """Returns the structs in these types."""
    open_types, seen_types = [msgspec.inspect.type_info(kind) for kind in kinds], set[type]()
    while open_types:
        info = open_types.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls not in seen_types:
                seen_types.add(info.cls)
                open_types += [field.type for field in info.fields]
        else:
            open_types += getattr(info, "types", ())
            open_types += [
                inner for name in ("item_type", "value_type") if (inner := getattr(info, name, None)) is not None
            ]
    return seen_types


def _operation(api: Api, route: Route, schemas: dict[int, Json], components: Json) -> Json:
    parameters = [
        _parameter("path", name, {"type": "string", "minLength": 1}) for name in _VARIABLE.findall(route.path)
    ]
    parameters += _query(api, route, schemas, components)
    if api.version is not None:
        header = {"type": "string", "enum": [f"{api.name} {text(api.version)}"]}
        parameters.append(_parameter("header", "OpenStack-API-Version", header))
    statuses = route.set_by_handler or {route.status_at(api.version or LOWEST): ""}
    operation: Json = {
        "operationId": f"{api.name}:{route.method}:{route.path}",
        "tags": [api.name],
        "parameters": parameters,
        "responses": {
            **{str(status): _response(status, what, route, schemas) for status, what in statuses.items()},
            "4XX": {"description": "The request is refused."},
        },
        "security": [{"basic": []}] if route.rule is not None or route.actions else [],
    }
    if api.version is not None:
        operation["x-openstack"] = _span(route)
    if route.body is not None:
        schema = schemas[id(route.body)] if _is_type(route.body) else newest(route.body, api.version or HIGHEST)
        kinds = sorted(DRAFTS) if route.body is Patch else [falcon.MEDIA_JSON]
        operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}
    elif route.method == "PUT" and route.path.endswith(("/file", "/stage")):
        content = {OCTETS: {"schema": {"type": "string", "format": "binary"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _response(status: int, what: str, route: Route, schemas: dict[int, Json]) -> Json:
    response: Json = {"description": what or "Done."}
    if isinstance(route.answer, type):
        response["content"] = {falcon.MEDIA_JSON: {"schema": schemas[id(route.answer)]}}
    elif route.answer and status < _NO_CONTENT:
        schema = {
            "type": "object",
            "properties": {key.rstrip("?"): schemas[id(kind)] for key, kind in route.answer.items()},
            "required": [key for key in route.answer if not key.endswith("?")],
            "additionalProperties": False,
        }
        response["content"] = {falcon.MEDIA_JSON: {"schema": schema}}
    return response


def _span(route: Route) -> Json:
    """Returns the microversions that have the route, in the format of OpenStack's own descriptions."""
    span = {"min-ver": route.since, "max-ver": route.until}
    return {name: text(version) for name, version in span.items() if version not in (LOWEST, HIGHEST)}


def _query(api: Api, route: Route, schemas: dict[int, Json], components: Json) -> list[Json]:
    if route.query is None:
        return []
    if _is_type(route.query):
        schema = schemas[id(route.query)]
        if "$ref" in schema:
            schema = components[schema["$ref"].rpartition("/")[2]]
    else:
        schema = newest(route.query, api.version or HIGHEST)
    required = set(schema.get("required", ()))
    return [
        _parameter("query", name, kind, required=name in required)
        for name, kind in schema.get("properties", {}).items()
    ]


def _parameter(place: str, name: str, schema: Json, *, required: bool = True) -> Json:
    return {"in": place, "name": name, "schema": schema, "required": required}


def _is_type(kind: Any) -> bool:
    """Whether `kind` is a struct or another type of msgspec, not a table of JSON schemas."""
    return kind is not None and not isinstance(kind, tuple)
