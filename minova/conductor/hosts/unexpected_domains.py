"""Gathers what the database knows of the domains of a host, and judges which of them rows do not expect there."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, Migration, TaskStep
from minova.db.servers import migrations, tasks
from minova.db.sql import chunked
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.migration import ENDED
from minova.objects.servers.migration import Migration as MigrationObject
from minova.objects.servers.states import VmState
from minova.objects.unexpected.guest_record import GuestMark
from minova.objects.unexpected.removal_rules import DomainRow, Verdict, verdict


class Judged(msgspec.Struct, frozen=True):
    """`verdicts`: of the domains that are not expected, in the order of the domains. `rows`: the rows that exist."""

    verdicts: dict[str, Verdict]
    rows: dict[str, DomainRow]

    def of(self, wanted: Verdict) -> tuple[str, ...]:
        return tuple(uuid for uuid, found in self.verdicts.items() if found is wanted)


def judge(
    session: Session, host: str, domains: Sequence[DomainView] | Sequence[GuestMark], newer: Container[str] = ()
) -> Judged:
    """`newer`: guests whose last action on the host the database does not have."""
    rows = {
        uuid: msgspec.structs.replace(row, knows_action=False) if uuid in newer else row
        for uuid, row in _rows(session, host, [domain.uuid for domain in domains]).items()
    }
    verdicts = {
        domain.uuid: verdict(domain.attempt, domain.power_state, rows.get(domain.uuid), accepted=domain.accepted)
        for domain in domains
    }
    return Judged({uuid: found for uuid, found in verdicts.items() if found is not Verdict.EXPECTED}, rows)


def _rows(session: Session, host: str, uuids: Iterable[str]) -> dict[str, DomainRow]:
    """Returns the rows of these instances that exist, deleted or not."""
    model, rows = Instance, {}
    columns = (model.uuid, model.host, model.attempt, model.vm_state, model.task_state, model.deleted_at)
    for chunk in chunked(list(uuids)):
        for uuid, at, attempt, vm_state, task_state, deleted_at in session.execute(
            select(*columns).where(model.uuid.in_(chunk))
        ):
            rows[uuid] = DomainRow(
                attempt=attempt,
                host=at,
                vm_state=VmState(vm_state),
                idle=task_state is None,
                deleted=deleted_at is not None,
                is_here=at == host,
            )
    away = [uuid for uuid, row in rows.items() if not row.is_here and not row.deleted]
    rows |= _away(session, host, {uuid: rows[uuid] for uuid in away}) if away else {}
    owed = (*migrations.evacuated_from(session, host), *migrations.owed_by(session, host))
    leaving = {migration.instance_uuid for migration in owed}
    return rows | {uuid: msgspec.structs.replace(rows[uuid], is_leaving=True) for uuid in leaving & rows.keys()}


def _away(session: Session, host: str, rows: Mapping[str, DomainRow]) -> dict[str, DomainRow]:
    """Adds to rows that name another host, or none, what tasks and migrations say."""
    working = tasks.locations(session, rows)
    moving = migrations.in_progress_of(session, rows)
    moved = _moved(session, host, list(rows))
    nowhere = Moved()
    completed = {}
    for uuid, row in rows.items():
        task = working.get(uuid, tasks.Location())
        is_moving = uuid in moving and host in (moving[uuid].source_compute, moving[uuid].dest_compute)
        # A guest arrives live before its row has the attempt.
        arriving = moving[uuid].attempt if is_moving and moving[uuid].dest_compute == host else 0
        completed[uuid] = msgspec.structs.replace(
            row,
            attempt=max(row.attempt, task.attempt, arriving),
            idle=row.idle and uuid not in working and uuid not in moving,
            is_here=task.host == host or is_moving,
            moves=is_moving,
            schedules=task.step == TaskStep.SCHEDULE,
            left_before=moved.get(uuid, nowhere).left_before,
            given_up=moved.get(uuid, nowhere).given_up,
        )
    return completed


class Moved(msgspec.Struct, frozen=True):
    """What ended migrations of an instance say about a host: see `DomainRow`."""

    left_before: int = 0
    given_up: frozenset[int] = frozenset()


def _moved(session: Session, host: str, uuids: Collection[str]) -> dict[str, Moved]:
    """Migrations of a release that gave them no attempts prove nothing."""
    found: dict[str, Moved] = {}
    for chunk in chunked(list(uuids)):
        query = select(Migration.value).where(Migration.instance_uuid.in_(chunk)).order_by(Migration.id)
        for migration in session.scalars(query):
            uuid = migration.instance_uuid
            found[uuid] = _with_ended(found.get(uuid, Moved()), migration, host)
    return found


def _with_ended(moved: Moved, migration: MigrationObject, host: str) -> Moved:
    """Returns what is known after this migration, too, which is later."""
    if migration.succeeded:
        given_up = moved.given_up - {migration.attempt}
        has_left = migration.source_compute == host != migration.dest_compute
        return Moved(max(moved.left_before, migration.attempt if has_left else 0), given_up)
    if migration.status in ENDED:
        tried = range(migration.old_attempt + 1, migration.attempt + 1) if migration.is_evacuation else ()
        brought = {migration.attempt} if migration.attempt and migration.dest_compute == host else set()
        return Moved(moved.left_before, moved.given_up | brought | {*tried})
    return moved
