"""Lists for operators of what hosts and image stores hold unexpectedly."""

from datetime import UTC, datetime

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.conductor.unexpected import doubts
from minova.db.models import UnexpectedGuest, UnexpectedImage
from minova.db.recovery import unexpected
from minova.db.servers import migrations
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import power_state_of
from minova.objects.unexpected.removal_rules import HAS_NOTHING, WHY, DomainVerdict


class UnexpectedItem(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: guest, copy (of a guest's disks) or image. `where`: its host, or the host of the image store. `why`: in words.

    `project_id`, `user_id`, `flavor` (its name), `image_id`, `addresses`: what an adoption would write, by the record of
    the host.
    `doubts`: why it is not adopted together with others, in words.
    """

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
    project_id: str = ""
    user_id: str = ""
    flavor: str = ""
    image_id: str = ""
    addresses: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def now() -> datetime:
    """The time of an operator's decision, for people."""
    return datetime.now(UTC).replace(tzinfo=None)


def listed(session: Session, conf: cfg.ConfigOpts | None = None) -> list[UnexpectedItem]:
    """`conf`: of quotas; None: the list is without doubts."""
    rows = unexpected.guests(session)
    guests = [_guest(guest, () if conf is None else tuple(doubts.of(session, conf, guest))) for guest in rows]
    return guests + [_image(image) for image in unexpected.images(session)]


def last_copies(session: Session) -> list[UnexpectedItem]:
    """Returns the copies of disks that ended moves have left, and that no rule may remove."""
    return [
        UnexpectedItem(
            kind="copy",
            id=migration.instance_uuid,
            where=str(migration.cleanup_host),
            name=f"migration {migration.uuid}",
            reason=migration.hold.value,
            why="a move has left it, and it may be newer than the server's disks",
            attempt=migration.attempt,
            can_be_adopted=False,
            is_to_be_removed=False,
            seen_at=migration.updated_at or now(),
        )
        for migration in migrations.last_copies(session)
    ]


def _guest(guest: UnexpectedGuest, why_alone: tuple[str, ...]) -> UnexpectedItem:
    instance = None if guest.record is None else guest.record.instance
    reason = DomainVerdict(guest.reason)
    power_state = power_state_of(guest.mark.power_state).name.lower() if guest.mark.has_domain else "no domain"
    return UnexpectedItem(
        kind="guest",
        id=guest.uuid,
        where=guest.host,
        name=guest.mark.name,
        reason=reason.value,
        why=WHY[reason],
        power_state=power_state,
        attempt=guest.mark.attempt,
        can_be_adopted=(guest.record is not None or reason is DomainVerdict.NO_COPY)
        and reason not in {DomainVerdict.REMOVE, DomainVerdict.STRAY}
        and guest.remove_at is None,
        is_to_be_removed=guest.remove_at is not None,
        seen_at=guest.seen_at,
        project_id="" if instance is None else instance.project_id,
        user_id="" if instance is None else instance.user_id,
        flavor="" if instance is None else instance.flavor.name,
        image_id="" if instance is None else instance.image_ref,
        addresses=() if instance is None else _addresses(instance),
        doubts=why_alone if reason not in HAS_NOTHING and guest.remove_at is None else (),
    )


def _addresses(instance: Instance) -> tuple[str, ...]:
    return tuple(address.ip_address for vif in instance.network_info for address in vif.addresses)


def _image(image: UnexpectedImage) -> UnexpectedItem:
    reason = DomainVerdict(image.reason)
    return UnexpectedItem(
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
        project_id=(image.image.owner if image.image is not None else None) or "",
    )
