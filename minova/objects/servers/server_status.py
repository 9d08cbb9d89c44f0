"""The status of a server, which users see and clients wait for: one word for its vm_state and its task_state. The
values are Nova's. Pure.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from minova.objects.servers.states import TaskState, VmState


class Status(StrEnum):
    """UNKNOWN: a vm_state that this release does not know."""

    ACTIVE = "ACTIVE"
    BUILD = "BUILD"
    DELETED = "DELETED"
    ERROR = "ERROR"
    HARD_REBOOT = "HARD_REBOOT"
    MIGRATING = "MIGRATING"
    PASSWORD = "PASSWORD"
    PAUSED = "PAUSED"
    REBOOT = "REBOOT"
    REBUILD = "REBUILD"
    RESCUE = "RESCUE"
    RESIZE = "RESIZE"
    REVERT_RESIZE = "REVERT_RESIZE"
    SHELVED = "SHELVED"
    SHELVED_OFFLOADED = "SHELVED_OFFLOADED"
    SHUTOFF = "SHUTOFF"
    SOFT_DELETED = "SOFT_DELETED"
    SUSPENDED = "SUSPENDED"
    UNKNOWN = "UNKNOWN"
    VERIFY_RESIZE = "VERIFY_RESIZE"


# The status of an idle server, and of a server whose task has no status of its own.
_OF_VM_STATE: dict[str, Status] = {
    VmState.BUILDING: Status.BUILD,
    VmState.ACTIVE: Status.ACTIVE,
    VmState.PAUSED: Status.PAUSED,
    VmState.SUSPENDED: Status.SUSPENDED,
    VmState.STOPPED: Status.SHUTOFF,
    VmState.RESCUED: Status.RESCUE,
    VmState.RESIZED: Status.VERIFY_RESIZE,
    VmState.SOFT_DELETED: Status.SOFT_DELETED,
    VmState.DELETED: Status.DELETED,
    VmState.ERROR: Status.ERROR,
    VmState.SHELVED: Status.SHELVED,
    VmState.SHELVED_OFFLOADED: Status.SHELVED_OFFLOADED,
}


class _Task(NamedTuple):
    """A task with its own status, for servers in these vm_states."""

    status: Status
    vm_states: tuple[VmState, ...]
    task_states: tuple[TaskState, ...]


_TASKS = (
    _Task(
        Status.REBOOT,
        (VmState.ACTIVE,),
        (TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED),
    ),
    _Task(
        Status.HARD_REBOOT,
        (VmState.ACTIVE,),
        (TaskState.REBOOTING_HARD, TaskState.REBOOT_PENDING_HARD, TaskState.REBOOT_STARTED_HARD),
    ),
    _Task(Status.PASSWORD, (VmState.ACTIVE,), (TaskState.UPDATING_PASSWORD,)),
    _Task(
        Status.REBUILD,
        (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR),
        (TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING),
    ),
    _Task(
        Status.RESIZE,
        (VmState.ACTIVE, VmState.STOPPED),
        (TaskState.RESIZE_PREP, TaskState.RESIZE_MIGRATING, TaskState.RESIZE_MIGRATED, TaskState.RESIZE_FINISH),
    ),
    _Task(Status.REVERT_RESIZE, (VmState.RESIZED,), (TaskState.RESIZE_REVERTING,)),
    _Task(Status.MIGRATING, (VmState.ACTIVE, VmState.PAUSED), (TaskState.MIGRATING,)),
)
_IN_TASK: dict[tuple[str, str | None], Status] = {
    (vm_state, task_state): task.status
    for task in _TASKS
    for vm_state in task.vm_states
    for task_state in task.task_states
}


def status_of(vm_state: str, task_state: str | None) -> Status:
    return _IN_TASK.get((vm_state, task_state)) or _OF_VM_STATE.get(vm_state, Status.UNKNOWN)


class States(NamedTuple):
    """The states that a listing by status searches for, sorted. `task_states` None: any, or none."""

    vm_states: tuple[str, ...]
    task_states: tuple[str, ...] | None


def states_of(statuses: Iterable[str]) -> States | None:
    """`statuses`: case-insensitive. Returns None if none of them is a status.

    As in Nova, vm_states and task_states are searched separately: ACTIVE finds all active servers, also those whose
    task has a status of its own, and one status without a task among several lifts the condition on task states.
    """
    requested = {status.upper() for status in statuses}
    idle = [vm_state for vm_state, status in _OF_VM_STATE.items() if status in requested]
    tasks = [task for task in _TASKS if task.status in requested]
    vm_states = {*idle, *(vm_state for task in tasks for vm_state in task.vm_states)}
    task_states = {task_state for task in tasks for task_state in task.task_states}
    if not vm_states:
        return None
    return States(tuple(sorted(map(str, vm_states))), None if idle else tuple(sorted(map(str, task_states))))
