"""The collaborators of the Image API's handlers, and the interface by which the Compute API finds images."""

from typing import Protocol

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.api.http.call import Call
from minova.api.image.store import ImageStore
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.objects.catalogue.image import Image
from minova.safe_mode import SafeMode


class ImageService(Protocol):
    """The interface of the built-in image service and of Glance."""

    def visible(self, session: Session, image_id: str, call: Call) -> Image | None:
        """Returns None also if the caller may not see the image. Raises ServiceUnavailable if the service does not
        answer.
        """
        ...

    def announce(self, call: Call, image: Image) -> Image:
        """Announces an image of a server, before the conductor stores its record. Returns the record that the conductor
        is to store.

        Raises Forbidden if the image is not allowed.
        """
        ...

    def withdraw(self, call: Call, image: Image) -> None:
        """Withdraws an image after the conductor has refused it. Raises nothing."""
        ...


class DataService(Protocol):
    """The bytes of images, for computes with a token of a conductor."""

    def send(self, call: Call) -> None:
        """Answers a download."""
        ...

    def receive(self, api: "ImageApiCollaborators", call: Call, image: Image) -> None:
        """Takes an upload."""
        ...

    def recover(self, api: "ImageApiCollaborators") -> None:
        """Runs periodically: deletes from the service the images that conductors have deleted."""
        ...


class ImageApiCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """`db`: read-only; the conductor changes the records.
    `store`: holds the bytes.
    `remote`: the service that holds the bytes if they are in Glance; None: `store` does.
    `safe_mode`: of the process.
    """

    conf: cfg.ConfigOpts
    db: Database
    conductor: ConductorApi
    store: ImageStore
    remote: DataService | None = None
    safe_mode: SafeMode = msgspec.field(default_factory=SafeMode)
