"""The states of an instance, as Nova has them. Which may follow which is in `transitions.py`."""

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
    POWERING_OFF = "powering-off"
    POWERING_ON = "powering-on"
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

# States in which an instance holds no resources of a host (BEHAVIOUR: ResourceTracker).
RESOURCE_FREE = frozenset({VmState.DELETED, VmState.SHELVED_OFFLOADED})
