"""What the handlers of the Image API work with, and how the Compute API finds images."""

from typing import Protocol

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.api.http.call import Call
from minova.api.image.store import ImageStore
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.objects.image import Image


class ImageService(Protocol):
    """The built-in one, or Glance."""

    def visible(self, session: Session, image_id: str, call: Call) -> Image | None:
        """None also for an image that the caller may not see. ServiceUnavailable: the service does not answer."""
        ...

    def announce(self, call: Call, image: Image) -> Image:
        """Before the conductor writes down that this image is made of a server. Returns what it is to write. Forbidden: it may not be."""
        ...

    def withdraw(self, call: Call, image: Image) -> None:
        """The conductor has refused to. Raises nothing."""
        ...


class DataService(Protocol):
    """The bytes, for computes with a token of a conductor."""

    def send(self, call: Call) -> None:
        """Answers a download."""
        ...

    def receive(self, api: "Collaborators", call: Call, image: Image) -> None:
        """Takes an upload."""
        ...

    def recover(self, api: "Collaborators") -> None:
        """Does now and then what is left: deletes there what the conductor has deleted."""
        ...


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db` is read-only: the conductor changes the records. `store` holds the bytes. `remote`: those are with Glance."""

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    store: ImageStore
    remote: DataService | None = None
