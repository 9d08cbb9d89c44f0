"""What the handlers of the Network API work with."""

import msgspec
from oslo_config import cfg

from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db` is read-only: the conductor makes all changes."""

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
