"""Tokens with which computes download the images of their instances, and upload their snapshots."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.actions.kinds.images import image_made
from minova.conductor.actions.kinds.rescue import rescue_images
from minova.conductor.actions.kinds.shelving import image_of_offload
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.computes.images import ImageTokensApi
from minova.db.catalogue import image_token_keys, images
from minova.db.servers import instances
from minova.image_tokens import Keys, Right, sign

# Seconds between two readings of the keys and of the database's clock. Less than a period, so that each key is made in
# time.
REFRESH_INTERVAL = 60.0


class _KeysReading(NamedTuple):
    keys: Keys
    ticks: float


class ImageTokens(ImageTokensApi):
    """Safe for threads. Between two refreshes the time is computed from the last one, so that signing needs no
    database.

    `ticks`: seconds, monotonic.
    """

    def __init__(self, worker: TaskWorker, ticks: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._ticks = ticks
        self._lock = threading.Lock()
        self._reading: _KeysReading | None = None

    def refresh(self) -> None:
        """Call every REFRESH_INTERVAL seconds. Raises ServiceUnavailable if the database does not answer."""
        keys = image_token_keys.ensure(self._worker.db)
        # After the reading, however long it took: a token is not signed for a later time than that of the database.
        ticks = self._ticks()
        with self._lock:
            self._reading = _KeysReading(keys, ticks)

    def token_for(self, image_id: str, right: Right = Right.DOWNLOAD) -> str | None:
        """Returns None if there is no key yet. The host then requests a token when it needs one."""
        with self._lock:
            reading = self._reading
        if reading is None:
            return None
        keys = reading.keys
        return sign(keys.accepted[-1], image_id, keys.now + self._ticks() - reading.ticks, right)

    def image_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        """For a host whose token expired while it waited, or which got none."""
        with self._worker.db.read() as session:
            used = rescue_images(session, instance_uuid, host) | {image_of_offload(session, instance_uuid, host)}
            own = instances.image_on(session, instance_uuid, host)
            if own is not None:
                used |= {own, *_boot_files(session, instance_uuid)}
        if image_id not in used:
            raise errors.StaleAttempt(f"Host {host} has no instance {instance_uuid} of image {image_id}")
        return self._new_token(image_id, Right.DOWNLOAD)

    def image_upload_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        with self._worker.db.read() as session:
            if image_made(session, instance_uuid, host) != image_id:
                raise errors.StaleAttempt(f"Host {host} makes no image {image_id} of instance {instance_uuid}")
            image = images.find(session, image_id)
        if image is None:
            raise errors.ImageDeleted(f"Image {image_id} has been deleted")
        if image.status not in ("queued", "saving"):
            raise errors.Conflict(f"Image {image_id} has all its bytes")
        return self._new_token(image_id, Right.UPLOAD)

    def _new_token(self, image_id: str, right: Right) -> str:
        self.refresh()
        token = self.token_for(image_id, right)
        assert token is not None
        return token


def _boot_files(session: Session, instance_uuid: str) -> set[str]:
    """Returns the ids of the kernel and the ramdisk of the image that the server has now."""
    image = instances.by_uuids(session, [instance_uuid], networks=False)[instance_uuid].image
    return set() if image is None else {each.id for each in image.boot_files}
