"""Gathers what the database knows of the domains of a host, and judges which of them rows do not expect there."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, Migration, TaskStep
from minova.db.servers import migrations, tasks
from minova.db.sql import chunked, in_list
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.migration import ENDED
from minova.objects.servers.migration import Migration as MigrationObject
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import GuestMark
from minova.objects.unexpected.removal_rules import DomainRow, DomainVerdict, is_stray, must_pause, verdict

# Built once: every audit of every node and every report of guests run it.
_ROWS = select(
    Instance.uuid,
    Instance.host,
    Instance.attempt,
    Instance.vm_state,
    Instance.power_state,
    Instance.task_state,
    Instance.deleted_at,
).where(in_list(Instance.uuid))


class JudgedDomains(msgspec.Struct, frozen=True):
    """`verdicts`: of the domains that are not expected, in the order of the domains. `rows`: the rows that exist. `to_pause`: see
    `must_pause`.
    """

    verdicts: dict[str, DomainVerdict]
    rows: dict[str, DomainRow]
    to_pause: tuple[str, ...] = ()

    def of(self, sought_verdict: DomainVerdict) -> tuple[str, ...]:
        return tuple(uuid for uuid, domain_verdict in self.verdicts.items() if domain_verdict is sought_verdict)


def judge(
    session: Session,
    host: str,
    domains: Sequence[DomainView] | Sequence[GuestMark],
    newer: Container[str] = (),
    *,
    strays: Container[str] = (),
    misplaced: Container[str] = (),
) -> JudgedDomains:
    """`newer`: guests whose last action on the host the database does not have.

    `strays`, `misplaced`: guests that the last report of guests found so. A report of guests has their last actions, an audit has not: it
    removes nothing that the report found misplaced.
    """
    rows = {
        uuid: msgspec.structs.replace(row, knows_action=False) if uuid in newer else row
        for uuid, row in _rows(session, host, [domain.uuid for domain in domains]).items()
    }
    verdicts = {
        domain.uuid: _verdict(domain, rows.get(domain.uuid), strays=strays, misplaced=misplaced) for domain in domains
    }
    return JudgedDomains(
        {
            uuid: domain_verdict
            for uuid, domain_verdict in verdicts.items()
            if domain_verdict is not DomainVerdict.EXPECTED
        },
        rows,
        tuple(
            domain.uuid
            for domain in domains
            if must_pause(domain.attempt, domain.power_state, rows.get(domain.uuid), accepted=domain.accepted)
        ),
    )


def _verdict(
    domain: DomainView | GuestMark, row: DomainRow | None, *, strays: Container[str], misplaced: Container[str]
) -> DomainVerdict:
    uuid, attempt, state, accepted = domain.uuid, domain.attempt, domain.power_state, domain.accepted
    if is_stray(attempt, state, row, accepted=accepted, was_stray=uuid in strays):
        return DomainVerdict.STRAY
    domain_verdict = verdict(attempt, state, row, accepted=accepted)
    is_deleted = row is not None and row.deleted
    if domain_verdict is DomainVerdict.REMOVE and uuid in misplaced and not is_deleted:
        return DomainVerdict.MISPLACED
    return domain_verdict


def _rows(session: Session, host: str, uuids: Iterable[str]) -> dict[str, DomainRow]:
    """Returns the rows of these instances that exist, deleted or not."""
    rows = {}
    for chunk in chunked(list(uuids)):
        for uuid, at, attempt, vm_state, power_state, task_state, deleted_at in (
            session.connection().execute(_ROWS, {"some": chunk}).all()
        ):
            rows[uuid] = DomainRow(
                attempt=attempt,
                host=at,
                vm_state=VmState(vm_state),
                idle=task_state is None,
                deleted=deleted_at is not None,
                is_here=at == host,
                runs_there=power_state == PowerState.RUNNING,
            )
    away = [uuid for uuid, row in rows.items() if not row.is_here and not row.deleted]
    rows |= _away(session, host, {uuid: rows[uuid] for uuid in away}) if away else {}
    if not rows:
        return {}
    leaving = migrations.leaving(session, host)
    return rows | {uuid: msgspec.structs.replace(rows[uuid], is_leaving=True) for uuid in leaving & rows.keys()}


def _away(session: Session, host: str, rows: Mapping[str, DomainRow]) -> dict[str, DomainRow]:
    """Adds to rows that name another host, or none, what tasks and migrations say."""
    working = tasks.locations(session, rows)
    moving = migrations.in_progress_of(session, rows)
    moved = _moved(session, host, list(rows))
    nowhere = EndedMoves()
    completed = {}
    for uuid, row in rows.items():
        task = working.get(uuid, tasks.TaskLocation())
        is_moving = uuid in moving and host in (moving[uuid].source_compute, moving[uuid].dest_compute)
        # A guest arrives live before its row has the attempt.
        arriving = moving[uuid].attempt if is_moving and moving[uuid].dest_compute == host else 0
        completed[uuid] = msgspec.structs.replace(
            row,
            attempt=max(row.attempt, task.attempt, arriving),
            idle=row.idle and uuid not in working and uuid not in moving,
            is_here=task.host == host or is_moving,
            moves=is_moving,
            is_kept=is_moving and _keeps_copy(moving[uuid], host),
            schedules=task.step == TaskStep.SCHEDULE,
            left_before=moved.get(uuid, nowhere).left_before,
            given_up=moved.get(uuid, nowhere).given_up,
        )
    return completed


def _keeps_copy(migration: MigrationObject, host: str) -> bool:
    """Whether a cold move has taken its instance from this host. A guest that moves live may run here for a while still."""
    if migration.is_live or migration.is_evacuation or not migration.switched:
        return False
    return migration.source_compute == host != migration.dest_compute


class EndedMoves(msgspec.Struct, frozen=True):
    """What ended migrations of an instance say about a host: see `DomainRow`."""

    left_before: int = 0
    given_up: frozenset[int] = frozenset()


def _moved(session: Session, host: str, uuids: Collection[str]) -> dict[str, EndedMoves]:
    """Migrations of a release that gave them no attempts prove nothing."""
    moved_by_uuid: dict[str, EndedMoves] = {}
    for chunk in chunked(list(uuids)):
        query = select(Migration.value).where(Migration.instance_uuid.in_(chunk)).order_by(Migration.id)
        for migration in session.scalars(query):
            uuid = migration.instance_uuid
            moved_by_uuid[uuid] = _with_ended(moved_by_uuid.get(uuid, EndedMoves()), migration, host)
    return moved_by_uuid


def _with_ended(moved: EndedMoves, migration: MigrationObject, host: str) -> EndedMoves:
    """Returns what is known after this migration, too, which is later."""
    if migration.succeeded:
        given_up = moved.given_up - {migration.attempt}
        has_left = migration.source_compute == host != migration.dest_compute
        return EndedMoves(max(moved.left_before, migration.attempt if has_left else 0), given_up)
    if migration.status in ENDED:
        tried = range(migration.old_attempt + 1, migration.attempt + 1) if migration.is_evacuation else ()
        own_attempt = {migration.attempt} if migration.attempt and migration.dest_compute == host else set()
        return EndedMoves(moved.left_before, moved.given_up | own_attempt | {*tried})
    return moved
