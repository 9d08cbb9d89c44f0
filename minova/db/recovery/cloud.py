"""The cloud that this database belongs to: its identity, its history, and safe mode. See docs/decisions/0045 and 0046."""

import uuid
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, bindparam, delete, insert, select, true, update
from sqlalchemy.orm import Session

from minova.db.clock import for_insert
from minova.db.models import ChangeCounter, Cloud, CloudHistory, WitnessReport
from minova.db.models.cloud import ROW
from minova.db.sql import in_list
from minova.objects.hosts.cloud import (
    COUNTER_RETENTION,
    CounterMark,
    DatabaseState,
    MarkKey,
    WitnessRecord,
    proven_marks,
)

# The most counters whose marks a conductor shows.
_COUNTERS = 16
_NEWEST = (
    select(ChangeCounter.id, ChangeCounter.number, ChangeCounter.changed_at)
    .order_by(ChangeCounter.changed_at.desc())
    .limit(_COUNTERS)
)
_NUMBERS = select(ChangeCounter.id, ChangeCounter.number).where(in_list(ChangeCounter.id))
HOST, STORE = "host", "store"


class CloudRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The row, and the present time of the cloud clock. `key`: seals the cloud's marks, and checks their seals."""

    uuid: str
    history: str
    key: MarkKey
    history_since: float | None
    history_forced: bool
    history_without: tuple[str, ...]
    safe_since: float | None
    safe_reason: str | None
    safe_details: str | None
    now: float

    def sealed(self, mark: CounterMark) -> CounterMark:
        """Returns the mark with the seal for this cloud and history."""
        return self.key.sealed(self.uuid, self.history, mark)


def _columns(now: ColumnElement[float]) -> tuple[Any, ...]:
    return (
        Cloud.uuid,
        Cloud.history,
        Cloud.mark_secret,
        Cloud.history_since,
        Cloud.history_forced,
        Cloud.history_without,
        Cloud.safe_since,
        Cloud.safe_reason,
        Cloud.safe_details,
        now.label("now"),
    )


@lru_cache(16)
def _row(now: ColumnElement[float]) -> Select[Any]:
    """Built once for each clock."""
    return select(*_columns(now)).where(Cloud.id == ROW)


@lru_cache(16)
def _row_and_marks(now: ColumnElement[float]) -> Select[Any]:
    """Built once for each clock: every conductor runs it twice a second. The row, once for each mark, or once without any."""
    newest = _NEWEST.subquery()
    marks = (
        newest.c.id.label("mark_counter"),
        newest.c.number.label("mark_number"),
        newest.c.changed_at.label("mark_at"),
    )
    query = select(*_columns(now), *marks).select_from(Cloud).outerjoin(newest, true())
    return query.where(Cloud.id == ROW).order_by(newest.c.changed_at.desc())


def record(session: Session, now: ColumnElement[float]) -> CloudRecord | None:
    """Returns None if the database has no identity, as while a dump is being imported."""
    row = session.connection().execute(_row(now)).one_or_none()
    return None if row is None else _record_of(row)


def record_and_marks(session: Session, now: ColumnElement[float]) -> tuple[CloudRecord | None, tuple[CounterMark, ...]]:
    """Returns what `record` returns, and sealed marks of the counters that changed last: those of all living conductors."""
    rows = session.connection().execute(_row_and_marks(now)).all()
    if not rows:
        return None, ()
    cloud_record = _record_of(rows[0])
    marks = (
        CounterMark(row.mark_counter, row.mark_number, row.mark_at) for row in rows if row.mark_counter is not None
    )
    return cloud_record, tuple(map(cloud_record.sealed, marks))


def _record_of(row: Any) -> CloudRecord:
    return CloudRecord(
        uuid=row.uuid,
        history=row.history,
        key=MarkKey(row.mark_secret),
        history_since=row.history_since,
        history_forced=row.history_forced,
        history_without=tuple(row.history_without or ()),
        safe_since=row.safe_since,
        safe_reason=row.safe_reason,
        safe_details=row.safe_details,
        now=row.now,
    )


def is_safe_mode(session: Session) -> bool:
    """Returns whether the cloud is in safe mode, or the database has no identity."""
    row = session.execute(select(Cloud.safe_since).where(Cloud.id == ROW)).one_or_none()
    return row is None or row.safe_since is not None


def shown_to(
    session: Session, seen: WitnessRecord, row: CloudRecord | None, marks: Collection[CounterMark] = ()
) -> DatabaseState:
    """Returns what this database holds of what a witness has seen. `row`, `marks`: as `record_and_marks` returned them in this
    transaction.

    Nothing is looked up for what has no right seal: it may be any text of a hostile sender, and a database refuses some.
    """
    if row is None:
        return DatabaseState(uuid=None)
    proven = proven_marks(seen, row.key)
    is_past = bool(proven) and seen.history != row.history and session.get(CloudHistory, seen.history) is not None
    return DatabaseState(
        uuid=row.uuid,
        history=row.history,
        is_past=is_past,
        numbers=_numbers(session, {mark.counter for mark in proven}, marks),
        now=row.now,
        key=row.key,
    )


