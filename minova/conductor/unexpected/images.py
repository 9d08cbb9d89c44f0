"""Images whose bytes are in an image store, and of which the database knows too little."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import TaskWorker
from minova.conductor.unexpected.checks import valid_images
from minova.conductor.unexpected.warnings import warn_of_some
from minova.conductor.unexpected.witnesses import ReportNotes
from minova.context import RequestContext
from minova.contracts.conductor.api.images import ImageReportsApi
from minova.db import quotas
from minova.db.catalogue import images as catalogue
from minova.db.models import DeletedImage, Image, UnexpectedImage
from minova.db.recovery import cloud, unexpected
from minova.objects.catalogue.image import StoredImage
from minova.objects.unexpected.removal_rules import DomainVerdict

# In these statuses the record of an image waits for bytes.
WAITS = ("queued", "saving", "importing")


class ImageReports(ImageReportsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker
        self._notes = ReportNotes(worker, cloud.STORE)

    def report_images(self, ctx: RequestContext, store: str, images: Sequence[StoredImage]) -> tuple[str, ...]:
        """Replaces what this store has reported before. Returns the images that an operator has decided to remove.

        Raises BadRequest if there are too many images, DiskFull if there is no room for new ones.
        """
        images_by_id = valid_images(store, images)
        with self._worker.db.read() as session:
            before = unexpected.images_in(session, store)
        if images_by_id.keys() - before.keys():
            self._worker.db.require_room()
        if before or images_by_id:
            before = self._worker.record(lambda session: self._write(session, store, images_by_id))
        self._notes.note(store)
        return tuple(image_id for image_id, row in before.items() if row.remove_at is not None)

    def _write(
        self, session: Session, store: str, images_by_id: Mapping[str, StoredImage]
    ) -> dict[str, UnexpectedImage]:
        at, rows = self._worker.at(), unexpected.images_in(session, store)
        for image_id in sorted(rows.keys() - images_by_id.keys()):
            unexpected.forget_image(session, image_id, store)
        warn_of_some(
            "Images in the store of %s are left as they are: the database does not know them: %s",
            store,
            images_by_id.keys() - rows.keys(),
        )
        for image_id, stored in sorted(images_by_id.items()):
            reason = (DomainVerdict.NEWER if stored.has_row else DomainVerdict.NO_ROW).value
            if image_id in rows:
                row = session.get(UnexpectedImage, (store, image_id))
                assert row is not None  # it was just read
                row.reason, row.size, row.image = reason, stored.size, stored.image
                continue
            values = {"store": store, "id": image_id, "reason": reason, "size": stored.size, "image": stored.image}
            session.connection().execute(insert(UnexpectedImage).values(**values, seen_at=at))
        session.flush()
        return unexpected.images_in(session, store)


def adopt_image(session: Session, image_id: str, at: datetime) -> None:
    """Makes the record of an image from what is recorded beside its bytes, or completes the record that waits for them.

    Raises NotFound if no store reports the image. Raises Conflict if nothing is recorded beside its bytes, or its record
    has changed meanwhile.
    """
    rows = unexpected.images(session, image_id)
    if not rows:
        raise errors.NotFound(f"Neither a host nor an image store reports {image_id}.")
    image = next((row.image for row in rows if row.image is not None), None)
    if image is None:
        raise errors.Conflict(f"Nothing is recorded beside the bytes of image {image_id}.")
    if session.get(DeletedImage, image_id) is not None:
        raise errors.Conflict(f"Image {image_id} was deleted.")
    status = session.scalar(select(Image.status).where(Image.id == image_id).with_for_update())
    if status is None:
        catalogue.add(session, image, at)
    elif status in WAITS:
        catalogue.replace(session, image, status, at)
    else:
        raise errors.Conflict(f"Image {image_id} is {status} by now.")
    session.connection().execute(update(Image).where(Image.id == image_id).values(created_at=image.created_at or at))
    quotas.add(session, image.owner or "", quotas.of_image(image))
    unexpected.forget_image(session, image_id)


def remove_image(session: Session, image_id: str, at: datetime) -> None:
    """Decides that the bytes of an image without a record are removed.

    Raises NotFound if no store reports the image, Conflict if it has a record.
    """
    if not unexpected.images(session, image_id):
        raise errors.NotFound(f"Neither a host nor an image store reports {image_id}.")
    if session.scalar(select(Image.id).where(Image.id == image_id)) is not None:
        raise errors.Conflict(f"Image {image_id} has a record: delete the image instead.")
    if len(image_id) <= 36 and session.get(DeletedImage, image_id) is None:
        session.connection().execute(insert(DeletedImage).values(id=image_id))
    session.connection().execute(update(UnexpectedImage).where(UnexpectedImage.id == image_id).values(remove_at=at))
