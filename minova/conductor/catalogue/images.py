"""Image records. The bytes are in the image store of the API."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import Worker
from minova.db.catalogue import images
from minova.db.quotas import OverQuota, give, of_image
from minova.objects.image import Image

T = TypeVar("T")


class Images:
    def __init__(self, worker: Worker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def create(self, image: Image) -> Image:
        """Conflict: its id is taken, or was. Both have the same text, which tells nothing of other projects' images."""
        try:
            return self.adding(lambda session: self.add(session, image))
        except (IntegrityError, images.IdWasUsed):
            raise errors.Conflict(f"The image id {image.id} is taken: choose another one, or none") from None

    def add(self, session: Session, image: Image) -> Image:
        """Within `adding`. Raises IntegrityError or IdWasUsed: the id is taken."""
        # The image first: an id that is taken is told before the quota.
        made = images.add(session, image, self._worker.at())
        self._quotas.take(session, image.owner or "", {"image_count_total": 1})
        return made

    def adding(self, work: Callable[[Session], T]) -> T:
        """One transaction in which images may be added. Forbidden: the project has as many as it may have."""
        try:
            return self._quotas.run(work)
        except OverQuota as error:
            raise refused(error) from None

    def update(self, image: Image, expected_status: str) -> Image:
        """NotFound, or Conflict: it is in another status. Forbidden: its data are more than the quota of its owner."""

        def work(session: Session) -> Image:
            made = images.replace(session, image, expected_status, self._worker.at())
            if made is not None:
                if image.status == "active" and expected_status != "active":
                    self._quotas.take(
                        session, image.owner or "", {"image_size_total": of_image(image)["image_size_total"]}
                    )
                return made
            found = images.find(session, image.id)
            if found is None:
                raise errors.NotFound(f"Image {image.id} could not be found.")
            raise errors.Conflict(f"Image {image.id} is {found.status}, not {expected_status}")

        try:
            return self._quotas.run(work)
        except OverQuota as error:
            raise refused(error) from None

    def delete(self, image_id: str) -> None:
        """Forbidden: it is protected."""

        def work(session: Session) -> None:
            found = images.find(session, image_id)
            if found is not None and found.protected:
                raise errors.Forbidden(f"Image {image_id} is protected and cannot be deleted.")
            if not images.remove(session, image_id):
                raise errors.NotFound(f"Image {image_id} could not be found.")
            if found is not None:
                give(session, found.owner or "", of_image(found))

        self._worker.run(work)
