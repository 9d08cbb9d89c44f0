"""Reports to a conductor which images the store holds that the database does not know, or knows without their bytes, and
keeps the record of each image beside its bytes.
"""

import logging
import threading
import time

from minova import errors, metrics
from minova.api.image.collaborators import ImageApiCollaborators
from minova.context import service_context
from minova.db.api_queries import images
from minova.db.sql import chunked
from minova.objects.catalogue.image import StoredImage
from minova.service import PeriodicTask, start_periodic

LOG = logging.getLogger(__name__)

# Seconds between two reports; and between two after an error, or in safe mode, which does not end before each store has reported.
INTERVAL, SOON = 60.0, 5.0
# The most ids in one line of the log.
MAX_LOGGED = 20
# In these statuses the record of an image says that it has no bytes yet.
WAITS = frozenset({"queued", "saving", "importing"})


def start(api: ImageApiCollaborators, stopping: threading.Event) -> None:
    """Runs at once, also in safe mode."""
    work = StoreReports(api, str(api.conf.host)).report_if_due
    task = PeriodicTask(name="report of images", interval=SOON, work=work, at_once=True, in_safe_mode=True)
    start_periodic(task, stopping)


class StoreReports:
    """`store`: the name under which the store is reported."""

    def __init__(self, api: ImageApiCollaborators, store: str) -> None:
        self._api = api
        self._store = store
        self._due_at = 0.0  # of time.monotonic
        self._unknown: frozenset[str] = frozenset()
        # {image id: when the record changed that is kept beside its bytes}
        self._kept: dict[str, str] = {}

    def report_if_due(self) -> None:
        """Raises ServiceUnavailable if no conductor answers; then it stays due."""
        begun = time.monotonic()
        if begun >= self._due_at or self._api.safe_mode.reason is not None:
            self.report()
            self._due_at = begun + INTERVAL

    def report(self) -> None:
        """Raises ServiceUnavailable if no conductor answers."""
        if self._api.remote is not None:
            return
        stored = self._unexpected()
        self._show(frozenset(image.id for image in stored))
        try:
            remove = self._api.conductor.report_images(service_context(), store=self._store, images=tuple(stored))
        except errors.PeerTooOld:  # during an upgrade
            return
        for image_id in remove if self._api.safe_mode.reason is None else ():
            self._api.store.delete(image_id)
            LOG.warning("Removed the bytes of image %s, as an operator has decided", image_id)

    def _unexpected(self) -> list[StoredImage]:
        stored_images: list[StoredImage] = []
        for chunk in chunked(sorted(self._api.store.complete())):
            with self._api.db.read() as session:
                changes = images.changes(session, chunk)
                unexpected_ids = set(chunk) - changes.keys()
                unexpected_ids -= images.deleted_ids(session, unexpected_ids)
            stored_images += [self._stored(image_id) for image_id in sorted(unexpected_ids)]
            for image_id, (status, changed) in sorted(changes.items()):
                if status not in WAITS:
                    self._keep(image_id, str(changed))
                # A record beside the bytes says that the image was active, which no image ceases to be.
                elif self._api.store.record(image_id) is not None:
                    stored_images.append(self._stored(image_id, has_row=True))
        return stored_images

    def _stored(self, image_id: str, *, has_row: bool = False) -> StoredImage:
        store = self._api.store
        return StoredImage(id=image_id, size=store.size(image_id) or 0, has_row=has_row, image=store.record(image_id))

    def _keep(self, image_id: str, changed: str) -> None:
        """Keeps the record of the database beside the bytes, unless that one is newer. In safe mode it may be."""
        if self._kept.get(image_id) == changed or self._api.safe_mode.reason is not None:
            return
        with self._api.db.read() as session:
            image = images.image(session, image_id)
        record = self._api.store.record(image_id)
        if image is not None and (record is None or str(record.updated_at) < str(image.updated_at)):
            self._api.store.keep_record(image)
        self._kept[image_id] = changed

    def _show(self, unknown: frozenset[str]) -> None:
        """Counts unknown images. Logs each of them once."""
        metrics.UNKNOWN_IMAGES.set(len(unknown))
        new = sorted(unknown - self._unknown)
        self._unknown = unknown
        if new:
            more = f" and {len(new) - MAX_LOGGED} more" if len(new) > MAX_LOGGED else ""
            LOG.warning(
                "The image store holds images that the database does not know; they are left as they are: %s%s",
                ", ".join(new[:MAX_LOGGED]),
                more,
            )
