"""What hosts and image stores hold unexpectedly, for operators."""

from datetime import UTC, datetime

import msgspec
from sqlalchemy.orm import Session

from minova.db.models import UnexpectedGuest, UnexpectedImage
from minova.db.recovery import unexpected
from minova.objects.removal_rules import WHY, Verdict
from minova.objects.states import power_state_of


class Unexpected(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: guest or image. `where`: its host, or the host of the image store. `why`: in words."""

    kind: str
    id: str
    where: str
    name: str
    reason: str
    why: str
    power_state: str = ""
    attempt: int | None = None
    size: int | None = None
    can_be_adopted: bool
    is_to_be_removed: bool
    seen_at: datetime


def now() -> datetime:
    """The time of an operator's decision, for people."""
    return datetime.now(UTC).replace(tzinfo=None)


def listed(session: Session) -> list[Unexpected]:
    guests = [_guest(guest) for guest in unexpected.guests(session)]
    return guests + [_image(image) for image in unexpected.images(session)]


def _guest(guest: UnexpectedGuest) -> Unexpected:
    reason = Verdict(guest.reason)
    power_state = power_state_of(guest.mark.power_state).name.lower() if guest.mark.has_domain else "no domain"
    return Unexpected(
        kind="guest",
        id=guest.uuid,
        where=guest.host,
        name=guest.mark.name,
        reason=reason.value,
        why=WHY[reason],
        power_state=power_state,
        attempt=guest.mark.attempt,
        can_be_adopted=guest.record is not None and reason is not Verdict.REMOVE and guest.remove_at is None,
        is_to_be_removed=guest.remove_at is not None,
        seen_at=guest.seen_at,
    )


def _image(image: UnexpectedImage) -> Unexpected:
    reason = Verdict(image.reason)
    return Unexpected(
        kind="image",
        id=image.id,
        where=image.store,
        name=(image.image.name if image.image is not None else None) or "",
        reason=reason.value,
        why=WHY[reason],
        size=image.size,
        can_be_adopted=image.image is not None,
        is_to_be_removed=image.remove_at is not None,
        seen_at=image.seen_at,
    )
