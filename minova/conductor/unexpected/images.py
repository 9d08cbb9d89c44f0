"""Images whose bytes are in an image store, and of which the database knows too little."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import Worker
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
from minova.objects.unexpected.removal_rules import Verdict

# In these statuses the record of an image waits for bytes.
WAITS = ("queued", "saving", "importing")


class ImageReports(ImageReportsApi):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._notes = ReportNotes(worker, cloud.STORE)

    def report_images(self, ctx: RequestContext, store: str, images: Sequence[StoredImage]) -> tuple[str, ...]:
        """Replaces what this store has reported before. Returns the images that an operator has decided to remove.

        Raises BadRequest if there are too many images, DiskFull if there is no room for new ones.
        """
        found = valid_images(store, images)
        with self._worker.db.read() as session:
            before = unexpected.images_in(session, store)
        if found.keys() - before.keys():
            self._worker.db.require_room()
        if before or found:
            before = self._worker.record(lambda session: self._write(session, store, found))
        self._notes.note(store)
        return tuple(image_id for image_id, row in before.items() if row.remove_at is not None)

    def _write(self, session: Session, store: str, found: Mapping[str, StoredImage]) -> dict[str, UnexpectedImage]:
        at, known = self._worker.at(), unexpected.images_in(session, store)
        for image_id in sorted(known.keys() - found.keys()):
            unexpected.forget_image(session, image_id, store)
        warn_of_some(
            "Images in the store of %s are left as they are: the database does not know them: %s",
            store,
            found.keys() - known.keys(),
        )
        for image_id, one in sorted(found.items()):
            reason = (Verdict.NEWER if one.has_row else Verdict.NO_ROW).value
            if image_id in known:
                row = session.get(UnexpectedImage, (store, image_id))
                assert row is not None  # it was just read
                row.reason, row.size, row.image = reason, one.size, one.image
                continue
            values = {"store": store, "id": image_id, "reason": reason, "size": one.size, "image": one.image}
            session.connection().execute(insert(UnexpectedImage).values(**values, seen_at=at))
        session.flush()
        return unexpected.images_in(session, store)


def adopt_image(session: Session, image_id: str, at: datetime) -> None:
    """Makes the record of an image from what is recorded beside its bytes, or completes the record that waits for them.

    Raises NotFound if no store reports the image. Raises Conflict if nothing is recorded beside its bytes, or its record
    has changed meanwhile.
    """
    found = unexpected.images(session, image_id)
    if not found:
        raise errors.NotFound(f"Neither a host nor an image store reports {image_id}.")
    image = next((one.image for one in found if one.image is not None), None)
    if image is None:
        raise errors.Conflict(f"Nothing is recorded beside the bytes of image {image_id}.")
    if session.get(DeletedImage, image_id) is not None:
        raise errors.Conflict(f"Image {image_id} was deleted.")
    known = session.scalar(select(Image.status).where(Image.id == image_id).with_for_update())
    if known is None:
        catalogue.add(session, image, at)
    elif known in WAITS:
        catalogue.replace(session, image, known, at)
    else:
        raise errors.Conflict(f"Image {image_id} is {known} by now.")
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
