"""What the handlers of the Compute API work with."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg

from minova.api.http.waiting import WaitingRequests
from minova.api.image.collaborators import ImageService
from minova.api.image.proxy import ImageProxy
from minova.api.image.view import BuiltInImages
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database

if TYPE_CHECKING:  # its packages take a part of the start that other clouds need not wait for
    from minova.neutron_client import NeutronClient
else:
    NeutronClient = Any


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db` is read-only: the conductor makes all changes. `compute` calls the compute service of a host. `waiting`: places for
    requests that wait for a guest. `images`: where servers' images are found. `image_proxy`: the same for `/images`.
    `neutron`: which has the networks of new servers; None: minova itself.
    """

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    compute: Callable[[str], ComputeApi]
    waiting: WaitingRequests
    images: ImageService = BuiltInImages()
    image_proxy: ImageProxy
    neutron: NeutronClient | None = None
