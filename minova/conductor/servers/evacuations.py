"""Evacuations in the tables, beside the builds that they are: what changes with each step of a build.

chosen     the next attempt has its destination
claimed    the row has the destination: its source is fenced, and stays so until it has removed what it has
arrived    done: the source's allocation stays with the migration until the source has removed what it has
failed     error: the server is as it was, on its source
cleaned    completed: the source has removed what it had
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova.db.models import Task
from minova.db.servers import actions, migrations, request_specs, state_changes
from minova.db.servers.instances import LockedInstance
from minova.db.servers.tasks import EndedBuild
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Hold, Migration
from minova.objects.servers.states import EVACUATION_STEPS, VmState
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import transfer

replace = msgspec.structs.replace
LOST = "The disks were made anew from the image: what the server had written to its local disks is lost."


def chosen(
    session: Session,
    destinations: Mapping[str, Selection],
    attempts: Mapping[str, int],
    at: datetime,
    now: ColumnElement[float],
) -> None:
    for uuid, migration in migrations.lock_evacuations(session, destinations).items():
        place = {"dest_compute": destinations[uuid].host, "dest_node": destinations[uuid].node}
        migrations.write(session, replace(migration, attempt=attempts[uuid], **place), at, now)


def claimed(session: Session, rows: Iterable[Instance], at: datetime, now: ColumnElement[float]) -> set[str]:
    """Records the claims of those of these instances that are evacuated. Returns their sources."""
    evacuating = {row.uuid: row for row in rows if row.task_state in EVACUATION_STEPS}
    if not evacuating:
        return set()
    moving = migrations.lock_evacuations(session, evacuating)
    for uuid, migration in moving.items():
        fitted = evacuating[uuid].numa_topology
        claimed_migration = replace(migration, status="pre-migrating", has_switched=True, new_numa_topology=fitted)
        migrations.write(session, claimed_migration, at, now)
    return {migration.source_compute for migration in moving.values()}


def arrived(
    session: Session, builds: Sequence[EndedBuild], at: datetime, now: ColumnElement[float], *, rebuilt: Iterable[str]
) -> None:
    """Ends the evacuations that these builds were. `rebuilt`: the instances whose disks were made anew. Call it before their
    actions end.
    """
    moving, lost = migrations.lock_evacuations(session, [build.instance_uuid for build in builds]), {*rebuilt}
    for uuid, migration in moving.items():
        # Earlier moves may have left the last copy of what the disks had.
        migrations.change_holds(session, [uuid], Hold.LAST if uuid in lost else Hold.NONE, at, now)
        ended_migration = replace(migration, status="done", cleanup_host=migration.source_compute)
        migrations.write(session, ended_migration, at, now)
        if migration.new_vm_state is VmState.STOPPED:
            active, stopped = (VmState.ACTIVE, None), (VmState.STOPPED, None)
            state_changes.transition(session, [uuid], [active], stopped, updated_at=at)
    ended = [build for build in builds if build.instance_uuid in moving]
    if ended:
        request_specs.remove(session, [build.reservation_id for build in ended])
    noted = [build.action_id for build in ended if build.instance_uuid in lost and build.action_id is not None]
    if noted:
        actions.add_details(session, noted, LOST)


def failed(session: Session, locked: LockedInstance, task: Task, at: datetime, now: ColumnElement[float]) -> None:
    """Takes the evacuation of a locked instance back. The claim number refuses claims that arrive later."""
    uuid = locked.uuid
    claims.release(session, [uuid], now, claim_number=task.claim_number)
    for migration in migrations.lock_evacuations(session, [uuid]).values():
        transfer(session, migration.uuid, uuid, now)
        migrations.write(session, replace(migration, status="error", has_switched=False), at, now)
        state_changes.transition(
            session,
            [uuid],
            [locked.state],
            (locked.state[0], None),
            host=migration.source_compute,
            node=migration.source_node,
            numa_topology=migration.old_numa_topology,
            attempt=migration.old_attempt,
            updated_at=at,
        )
    request_specs.remove(session, [task.reservation_id])


def back_to_source(session: Session, locked: LockedInstance, at: datetime, now: ColumnElement[float]) -> Migration:
    """The destination has not finished, and the next one is tried: the row has the source again until that one claims."""
    (migration,) = migrations.lock_evacuations(session, [locked.uuid]).values()
    migrations.write(session, replace(migration, has_switched=False), at, now)
    return migration


def cleaned(session: Session, migration: Migration, at: datetime, now: ColumnElement[float]) -> None:
    """Ends the debt of a locked evacuation's source."""
    claims.release(session, [migration.uuid], now)
    migrations.write(session, replace(migration, status="completed", cleanup_host=None), at, now)