def _numbers(session: Session, counters: AbstractSet[str], marks: Collection[CounterMark]) -> dict[str, int]:
    """`marks`: some that were read before."""
    numbers = {mark.counter: mark.number for mark in marks if mark.counter in counters}
    unread = sorted(counters - numbers.keys())
    if unread:
        rows = session.connection().execute(_NUMBERS, {"some": unread})
        numbers |= {counter: number for counter, number in rows}  # noqa: C416  - rows are no pairs for mypy
    return numbers


# -- change counters ---------------------------------------------------------------------------------------------------


def begin_counting(session: Session, counter: str, host: str, now: ColumnElement[float]) -> None:
    """Makes the counter, with the number 1."""
    values = {"id": counter, "host": host, "number": 1, "changed_at": for_insert(session, now)}
    session.connection().execute(insert(ChangeCounter).values(**values))


@lru_cache(16)
def _count(now: ColumnElement[float]) -> Any:
    condition = (ChangeCounter.id == bindparam("b_counter")) & (ChangeCounter.number >= bindparam("b_seen"))
    return update(ChangeCounter).where(condition).values(number=bindparam("b_number"), changed_at=now)


def count(session: Session, counter: str, *, seen: int, number: int, now: ColumnElement[float]) -> bool:
    """Raises the counter to `number`. Returns False if it does not show at least `seen`: the database has lost it."""
    values = {"b_counter": counter, "b_seen": seen, "b_number": number}
    result: Any = session.connection().execute(_count(now), values)
    return bool(result.rowcount)


def forget_counters(session: Session, now: ColumnElement[float]) -> None:
    """Removes counters of processes that ended long ago."""
    before = for_insert(session, now - COUNTER_RETENTION)
    session.connection().execute(delete(ChangeCounter).where(ChangeCounter.changed_at < before))


# -- safe mode ---------------------------------------------------------------------------------------------------------


def begin_safe_mode(session: Session, reason: str, details: str, now: ColumnElement[float]) -> bool:
    """Returns whether this call has begun it."""
    begun = update(Cloud).where(Cloud.id == ROW, Cloud.safe_since.is_(None))
    result: Any = session.connection().execute(begun.values(safe_since=now, safe_reason=reason, safe_details=details))
    return bool(result.rowcount)


def end_safe_mode(
    session: Session,
    row: CloudRecord,
    now: ColumnElement[float],
    *,
    forced: bool = False,
    without: Collection[str] = (),
) -> bool:
    """Begins a new history, in which witnesses of the ended one are judged by what they report. Returns whether this
    call has ended safe mode; another one may have done so since `row` was read.

    `forced`, `without`: see `Cloud.history_forced` and `Cloud.history_without`.
    """
    as_read = (Cloud.id == ROW) & (Cloud.history == row.history)
    result: Any = session.connection().execute(
        update(Cloud)
        .where(as_read)
        .values(
            history=str(uuid.uuid4()),
            history_since=row.now if row.safe_since is None else row.safe_since,
            history_forced=forced,
            history_without=sorted(without),
            safe_since=None,
            safe_reason=None,
            safe_details=None,
        )
    )
    if not result.rowcount:
        return False
    ended = {"history": row.history, "ended_at": for_insert(session, now), "details": row.safe_details}
    session.connection().execute(insert(CloudHistory).values(**ended))
    return True


def note_histories(session: Session, histories: Collection[str], now: ColumnElement[float]) -> None:
    """Records histories that the database has lost as ended ones."""
    for history in sorted(histories):
        if session.get(CloudHistory, history) is None:
            values = {"history": history, "ended_at": for_insert(session, now), "details": "lost"}
            session.connection().execute(insert(CloudHistory).values(**values))


# -- reports of witnesses ----------------------------------------------------------------------------------------------


def note_report(session: Session, kind: str, name: str, now: ColumnElement[float]) -> None:
    """Records that a host or an image store has reported what it holds. `kind`: HOST or STORE."""
    condition = (WitnessReport.kind == kind) & (WitnessReport.name == name)
    result: Any = session.connection().execute(update(WitnessReport).where(condition).values(reported_at=now))
    if not result.rowcount:
        values = {"kind": kind, "name": name, "reported_at": for_insert(session, now)}
        session.connection().execute(insert(WitnessReport).values(**values))


def forget_reports(session: Session, host: str) -> None:
    """Until a host of this name reports again, it counts as one that has not reported."""
    model = WitnessReport
    session.connection().execute(delete(model).where(model.kind == HOST, model.name == host))


def rename_host(session: Session, old: str, new: str) -> None:
    """Another machine may take the former name: it does not count as known to this history before it has reported."""
    forget_reports(session, old)
    written = update(Cloud).where(Cloud.id == ROW).values(history_forced=Cloud.history_forced)  # locks the row
    session.connection().execute(written)
    without = set(session.scalars(select(Cloud.history_without).where(Cloud.id == ROW)).one() or ())
    if old in without:
        renamed = sorted({*without, new} - {old})
        session.connection().execute(update(Cloud).where(Cloud.id == ROW).values(history_without=renamed))


def reported_at(session: Session, kind: str) -> Mapping[str, float]:
    """Returns when each host or image store of this kind reported last."""
    rows = session.execute(select(WitnessReport.name, WitnessReport.reported_at).where(WitnessReport.kind == kind))
    return {name: at for name, at in rows}  # noqa: C416  - rows are no pairs for mypy
