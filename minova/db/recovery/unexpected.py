"""Guests and images that hosts and stores hold, and the database does not know: queries and writes."""

from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, insert, select, union, update
from sqlalchemy.orm import Session

from minova.db.models import (
    Instance,
    InstanceAction,
    InstanceActionEvent,
    Migration,
    PurgedInstance,
    Task,
    UnexpectedGuest,
    UnexpectedImage,
)
from minova.db.recovery import cloud
from minova.db.servers import actions
from minova.db.sql import chunked
from minova.objects.servers.states import RESOURCE_FREE, VmState
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord
from minova.objects.unexpected.removal_rules import HAS_NOTHING, DomainVerdict

# The key in an instance's system_metadata under which the last action of an adopted guest is noted.
ADOPTED = "adopted_action"
# The reasons of guests of which the database knows too little.
_LACKING = (
    DomainVerdict.NO_ROW.value,
    DomainVerdict.NEWER.value,
    DomainVerdict.MISPLACED.value,
    DomainVerdict.NO_COPY.value,
)
# Built once: every audit of every node runs it.
_REASONS_ON = select(UnexpectedGuest.uuid, UnexpectedGuest.reason).where(UnexpectedGuest.host == bindparam("on_host"))


def is_empty(session: Session, host: str | None = None) -> bool:
    """Whether nothing is known that the database lacks: on this host, or on all hosts and in all image stores. Guests
    and images that an operator has decided to remove do not count.
    """
    lacks = UnexpectedGuest.reason.in_(_LACKING)
    guests = exists().where(UnexpectedGuest.remove_at.is_(None), lacks)
    if host is not None:
        return not session.scalar(select(guests.where(UnexpectedGuest.host == host)))
    images = exists().where(UnexpectedImage.remove_at.is_(None))
    return not session.scalar(select(guests)) and not session.scalar(select(images))


# -- guests ------------------------------------------------------------------------------------------------------------


def guests_on(session: Session, host: str) -> dict[str, UnexpectedGuest]:
    rows = session.scalars(select(UnexpectedGuest).where(UnexpectedGuest.host == host))
    return {row.uuid: row for row in rows}


def guests(session: Session, uuid: str | None = None) -> list[UnexpectedGuest]:
    """Returns all guests, or those with this uuid, in the order of their hosts."""
    query = select(UnexpectedGuest).order_by(UnexpectedGuest.host, UnexpectedGuest.uuid)
    return list(session.scalars(query if uuid is None else query.where(UnexpectedGuest.uuid == uuid)))


def records_of(session: Session, uuids: Collection[str]) -> list[UnexpectedGuest]:
    """Returns what hosts have reported of guests of these instances."""
    rows: list[UnexpectedGuest] = []
    for chunk in chunked(sorted(uuids)):
        rows += session.scalars(select(UnexpectedGuest).where(UnexpectedGuest.uuid.in_(chunk)))
    return sorted(rows, key=lambda row: (row.uuid, row.host))


def reasons_on(session: Session, host: str) -> dict[str, set[str]]:
    """Returns the guests of a host by the reason for which the host's last report has listed them."""
    by_reason: dict[str, set[str]] = {}
    for uuid, reason in session.connection().execute(_REASONS_ON, {"on_host": host}):
        by_reason.setdefault(reason, set()).add(uuid)
    return by_reason


def newer_on(session: Session, host: str) -> set[str]:
    """Returns the guests of a host that are newer than their rows, as the host has reported them last."""
    return reasons_on(session, host).get(DomainVerdict.NEWER.value, set())


def newer_among(session: Session, uuids: Collection[str]) -> dict[str, str]:
    """Returns {uuid: host} of those of these instances that have a guest which is newer than their row.

    Only a host that had to do with the instance can say so. If the instance has no host, every host can: it may
    have been unshelved or moved there since the database was backed up.
    """
    model = UnexpectedGuest
    claims: set[tuple[str, str]] = set()
    for chunk in chunked(sorted(uuids)):
        query = select(model.uuid, model.host).where(model.uuid.in_(chunk), model.reason == DomainVerdict.NEWER.value)
        claims.update((row.uuid, row.host) for row in session.execute(query))
    hosts_by_uuid = _hosts_known(session, {uuid for uuid, _ in claims}) if claims else {}
    return {uuid: host for uuid, host in sorted(claims) if hosts_by_uuid.get(uuid, {host}) & {host, None}}


