"""The collaborators of the Compute API's handlers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from oslo_config import cfg

from minova.api.compute.console_page import ConsolePage
from minova.api.http.waiting import WaitingRequests
from minova.api.image.collaborators import ImageService
from minova.api.image.proxy import ImageProxy
from minova.api.image.view import BuiltInImages
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database

if TYPE_CHECKING:  # importing it takes time at the start, which clouds without Neutron save
    from minova.neutron_client import NeutronClient
else:
    NeutronClient = Any


class ComputeApiCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db`: read-only; the conductor makes all changes.
    `compute`: returns a client of the compute service of a host.
    `waiting`: places for requests that wait for a guest.
    `images`: finds the images of servers.
    `image_proxy`: serves `/images`.
    `console_page`: whether the console proxy serves one.
    `neutron`: provides the networks of new servers; None: minova itself does.
    """

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    compute: Callable[[str], ComputeApi]
    waiting: WaitingRequests
    images: ImageService = BuiltInImages()
    image_proxy: ImageProxy
    neutron: NeutronClient | None = None
    console_page: ConsolePage = msgspec.field(default_factory=ConsolePage)
