"""Recovers images whose upload died: queues them again and removes their partial files. Removes bytes
without a record.
"""

import logging
import threading

from minova import errors
from minova.api.image.collaborators import Collaborators
from minova.api.image.data import requeue
from minova.context import service_context
from minova.db.api_queries import images
from minova.db.sql import chunked
from minova.service import PeriodicTask, run_periodic

LOG = logging.getLogger(__name__)

INTERVAL = 60.0  # seconds
# Statuses in which a process writes the file of an image.
COMING = ("saving", "importing")


def start(api: Collaborators, stopping: threading.Event) -> None:
    """Runs at once and every minute: an upload that cannot reach the conductor leaves its image in status saving."""
    task = PeriodicTask(name="image recovery", interval=INTERVAL, work=lambda: recover(api), at_once=True)
    threading.Thread(target=run_periodic, args=(task, stopping), name=task.name, daemon=True).start()


def recover(api: Collaborators) -> None:
    """Queues the image of each abandoned upload again and removes its file."""
    for image_id, path in api.store.abandoned():
        with api.db.read() as session:
            image = images.image(session, image_id)
        is_stuck = image is not None and image.status in COMING and not api.store.is_coming(image_id, beside=path)
        if image is not None and is_stuck and not requeue(api, service_context(), image_id, image.status):
            raise errors.ServiceUnavailable(f"image {image_id} is still in status {image.status}")
        path.unlink(missing_ok=True)
        LOG.info("Removed the broken upload %s", path.name)
    _remove_orphans(api)
    if api.remote is not None:
        api.remote.recover(api)


def _remove_orphans(api: Collaborators) -> None:
    """Removes the bytes of images that a conductor has deleted, or an API that died meanwhile. An id is never used
    again.
    """
    for chunk in chunked(sorted(api.store.complete())):
        with api.db.read() as session:
            known = images.existing(session, chunk)
        for image_id in set(chunk) - known:
            api.store.delete(image_id)
            LOG.info("Removed the bytes of image %s, which was deleted", image_id)
