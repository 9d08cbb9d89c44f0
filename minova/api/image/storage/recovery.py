"""Recovers images whose upload died: queues them again and removes their partial files. Removes the bytes of images
that have been deleted.
"""

import logging
import threading

from minova import errors
from minova.api.image.collaborators import ImageApiCollaborators
from minova.api.image.data import requeue
from minova.api.image.storage.removals import too_many
from minova.context import service_context
from minova.db.api_queries import images
from minova.db.sql import chunked
from minova.objects.catalogue.image import COMING
from minova.service import FailureLog, PeriodicTask, start_periodic, unless_safe

LOG = logging.getLogger(__name__)

INTERVAL = 60.0  # seconds


def start(api: ImageApiCollaborators, stopping: threading.Event) -> None:
    """Runs at once and every minute, but not in safe mode: an upload that cannot reach the conductor leaves its image in
    status saving.
    """
    work = Recovery(api).recover
    task = unless_safe(PeriodicTask(name="image recovery", interval=INTERVAL, work=work, at_once=True), api.safe_mode)
    start_periodic(task, stopping)


class Recovery:
    def __init__(self, api: ImageApiCollaborators) -> None:
        self._api = api
        self._removing = FailureLog("Removing bytes of deleted images", "No bytes of deleted images are removed")

    def recover(self) -> None:
        """Queues the image of each abandoned upload again and removes its file. Removes bytes of deleted images."""
        api = self._api
        for image_id, path in api.store.abandoned_uploads():
            with api.db.read() as session:
                image = images.image(session, image_id)
            is_stuck = image is not None and image.status in COMING and not api.store.is_coming(image_id, beside=path)
            if image is not None and is_stuck and not requeue(api, service_context(), image_id, image.status):
                raise errors.ServiceUnavailable(f"image {image_id} is still in status {image.status}")
            path.unlink(missing_ok=True)
            LOG.info("Removed the broken upload %s", path.name)
        self._stop_uploads()
        self._clean()
        if api.remote is not None:
            api.remote.recover(api)

    def _stop_uploads(self) -> None:
        """Stops uploads of images that were deleted by another process: their quota is already free."""
        for chunk in chunked(sorted(self._api.store.partial_images())):
            with self._api.db.read() as session:
                deleted = images.deleted_ids(session, chunk)
            for image_id in deleted:
                self._api.store.stop_upload(image_id)

    def _clean(self) -> None:
        """Removes the bytes of images that were deleted: a conductor has deleted their records, or an API died before
        it removed the bytes. Bytes without a record of their image and of its deletion are left as they are: the
        database may be older than they are, or that of another cloud.
        """
        deleted = self._deleted()
        most = self._api.conf.api.max_automatic_image_removals
        if most and len(deleted) > most:
            self._removing.failed(too_many(len(deleted), most), level=logging.ERROR)
            return
        for image_id in deleted:
            self._api.store.delete(image_id)
            LOG.info("Removed the bytes of image %s, which was deleted", image_id)
        self._removing.worked()

    def _deleted(self) -> list[str]:
        """Returns the images that have bytes, no record, and a record of their deletion."""
        deleted: list[str] = []
        for chunk in chunked(sorted(self._api.store.complete())):
            with self._api.db.read() as session:
                # The record is read before its deletion, which one transaction replaces by the other.
                deleted_ids = set(chunk) - images.existing_ids(session, chunk)
                deleted.extend(sorted(images.deleted_ids(session, deleted_ids)))
        return deleted
