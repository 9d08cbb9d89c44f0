"""Image records. The bytes are in the image store of the API."""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.tasks.worker import Worker
from minova.db.catalogue import images
from minova.objects.image import Image


class Images:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def create(self, image: Image) -> Image:
        """Conflict: its id is taken, or was. Both have the same text, which tells nothing of other projects' images."""
        try:
            return self._worker.run(lambda session: images.add(session, image, self._worker.at()))
        except (IntegrityError, images.IdWasUsed):
            raise errors.Conflict(f"The image id {image.id} is taken: choose another one, or none") from None

    def update(self, image: Image, expected_status: str) -> Image:
        """NotFound, or Conflict: it is in another status."""

        def work(session: Session) -> Image:
            made = images.replace(session, image, expected_status, self._worker.at())
            if made is not None:
                return made
            found = images.find(session, image.id)
            if found is None:
                raise errors.NotFound(f"Image {image.id} could not be found.")
            raise errors.Conflict(f"Image {image.id} is {found.status}, not {expected_status}")

        return self._worker.run(work)

    def delete(self, image_id: str) -> None:
        """Forbidden: it is protected."""

        def work(session: Session) -> None:
            found = images.find(session, image_id)
            if found is not None and found.protected:
                raise errors.Forbidden(f"Image {image_id} is protected and cannot be deleted.")
            if not images.remove(session, image_id):
                raise errors.NotFound(f"Image {image_id} could not be found.")

        self._worker.run(work)