def _hosts_known(session: Session, uuids: Collection[str]) -> dict[str, set[str | None]]:
    """Returns the hosts that rows, tasks, migrations and events of actions name for each instance. None is among them if
    its row names none.
    """
    records, events, moves = InstanceAction, InstanceActionEvent, Migration
    hosts_by_uuid: dict[str, set[str | None]] = {uuid: set() for uuid in uuids}
    for chunk in chunked(sorted(uuids)):
        hosts_of_guests: Any = union(
            select(Instance.uuid, Instance.host).where(Instance.uuid.in_(chunk)),
            select(Task.instance_uuid, Task.host).where(Task.instance_uuid.in_(chunk), Task.host.is_not(None)),
            select(moves.instance_uuid, moves.source_compute).where(moves.instance_uuid.in_(chunk)),
            select(moves.instance_uuid, moves.dest_compute).where(
                moves.instance_uuid.in_(chunk), moves.dest_compute.is_not(None)
            ),
            select(records.instance_uuid, events.host)
            .join(events, events.action_id == records.id)
            .where(records.instance_uuid.in_(chunk), events.host.is_not(None)),
        )
        for uuid, host in session.execute(hosts_of_guests):
            hosts_by_uuid[uuid].add(host)
    return hosts_by_uuid


def without_guest(session: Session, host: str, here: Container[str]) -> list[str]:
    """Returns the idle servers of a host that must have a guest there, and are not in `here`."""
    model = Instance
    query = select(model.uuid).where(
        model.host == host,
        model.deleted_at.is_(None),
        model.task_state.is_(None),
        model.launched_at.is_not(None),
        model.vm_state.not_in([VmState.ERROR.value, *(state.value for state in RESOURCE_FREE)]),
    )
    return sorted(uuid for uuid in session.scalars(query) if uuid not in here)


def without_copy(session: Session, host: str, here: Container[str]) -> list[str]:
    """Returns the idle servers whose move from this host waits for a confirmation, and of which it has no copy in `here`."""
    waits = select(Migration.instance_uuid).where(
        Migration.source_compute == host,
        Migration.dest_compute != host,
        Migration.status == "finished",
        exists().where(
            Instance.uuid == Migration.instance_uuid,
            Instance.host == Migration.dest_compute,
            Instance.deleted_at.is_(None),
            Instance.task_state.is_(None),
        ),
    )
    return sorted({uuid for uuid in session.scalars(waits) if uuid not in here})


def hosts_without_copy(session: Session, uuid: str) -> set[str]:
    """Returns the hosts that have reported that they are the source of a move of this instance and have no copy."""
    model = UnexpectedGuest
    query = select(model.host).where(model.uuid == uuid, model.reason == DomainVerdict.NO_COPY.value)
    return set(session.scalars(query))


def note_guest(session: Session, host: str, mark: GuestMark, reason: DomainVerdict, at: datetime) -> None:
    """Writes what a host has reported. A record stays unless it is of another attempt or action."""
    row = session.get(UnexpectedGuest, (host, mark.uuid))
    if row is None:
        values = {"host": host, "uuid": mark.uuid, "reason": reason.value, "mark": mark, "seen_at": at}
        session.connection().execute(insert(UnexpectedGuest).values(**values))
        return
    if not is_same(row.mark, mark):
        row.record = None
    row.reason, row.mark = reason.value, mark
    session.flush()


def is_same(before: GuestMark, now: GuestMark) -> bool:
    """Whether nothing has ended on the host between the two marks of a guest."""
    return (before.attempt, before.action_id, before.request_id) == (now.attempt, now.action_id, now.request_id)


def keep_record(session: Session, host: str, record: GuestRecord) -> UnexpectedGuest | None:
    """Returns the row, or None if the guest is not unexpected any more, or its mark is not that of the record."""
    row = session.get(UnexpectedGuest, (host, record.instance.uuid))
    if row is None or not _is_of(row.mark, record):
        return None
    row.record = record
    session.flush()
    return row


def _is_of(mark: GuestMark, record: GuestRecord) -> bool:
    """Whether a record tells what the mark tells. A domain may not name its attempt."""
    last = record.actions[-1] if record.actions else None
    action = (None, None) if last is None else (last.id, last.request_id)
    return mark.attempt in (None, record.attempt) and (mark.action_id, mark.request_id) == action


