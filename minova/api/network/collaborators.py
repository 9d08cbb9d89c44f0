"""The collaborators of the Network API's handlers."""

import msgspec
from oslo_config import cfg

from minova.api.http.waiting import WaitingRequests
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class NetworkApiCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db`: read-only; the conductor makes all changes.
    `waiting`: places for requests that wait for a guest.
    """

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    waiting: WaitingRequests
