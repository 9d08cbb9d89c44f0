"""What the handlers of the Compute API work with."""

from collections.abc import Callable

import msgspec
from oslo_config import cfg

from minova.api.compute.waiting import WaitingRequests
from minova.api.image.collaborators import ImageService
from minova.api.image.proxy import ImageProxy
from minova.api.image.view import BuiltInImages
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db` is read-only: the conductor makes all changes. `compute` calls the compute service of a host. `waiting`: places for
    requests that wait for a guest. `images`: where servers' images are found.
    `image_proxy`: the same for `/images`.
    """

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    compute: Callable[[str], ComputeApi]
    waiting: WaitingRequests
    images: ImageService = BuiltInImages()
    image_proxy: ImageProxy