def records_on(session: Session, host: str) -> int:
    """Returns the number of guests of a host whose records are stored."""
    model = UnexpectedGuest
    query = select(func.count()).select_from(model).where(model.host == host, model.record.is_not(None))
    return session.scalar(query) or 0


def reported_elsewhere(session: Session, host: str, uuids: Collection[str]) -> set[str]:
    """Returns those of these guests that other hosts have unexpectedly, too."""
    model, reported_uuids = UnexpectedGuest, set()
    is_there = model.host != host, model.reason.not_in([reason.value for reason in HAS_NOTHING])
    for chunk in chunked(sorted(uuids)):
        reported_uuids |= set(session.scalars(select(model.uuid).where(*is_there, model.uuid.in_(chunk))))
    return reported_uuids


def forget_guests(session: Session, host: str, uuids: Iterable[str]) -> None:
    model = UnexpectedGuest
    for chunk in chunked(sorted(uuids)):
        session.connection().execute(delete(model).where(model.host == host, model.uuid.in_(chunk)))
    session.expire_all()


def forget_guest(session: Session, uuid: str) -> None:
    """Removes the reports of all hosts about a guest."""
    session.connection().execute(delete(UnexpectedGuest).where(UnexpectedGuest.uuid == uuid))
    session.expire_all()


def forget_host(session: Session, host: str) -> None:
    """Removes what the host has reported, and what operators have decided about its guests: another machine may take the name, and
    its guests are not those that were meant.
    """
    for model in (UnexpectedGuest, PurgedInstance):
        session.connection().execute(delete(model).where(model.host == host))
    cloud.forget_reports(session, host)
    session.expire_all()


def with_unknown_actions(session: Session, marks: Iterable[GuestMark]) -> set[str]:
    """Returns the guests whose last action, of those that ended on their host, the database does not have.

    An action that has been purged is not unknown: a later one of its instance is kept.
    """
    by_id = {mark.action_id: mark for mark in marks if mark.action_id is not None}
    model, missing = InstanceAction, dict(by_id)
    for chunk in chunked(sorted(by_id)):
        for action_id, request_id in session.execute(select(model.id, model.request_id).where(model.id.in_(chunk))):
            if by_id[action_id].request_id == request_id:
                del missing[action_id]
    suspects = {mark.uuid: mark for mark in missing.values()}
    later = {
        uuid
        for uuid, last in actions.last_of(session, suspects).items()
        if last.number > (suspects[uuid].action_id or 0)
    }
    return set(suspects) - later - _adopted(session, suspects)


def _adopted(session: Session, suspects: Mapping[str, GuestMark]) -> set[str]:
    adopted = set()
    for chunk in chunked(sorted(suspects)):
        query = select(Instance.uuid, Instance.system_metadata).where(Instance.uuid.in_(chunk))
        for uuid, system_metadata in session.execute(query):
            if system_metadata.get(ADOPTED) == action_of(suspects[uuid]):
                adopted.add(uuid)
    return adopted


def action_of(mark: GuestMark) -> str:
    """Returns the text that names the last action of a guest in `ADOPTED`."""
    return f"{mark.action_id} {mark.request_id}"


def mark_for_removal(session: Session, uuid: str, host: str | None, at: datetime) -> int:
    """Returns how many guests are marked: those with this uuid, on this host or on all hosts."""
    statement = update(UnexpectedGuest).where(UnexpectedGuest.uuid == uuid)
    if host is not None:
        statement = statement.where(UnexpectedGuest.host == host)
    result: Any = session.connection().execute(statement.values(remove_at=at))
    session.expire_all()
    return int(result.rowcount)


# -- images ------------------------------------------------------------------------------------------------------------


def images_in(session: Session, store: str) -> dict[str, UnexpectedImage]:
    return {row.id: row for row in session.scalars(select(UnexpectedImage).where(UnexpectedImage.store == store))}


def images(session: Session, image_id: str | None = None) -> list[UnexpectedImage]:
    query = select(UnexpectedImage).order_by(UnexpectedImage.id, UnexpectedImage.store)
    return list(session.scalars(query if image_id is None else query.where(UnexpectedImage.id == image_id)))


def forget_image(session: Session, image_id: str, store: str | None = None) -> None:
    statement = delete(UnexpectedImage).where(UnexpectedImage.id == image_id)
    if store is not None:
        statement = statement.where(UnexpectedImage.store == store)
    session.connection().execute(statement)
    session.expire_all()
