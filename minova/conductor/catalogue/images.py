"""Image records, and the projects with which images are shared. The bytes are in the image store of the API."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.images import ImagesApi
from minova.db.catalogue import images
from minova.db.quotas import give, of_image
from minova.objects.catalogue.image import COMING, Image, ImageMember

T = TypeVar("T")

# Limits per image: Glance's defaults.
MAX_MEMBERS = 128
MEMBER_STATUSES = ("pending", "accepted", "rejected")


class Images(ImagesApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def create_image(self, ctx: RequestContext, image: Image) -> Image:
        """Raises Conflict if the ID is or was taken. Both cases have the same text, which reveals nothing of other
        projects' images.
        """
        try:
            return self.adding(lambda session: self.add(session, image))
        except (IntegrityError, images.IdWasUsed):
            raise errors.Conflict(f"The image id {image.id} is taken: choose another one, or none") from None

    def add(self, session: Session, image: Image) -> Image:
        """Call within `adding`. Raises IntegrityError or IdWasUsed if the ID is taken."""
        # The image comes first, so that a taken ID is reported before an exceeded quota.
        new_image = images.add(session, image, self._worker.at())
        self._quotas.take(session, image.owner or "", {"image_count_total": of_image(image)["image_count_total"]})
        return new_image

    def adding(self, work: Callable[[Session], T]) -> T:
        """Runs one transaction in which images may be added. Raises Forbidden if the project has reached its limit."""
        return self._quotas.counted(work)

    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        """Raises NotFound if there is no such image. Raises Conflict if it has another status. Raises Forbidden if its
        data exceed the quota of its owner.
        """

        def work(session: Session) -> Image:
            updated_image = images.replace(session, image, expected_status, self._worker.at())
            if updated_image is not None:
                if image.status == "active" and expected_status != "active":
                    self._quotas.take(
                        session, image.owner or "", {"image_size_total": of_image(image)["image_size_total"]}
                    )
                return updated_image
            current = images.find(session, image.id)
            if current is None:
                raise errors.NotFound(f"Image {image.id} could not be found.")
            raise errors.Conflict(f"Image {image.id} is {current.status}, not {expected_status}")

        return self._quotas.counted(work)

    def change_image(self, ctx: RequestContext, expected: Image, image: Image) -> Image:
        """Raises NotFound if there is no such image. Raises ImageChanged if it no longer equals the expected one.
        Raises Forbidden if it exceeds the quota of its owner, which the change may have replaced.
        """

        def work(session: Session) -> Image:
            current = _locked(session, image.id)
            if not _is_expected(current, expected, image):
                raise errors.ImageChanged(f"Image {image.id} has been changed meanwhile.")
            reserved = _reserved(current, expected, image)
            new_image = msgspec.structs.replace(image, reserved=reserved)
            updated_image = images.replace(session, new_image, current.status, self._worker.at())
            assert updated_image is not None  # the image is locked
            self._count(session, current, updated_image)
            return updated_image

        return self._quotas.counted(work)

    def _count(self, session: Session, before: Image, after: Image) -> None:
        """Update the usages: a change of the image's size or of its owner changes what a project uses."""
        old, new = before.owner or "", after.owner or ""
        if old != new:
            self._quotas.take(session, new, of_image(after))
            give(session, old, of_image(before))
            return
        more, less = Counter(of_image(after)), Counter(of_image(before))
        if more - less:
            self._quotas.take(session, new, dict(more - less))
        give(session, old, dict(less - more))

    def delete_image(self, ctx: RequestContext, image_id: str) -> None:
        """Delete the record, also of an image that another service keeps and has deleted. Raises Forbidden if the image
        is protected.
        """

        def work(session: Session) -> None:
            image = _locked(session, image_id)
            if image.protected:
                raise errors.Forbidden(f"Image {image_id} is protected and cannot be deleted.")
            images.forget(session, image_id)
            give(session, image.owner or "", of_image(image))

        self._worker.run(work)

    # -- members ---------------------------------------------------------------------------------------------------

    def add_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> ImageMember:
        """Raises NotFound if there is no such image. Raises Conflict if the project is a member already. Raises
        ImageLimitExceeded if the image has the most members allowed.
        """

        def work(session: Session) -> ImageMember:
            _locked(session, image_id)
            member_ids = {member.member_id for member in images.members(session, image_id)}
            if member_id in member_ids:
                raise errors.Conflict(f"Member {member_id} is duplicated for image {image_id}")
            if len(member_ids) >= MAX_MEMBERS:
                raise errors.ImageLimitExceeded(
                    f"Image member limit exceeded for image {image_id}: The limit has been exceeded on the number of allowed "
                    f"image members for this image. Attempted: {len(member_ids) + 1}, Maximum: {MAX_MEMBERS}:"
                )
            return images.add_member(session, image_id, member_id, self._worker.at())

        return self._worker.run(work)

    def update_image_member(self, ctx: RequestContext, image_id: str, member_id: str, status: str) -> ImageMember:
        """Raises NotFound if there is no such member."""
        if status not in MEMBER_STATUSES:
            raise errors.BadRequest('Status must be "pending", "accepted" or "rejected".')

        def work(session: Session) -> ImageMember:
            if not images.set_member_status(session, image_id, member_id, status, self._worker.at()):
                raise _no_member(image_id, member_id)
            member = images.member(session, image_id, member_id)
            assert member is not None  # its row is locked
            return member

        return self._worker.run(work)

    def remove_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> None:
        """Raises NotFound if there is no such member."""
        if not self._worker.run(lambda session: images.remove_member(session, image_id, member_id)):
            raise _no_member(image_id, member_id)


def _locked(session: Session, image_id: str) -> Image:
    image = images.locked(session, image_id)
    if image is None:
        raise errors.NotFound(f"Image {image_id} could not be found.")
    return image


def _is_expected(current: Image, expected: Image, after: Image) -> bool:
    """Whether the record is the one that the change was made from. Reservations matter to changes of reservations only: an
    upload makes them while users may change the same image.
    """
    is_same = _described(current) == _described(expected)
    return is_same and (after.reserved in (0, expected.reserved) or current.reserved == expected.reserved)


def _described(image: Image) -> Image:
    return msgspec.structs.replace(image, created_at=None, updated_at=None, reserved=0)


def _reserved(current: Image, expected: Image, after: Image) -> int:
    """Returns the bytes that the changed image reserves: none as soon as no process writes its bytes."""
    if after.status not in COMING:
        return 0
    return current.reserved if after.reserved == expected.reserved else after.reserved


def _no_member(image_id: str, member_id: str) -> errors.NotFound:
    return errors.NotFound(f"{member_id} not found in the member list of the image {image_id}.")
