"""Makes a falcon application from a definition: its routes, its error handler, its middleware."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import falcon
import msgspec
from falcon.routing import DefaultRouter

from minova import errors
from minova.api.access.authenticator import Authenticator
from minova.api.http import nul
from minova.api.http.call import Call
from minova.api.http.definition import ApiDefinition, Route
from minova.api.http.faults import RETRY_AFTER
from minova.api.http.middleware import Identify
from minova.api.policies.enforcer import Policy
from minova.log import bound_request

Application: TypeAlias = falcon.App[Any, Any]
Responder: TypeAlias = Callable[..., None]


def make_app(
    definition: ApiDefinition, authenticate: Authenticator, policy: Policy, before: Sequence[Any] = ()
) -> Application:
    """`before`: middleware that runs before the caller is identified."""
    middleware = [*before, Identify(definition, authenticate, policy)]
    app: Application = falcon.App(middleware=middleware, router=make_router(type(definition)))
    app.resp_options.default_media_type = definition.default_media_type  # type: ignore[assignment]
    # Both, because falcon has its own handler for HTTPError: the most specific handler wins.
    for kind in (Exception, falcon.HTTPError):
        app.add_error_handler(kind, _error_handler(definition))
    return app


def make_router(definition: type[ApiDefinition]) -> DefaultRouter:
    """Returns the routes of an API. They are independent of an application: each request brings its definition.

    Raises ValueError if a route has no policy.
    """
    paths: dict[str, list[Route]] = {}
    for route in definition.routes:
        _check_policy(definition, route)
        paths.setdefault(route.path, []).append(route)
    router = DefaultRouter()
    for path, routes in paths.items():
        router.add_route(path, _Resource(routes, automatic_options=definition.automatic_options))
    return router


def _check_policy(definition: type[ApiDefinition], route: Route) -> None:
    if route.rule is None and not route.actions and route.path not in definition.public:
        raise ValueError(f"{route.method} {route.path} has no policy: who may call it?")


class _Resource:
    """All methods of one path, in falcon's form: attributes `on_get`, `on_post`..."""

    def __init__(self, routes: Sequence[Route], *, automatic_options: bool) -> None:
        by_method: dict[str, list[Route]] = {}
        for route in routes:
            by_method.setdefault(route.method, []).append(route)
        allowed = list(by_method)
        for method, of_method in by_method.items():
            setattr(self, f"on_{method.lower()}", _responder(of_method, allowed))
        if not automatic_options:
            for method in set(falcon.HTTP_METHODS) - by_method.keys():
                setattr(self, f"on_{method.lower()}", _not_allowed(allowed))


def _not_allowed(allowed: Sequence[str]) -> Responder:
    def respond(request: falcon.Request, response: falcon.Response, **path: str) -> None:
        raise falcon.HTTPMethodNotAllowed(allowed)

    return respond


def _responder(routes: Sequence[Route], allowed: Sequence[str]) -> Responder:
    def respond(request: falcon.Request, response: falcon.Response, **path: str) -> None:
        definition: ApiDefinition = request.context.definition
        version = request.context.version
        route = next((route for route in routes if route.since <= version <= route.until), None)
        if route is None:
            raise falcon.HTTPMethodNotAllowed(allowed) if routes[0].absent == 405 else falcon.HTTPNotFound()
        call = definition.call_type(
            ctx=request.context.ctx,
            access=request.context.access,
            rule=route.rule or "",
            version=version,
            path=path,
            request=request,
            response=response,
        )
        with bound_request(call.ctx):
            call = _validate(definition, route, call)
            response.status = route.status_at(version)
            definition.send(call, route.handler(definition.collaborators, call))

    return respond


def _validate(definition: ApiDefinition, route: Route, call: Call) -> Call:
    """Returns the call with its validated query and body."""
    request, validation = call.request, definition.validation
    definition.check_headers(request, route)
    if call.rule:
        call.require(call.rule)
    nul.check_path(call.path)
    nul.check_query(request)
    query = validation.query(request, route, call.version)
    if route.body is None:
        return msgspec.structs.replace(call, query=query)
    try:
        body = validation.body(request, route.body, call.version, definition.max_body_size)
    except errors.BadRequest:
        definition.invalid_body(call.path)
        raise
    call = msgspec.structs.replace(call, query=query, raw=body.raw, body=body.document)
    return _of_action(call, route) if route.actions else call


def _of_action(call: Call, route: Route) -> Call:
    """Returns the call with the policy of its action. The handler refuses a body without an action.

    Raises NotFound if the version does not have the action.
    """
    names = [name for name in call.body if name in route.actions]
    if route.action_history is not None and not all(call.has(route.action_history, name) for name in names):
        raise falcon.HTTPNotFound
    for name in names:
        call.require(route.actions[name])
    return msgspec.structs.replace(call, rule=route.actions[names[0]]) if names else call


def _error_handler(definition: ApiDefinition) -> Callable[..., None]:
    def answer_error(request: falcon.Request, response: falcon.Response, error: Exception, _params: Any) -> None:
        fault = definition.classify(request, error)
        headers = dict(error.headers or {}) if isinstance(error, falcon.HTTPError) else {}
        if fault.status == 503:
            headers["Retry-After"] = RETRY_AFTER
        content = definition.error_content(request, fault)
        response.status = fault.status
        response.stream = None
        response.data = content.data
        response.content_type = content.media_type
        for name, value in headers.items():
            response.set_header(name, value)

    return answer_error
