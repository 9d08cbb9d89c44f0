"""Moves in progress, each locked with its instance, its task and its migration."""

from collections.abc import Collection

import msgspec
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.conductor.moves.plan import MovePlan
from minova.db.models import Instance, Migration, Task, TaskStep
from minova.db.servers import instances, migrations, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.servers.migration import Migration as MigrationObject
from minova.objects.servers.moves import PhaseKey

KIND = "move"
_PLAN = Decoder(MovePlan)


class LockedMove(msgspec.Struct, frozen=True, kw_only=True):
    instance: LockedInstance
    task: Task
    migration: MigrationObject
    plan: MovePlan

    @property
    def uuid(self) -> str:
        return self.instance.uuid

    def is_at(self, key: PhaseKey, host: str) -> bool:
        """Whether this move waits for this phase of this host."""
        return is_at(self.plan, self.migration, self.task.host, key, host)


def is_at(plan: MovePlan, migration: MigrationObject, waits_for: str | None, key: PhaseKey, host: str) -> bool:
    """`migration`: the one that the key names, which may be an earlier one of the same server."""
    if migration.uuid != plan.migration_uuid or key.round not in {None, plan.round}:
        return False
    present = (plan.migration_uuid, plan.phase, migration.attempt, waits_for)
    return present == (key.migration_uuid, key.phase, key.attempt, host)


def plan_of(task: Task) -> MovePlan:
    return _PLAN.from_builtins(task.payload)


def lock(session: Session, instance_uuid: str) -> LockedMove | None:
    """Returns the move of that instance, if one is in progress and the instance is not being deleted."""
    return lock_all(session, [instance_uuid]).get(instance_uuid)


def lock_all(session: Session, instance_uuids: Collection[str]) -> dict[str, LockedMove]:
    """As `lock`, for several instances. Returns their moves by instance."""
    locked, locked_tasks = instances.lock(session, instance_uuids), tasks.lock(session, instance_uuids)
    moving = {
        uuid: plan_of(task)
        for uuid, task in locked_tasks.items()
        if uuid in locked and not locked[uuid].deleted and task.step == TaskStep.MOVE
    }
    locked_migrations = migrations.lock_all(session, [plan.migration_uuid for plan in moving.values()])
    return {
        uuid: LockedMove(
            instance=locked[uuid], task=locked_tasks[uuid], migration=locked_migrations[plan.migration_uuid], plan=plan
        )
        for uuid, plan in moving.items()
        if plan.migration_uuid in locked_migrations
    }


def began_lately(session: Session, key: PhaseKey, host: str, since: ColumnElement[float]) -> bool:
    """Returns whether the move waits for this phase of this host, with a deadline after `since`. Locks nothing."""
    query = select(Task.payload, Task.host, Migration.value).join(
        Migration, Migration.instance_uuid == Task.instance_uuid
    )
    row = session.execute(
        query.join(Instance, Instance.uuid == Task.instance_uuid).where(
            Task.instance_uuid == key.instance_uuid,
            Task.step == TaskStep.MOVE,
            Task.deadline > since,
            Migration.uuid == key.migration_uuid,
            Instance.deleted_at.is_(None),
        )
    ).one_or_none()
    if row is None:
        return False
    payload, waits_for, migration = row
    return is_at(_PLAN.from_builtins(payload), migration, waits_for, key, host)
