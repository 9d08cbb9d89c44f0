"""The states of an instance, as Nova has them, and the one table of allowed moves.

                 claim, image, disk         domain runs
(BUILDING, SCHEDULING) --> (BUILDING, NETWORKING | BLOCK_DEVICE_MAPPING | SPAWNING) --> (ACTIVE, None)
          |   ^ next alternate      |
          |   '---------------------'
          v               (ACTIVE, None) --> (STOPPED, None)   the guest has shut itself down
    (ERROR, None)          (any, any) --> (any, DELETING) --> (DELETED, None)
"""

from enum import IntEnum, StrEnum


class VmState(StrEnum):
    """What an instance is when nothing happens to it."""

    BUILDING = "building"
    ACTIVE = "active"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    STOPPED = "stopped"
    RESCUED = "rescued"
    RESIZED = "resized"
    SOFT_DELETED = "soft-delete"
    DELETED = "deleted"
    ERROR = "error"
    SHELVED = "shelved"
    SHELVED_OFFLOADED = "shelved_offloaded"


class TaskState(StrEnum):
    """What happens to an instance now; `None` in its place means idle."""

    SCHEDULING = "scheduling"
    BLOCK_DEVICE_MAPPING = "block_device_mapping"
    NETWORKING = "networking"
    SPAWNING = "spawning"
    RESIZE_PREP = "resize_prep"
    RESIZE_MIGRATING = "resize_migrating"
    RESIZE_MIGRATED = "resize_migrated"
    RESIZE_FINISH = "resize_finish"
    RESIZE_REVERTING = "resize_reverting"
    RESIZE_CONFIRMING = "resize_confirming"
    MIGRATING = "migrating"
    REBUILDING = "rebuilding"
    REBUILD_BLOCK_DEVICE_MAPPING = "rebuild_block_device_mapping"
    REBUILD_SPAWNING = "rebuild_spawning"
    DELETING = "deleting"


class PowerState(IntEnum):
    """What the hypervisor says, in Nova's numbers."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


State = tuple[VmState, TaskState | None]

BUILD_STEPS = (TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING, TaskState.SPAWNING)

# A build step may repeat or begin again on the next alternate; deleting may be asked for at any time.
_BUILD = {(VmState.BUILDING, step) for step in (TaskState.SCHEDULING, *BUILD_STEPS)}

ALLOWED: dict[State, set[State]] = {
    **{state: _BUILD | {(VmState.ACTIVE, None), (VmState.ERROR, None)} for state in _BUILD},
    (VmState.ACTIVE, None): {(VmState.ACTIVE, None), (VmState.STOPPED, None), (VmState.ERROR, None)},
    (VmState.PAUSED, None): {(VmState.PAUSED, None), (VmState.STOPPED, None), (VmState.ERROR, None)},
    (VmState.STOPPED, None): {(VmState.STOPPED, None), (VmState.ACTIVE, None), (VmState.ERROR, None)},
    (VmState.ERROR, None): {(VmState.ERROR, None)},
}

# States in which an instance holds no resources of a host (BEHAVIOUR: ResourceTracker).
RESOURCE_FREE = frozenset({VmState.DELETED, VmState.SHELVED_OFFLOADED})


def allowed(before: State, after: State) -> bool:
    """Whether an instance may go from one (vm_state, task_state) to the other."""
    if before[0] is VmState.DELETED:
        return False
    if after[1] is TaskState.DELETING:
        return after[0] is before[0]
    if before[1] is TaskState.DELETING:
        return after in {(VmState.DELETED, None), (VmState.ERROR, None)}
    return after in ALLOWED.get(before, set())
