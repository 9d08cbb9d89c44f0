"""What the handlers of the Image API work with."""

import msgspec
from oslo_config import cfg

from minova.api.image.store import ImageStore
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db` is read-only: the conductor changes the records. `store` holds the bytes."""

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    store: ImageStore
