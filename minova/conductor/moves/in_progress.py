"""Moves in progress, each locked with its instance, its task and its migration."""

import msgspec
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.conductor.moves.plan import MovePlan
from minova.db.models import Task, TaskStep
from minova.db.servers import instances, migrations, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import PhaseKey

KIND = "move"
_PLAN = Decoder(MovePlan)


class LockedMove(msgspec.Struct, frozen=True, kw_only=True):
    instance: LockedInstance
    task: Task
    migration: Migration
    plan: MovePlan

    @property
    def uuid(self) -> str:
        return self.instance.uuid

    def is_at(self, key: PhaseKey, host: str) -> bool:
        """Whether this move waits for this phase of this host."""
        known = (self.migration.uuid, self.plan.phase, self.migration.attempt, self.task.host)
        return known == (key.migration_uuid, key.phase, key.attempt, host)


def plan_of(task: Task) -> MovePlan:
    return _PLAN.from_builtins(task.payload)


def lock(session: Session, instance_uuid: str) -> LockedMove | None:
    """Returns the move of that instance, if one is in progress and the instance is not being deleted."""
    instance = instances.lock(session, [instance_uuid]).get(instance_uuid)
    task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
    if instance is None or instance.deleted or task is None or task.step != TaskStep.MOVE:
        return None
    plan = plan_of(task)
    migration = migrations.lock(session, plan.migration_uuid)
    if migration is None:
        return None
    return LockedMove(instance=instance, task=task, migration=migration, plan=plan)
