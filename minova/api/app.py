"""The WSGI application: falcon, with the route table."""

from collections.abc import Callable
from typing import Any

import falcon
from oslo_config import cfg

from minova.api import faults
from minova.api.auth import authenticator
from minova.api.call import Api
from minova.api.image_store import ImageStore
from minova.api.middleware import Gate
from minova.api.route import add_routes
from minova.api.routes import ROUTES
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class App(falcon.App[Any, Any]):
    """Keeps its collaborators, for the work that is done beside requests."""

    def __init__(self, api: Api, **options: Any) -> None:
        super().__init__(**options)
        self.api = api


def make_app(conf: cfg.ConfigOpts, db: Database, conductor: ConductorApi, compute: Callable[[str], ComputeApi]) -> App:
    """InvalidConfiguration: the options for authentication do not go together."""
    api = Api(conf=conf, db=db, conductor=conductor, compute=compute, images=ImageStore(conf.api.images_path))
    resources = frozenset(path.split("/")[2] for path in (r.path for r in ROUTES) if path.startswith("/v2.1/"))
    app = App(api, middleware=[Gate(authenticator(conf), resources)])
    app.req_options.strip_url_path_trailing_slash = True
    # falcon has handlers of its own for the second: the most specific one wins.
    for kind in (Exception, falcon.HTTPError):
        app.add_error_handler(kind, faults.answer_error)
    add_routes(app, api, ROUTES)
    return app
