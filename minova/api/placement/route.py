"""A route as the table has it, and how falcon comes to call its handler."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import falcon
import msgspec

from minova import errors
from minova.api.http.body import NotJson
from minova.api.placement.call import CACHE_HEADERS, Answer, Call, Handler, Placement
from minova.api.placement.microversion import MAX, Version
from minova.api.placement.schemas import Versions
from minova.api.placement.validate import check_query, read_body, read_query
from minova.log import bound_request
from minova.placement.errors import BadRequest
from minova.placement.providers import queries


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`since`, `until`: the microversions that have it; the others answer `absent`.

    `body`, `query`: schemas; None: there is no body, and any query. `shows`: it answers JSON, and a client that does not
    take that is told so. `everyone`: also for people who are not administrators; the handler looks who they are.
    """

    method: str
    path: str
    handler: Handler
    since: Version = (1, 0)
    until: Version = MAX
    absent: int = 404
    body: Versions | None = None
    query: Versions | None = None
    shows: bool = False
    everyone: bool = False


class NotAcceptable(errors.MinovaError):
    code = 406


class _Resource:
    """All methods of one path, as falcon wants them: attributes `on_get`, `on_post`, and 405 for all the others."""

    def __init__(self, placement: Placement, routes: Sequence[Route]) -> None:
        methods = list(dict.fromkeys(route.method for route in routes))
        for method in falcon.HTTP_METHODS:
            of_method = [route for route in routes if route.method == method]
            responder = _responder(placement, of_method, methods) if of_method else _refuser(methods)
            setattr(self, f"on_{method.lower()}", responder)


def _refuser(methods: Sequence[str]) -> Any:
    def refuse(request: falcon.Request, response: falcon.Response, **path: str) -> None:
        raise falcon.HTTPMethodNotAllowed(methods)

    return refuse


def _responder(placement: Placement, routes: Sequence[Route], methods: Sequence[str]) -> Any:
    def respond(request: falcon.Request, response: falcon.Response, **path: str) -> None:
        version = request.context.version
        route = next((route for route in routes if route.since <= version <= route.until), None)
        if route is None:
            raise falcon.HTTPMethodNotAllowed(methods) if routes[0].absent == 405 else falcon.HTTPNotFound()
        with bound_request(request.context.ctx):
            call = _call(placement, route, request, path)
            _send(request, response, call, route.handler(placement, call))

    return respond


def _call(placement: Placement, route: Route, request: falcon.Request, path: dict[str, str]) -> Call:
    if route.shows and not request.client_accepts_json:
        raise NotAcceptable("Only application/json is provided")
    if route.body is not None:
        _require_json(request)
    ctx = request.context.ctx
    if not (ctx.is_admin or route.everyone):
        raise errors.Forbidden(f"Policy does not allow {route.method} {request.path} to be performed.")
    query = read_query(request.query_string)
    if route.query is not None:
        check_query(query, route.query, request.context.version)
    body = None
    if route.body is not None:
        limit = placement.conf.placement.max_request_body_size
        try:
            body = read_body(request, route.body, request.context.version, limit)
        except BadRequest:
            _require_provider(placement, path)
            raise
    return Call(ctx=ctx, version=request.context.version, path=path, query=query, body=body, request=request)


def _require_provider(placement: Placement, path: dict[str, str]) -> None:
    """NotFound: whoever asks of a provider that there is not is told that first, whatever the body."""
    if "uuid" in path:
        with placement.reads.read() as session:
            queries.find(session, path["uuid"])


def require_type(request: falcon.Request) -> None:
    """BadRequest: a body of which the request does not say what it is."""
    if not request.content_type and request.content_length:
        raise BadRequest("content-type header required when content-length > 0")


def _require_json(request: falcon.Request) -> None:
    kind = (request.content_type or "").partition(";")[0].strip().lower()
    if kind != falcon.MEDIA_JSON:
        raise NotJson(f"The media type {kind or None} is not supported, use {falcon.MEDIA_JSON}")


def _send(request: falcon.Request, response: falcon.Response, call: Call, answer: Answer) -> None:
    response.status = answer.status
    if answer.body is not None:
        response.data = msgspec.json.encode(answer.body)
        response.content_type = falcon.MEDIA_JSON
    if answer.location is not None:
        response.set_header("Location", f"{request.forwarded_scheme}://{request.forwarded_host}{answer.location}")
    if answer.changed is not None and call.version >= CACHE_HEADERS:
        response.last_modified = datetime.fromtimestamp(min(answer.changed, time.time()), UTC)
        response.cache_control = ["no-cache"]


def add_routes(app: falcon.App[Any, Any], placement: Placement, routes: Sequence[Route]) -> None:
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    for path, of_path in paths.items():
        app.add_route(path, _Resource(placement, of_path))
