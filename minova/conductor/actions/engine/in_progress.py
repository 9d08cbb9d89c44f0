"""Server actions in progress, each locked with its instance and its task."""

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova.conductor.actions.engine.payload import ActionPayload, payload_of
from minova.context import RequestContext
from minova.db.models import Task, TaskStep
from minova.db.servers import actions, instances, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.action import ServerAction
from minova.objects.actions.table import BY_KIND
from minova.objects.servers.states import VmState


class LockedAction(msgspec.Struct, frozen=True, kw_only=True):
    """A server action in progress, its task and its instance, both locked."""

    action: ServerAction
    instance: LockedInstance
    task: Task

    @property
    def payload(self) -> ActionPayload:
        return payload_of(self.task)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """An action that ends with its instance in vm_state `after`. `values`: further columns of the instance. `kept`: the
    guest was left as it was. `kept_disks`: its host says that the guest still has the disks of before.
    """

    locked: LockedAction
    after: VmState
    values: dict[str, Any] = {}
    kept: bool = False
    kept_disks: bool = False


def lock(session: Session, instance_uuid: str) -> LockedAction | None:
    """Returns the action of that instance, locked, if one is in progress."""
    return lock_all(session, [instance_uuid]).get(instance_uuid)


def lock_all(session: Session, instance_uuids: Collection[str]) -> dict[str, LockedAction]:
    """Returns the actions in progress of these instances, locked."""
    locked, in_progress = instances.lock(session, instance_uuids), dict[str, LockedAction]()
    for uuid, task in tasks.lock(session, instance_uuids).items():
        action, instance = BY_KIND.get(task.kind), locked.get(uuid)
        if action is None or instance is None or task.step != TaskStep.ACTION or instance.deleted:
            continue
        if action.is_in_progress(instance.state):
            in_progress[uuid] = LockedAction(action=action, instance=instance, task=task)
    return in_progress


class ReportedAction(NamedTuple):
    """An action as its host names it. `request_id`: of its request; empty: the host's release does not say it."""

    instance_uuid: str
    action_id: int
    host: str
    request_id: str = ""

    def is_of(self, request_id: str | None) -> bool:
        """Whether an action of that request is meant. A restored database gives the number of an action to another one."""
        return not self.request_id or not request_id or self.request_id == request_id


def lock_on(session: Session, reported: ReportedAction) -> LockedAction | None:
    """Returns the action, locked, if it is in progress on that host."""
    locked = lock(session, reported.instance_uuid)
    return locked if locked is not None and is_on(locked, reported) else None


def is_on(locked: LockedAction, reported: ReportedAction) -> bool:
    task = locked.task
    return (task.action_id, task.host) == (reported.action_id, reported.host) and reported.is_of(task.request_id)


def locked_instance(session: Session, instance_uuid: str) -> LockedInstance | None:
    return instances.lock(session, [instance_uuid]).get(instance_uuid)


def context_of(session: Session, action_id: int) -> RequestContext:
    """Returns the context of the request of this action, for an action that follows from it."""
    request = actions.request_of(session, action_id)
    return RequestContext(request_id=request.request_id, user_id=request.user_id, project_id=request.project_id)
