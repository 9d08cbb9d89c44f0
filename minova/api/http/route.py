"""A route as the table has it, and how falcon comes to call its handler."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import falcon
import msgspec

from minova.api.http.body import read_json
from minova.api.http.call import Api, Call, Handler
from minova.api.http.query import read_query
from minova.codecs import Decoder
from minova.log import bound_request


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """`query`, `body` and `answer` are structs (from which an OpenAPI description can be made); `None`: there is none.

    `admin`: for administrators only. `streams`: the handler reads the body or writes the answer itself.
    """

    method: str
    path: str
    handler: Handler
    query: type[msgspec.Struct] | None = None
    body: Any = None
    answer: Any = None
    status: int = 200
    admin: bool = False
    streams: bool = False

    def __post_init__(self) -> None:
        """A route table is made at import: the decoders of its bodies and queries with it."""
        for kind in (self.query, self.body):
            if kind is not None:
                _decoder(kind)


@cache
def _decoder(kind: Any) -> Decoder[Any]:
    """Strings stand for numbers and booleans too, as Nova takes them."""
    return Decoder(kind, strict=False)


class _Resource:
    """All methods of one path, as falcon wants them: attributes `on_get`, `on_post`..."""

    def __init__(self, api: Api, routes: Iterable[Route]) -> None:
        for route in routes:
            setattr(self, f"on_{route.method.lower()}", _responder(api, route))


def _responder(api: Api, route: Route) -> Any:
    def respond(request: falcon.Request, response: falcon.Response, **path: str) -> None:
        ctx = request.context.ctx
        with bound_request(ctx):
            call = Call(ctx=ctx, path=path, request=request, response=response)
            if route.admin:
                call.require_admin(f"{route.method} {request.path}")
            if route.query is not None:
                call = msgspec.structs.replace(call, query=read_query(request, _decoder(route.query)))
            if route.body is not None:
                raw, body = read_json(request, _decoder(route.body), api.conf.api.max_request_body_size)
                call = msgspec.structs.replace(call, raw=raw, body=body)
            response.status = route.status
            answer = route.handler(api, call)
        if answer is not None:
            response.data = msgspec.json.encode(answer)
            response.content_type = falcon.MEDIA_JSON

    return respond


def add_routes(app: falcon.App[Any, Any], api: Api, routes: Sequence[Route]) -> None:
    paths: dict[str, list[Route]] = {}
    for route in routes:
        paths.setdefault(route.path, []).append(route)
    for path, of_path in paths.items():
        app.add_route(path, _Resource(api, of_path))
