"""The WSGI application: falcon, with the route table."""

from collections.abc import Callable
from typing import Any

import falcon
from oslo_config import cfg

from minova.api.http import faults
from minova.api.http.auth import authenticator
from minova.api.http.call import Api
from minova.api.http.middleware import Gate
from minova.api.http.route import add_routes
from minova.api.image.store import ImageStore
from minova.api.placement.app import make_app as make_placement
from minova.api.routes import ROUTES
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.hardware.demands import require_aliases

PLACEMENT = "/placement"


class App(falcon.App[Any, Any]):
    """Keeps its collaborators, for the work that is done beside requests. `placement`: what is mounted below PLACEMENT."""

    def __init__(self, api: Api, placement: falcon.App[Any, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.api = api
        self._placement = placement

    def __call__(self, env: dict[str, Any], start_response: Any) -> Any:
        path = env["PATH_INFO"]
        if self._placement is None or not (path == PLACEMENT or path.startswith(f"{PLACEMENT}/")):
            return super().__call__(env, start_response)
        env["SCRIPT_NAME"] += PLACEMENT
        env["PATH_INFO"] = path.removeprefix(PLACEMENT)
        return self._placement(env, start_response)


def make_app(
    conf: cfg.ConfigOpts,
    db: Database,
    conductor: ConductorApi,
    compute: Callable[[str], ComputeApi],
    placement_writes: Callable[[], Database] | None = None,
) -> App:
    """`placement_writes` opens the database to which Placement writes; None: Placement is not served here.

    InvalidConfiguration: the options for authentication do not go together, or a PCI alias cannot be.
    """
    authenticate = authenticator(conf)
    placement = None if placement_writes is None else make_placement(conf, authenticate, db, placement_writes)
    require_aliases(conf.pci.alias)
    api = Api(conf=conf, db=db, conductor=conductor, compute=compute, images=ImageStore(conf.api.images_path))
    resources = frozenset(path.split("/")[2] for path in (r.path for r in ROUTES) if path.startswith("/v2.1/"))
    app = App(api, placement, middleware=[Gate(authenticate, resources)])
    app.req_options.strip_url_path_trailing_slash = True
    # falcon has handlers of its own for the second: the most specific one wins.
    for kind in (Exception, falcon.HTTPError):
        app.add_error_handler(kind, faults.answer_error)
    add_routes(app, api, ROUTES)
    return app
