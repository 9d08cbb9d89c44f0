"""Placement as a WSGI application of its own."""

from collections.abc import Callable
from functools import cache

from oslo_config import cfg

from minova.api.access.authenticator import Authenticator
from minova.api.http import app as http
from minova.api.http.middleware import Cors
from minova.api.placement.call import Placement
from minova.api.placement.definition import PlacementDefinition
from minova.api.policies.enforcer import Policy
from minova.db.engine import Database
from minova.safe_mode import SafeMode


def make_app(
    conf: cfg.ConfigOpts,
    authenticate: Authenticator,
    reads: Database,
    writes: Callable[[], Database],
    policy: Policy | None = None,
    safe_mode: SafeMode | None = None,
) -> http.Application:
    """Makes the application. The first change calls `writes` for its database; later changes use the same database. `safe_mode`: of the
    process.
    """
    placement = Placement(conf=conf, reads=reads, writes=cache(writes), safe_mode=safe_mode or SafeMode())
    definition = PlacementDefinition(placement)
    cors = Cors(conf.cors.allowed_origin, conf.cors.allow_headers)
    return http.make_app(definition, authenticate, policy or Policy(conf), before=[cors])
