"""Placement as a WSGI application of its own."""

from collections.abc import Callable
from functools import cache
from typing import Any

import falcon
from oslo_config import cfg

from minova.api.http.auth import Authenticator
from minova.api.placement.call import Placement
from minova.api.placement.faults import answer_error
from minova.api.placement.gate import Cors, Gate
from minova.api.placement.route import add_routes
from minova.api.placement.routes import ROUTES
from minova.db.engine import Database


def make_app(
    conf: cfg.ConfigOpts, authenticate: Authenticator, reads: Database, writes: Callable[[], Database]
) -> falcon.App[Any, Any]:
    """`writes` is asked for its database once, by the first change."""
    app: falcon.App[Any, Any] = falcon.App(
        middleware=[Cors(conf.cors.allowed_origin, conf.cors.allow_headers), Gate(authenticate)]
    )
    app.resp_options.default_media_type = None  # type: ignore[assignment]
    for kind in (Exception, falcon.HTTPError):
        app.add_error_handler(kind, answer_error)
    add_routes(app, Placement(conf=conf, reads=reads, writes=cache(writes)), ROUTES)
    return app
