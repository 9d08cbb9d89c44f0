"""The states of an instance, as in Nova. `transitions.py` defines which state may follow which."""

from enum import IntEnum, StrEnum


class VmState(StrEnum):
    """The stable state of an instance."""

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
    """The task in progress on an instance; `None` instead means idle."""

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
    REBOOTING = "rebooting"
    REBOOT_PENDING = "reboot_pending"
    REBOOT_STARTED = "reboot_started"
    REBOOTING_HARD = "rebooting_hard"
    REBOOT_PENDING_HARD = "reboot_pending_hard"
    REBOOT_STARTED_HARD = "reboot_started_hard"
    PAUSING = "pausing"
    UNPAUSING = "unpausing"
    SUSPENDING = "suspending"
    RESUMING = "resuming"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    SOFT_DELETING = "soft-deleting"
    RESTORING = "restoring"
    UPDATING_PASSWORD = "updating_password"
    IMAGE_SNAPSHOT_PENDING = "image_snapshot_pending"
    IMAGE_SNAPSHOT = "image_snapshot"
    IMAGE_BACKUP = "image_backup"
    IMAGE_PENDING_UPLOAD = "image_pending_upload"
    IMAGE_UPLOADING = "image_uploading"
    SHELVING = "shelving"
    SHELVING_IMAGE_PENDING_UPLOAD = "shelving_image_pending_upload"
    SHELVING_IMAGE_UPLOADING = "shelving_image_uploading"
    SHELVING_OFFLOADING = "shelving_offloading"
    UNSHELVING = "unshelving"
    DELETING = "deleting"


class PowerState(IntEnum):
    """The hypervisor's state of the domain, with Nova's numbers."""

    NOSTATE = 0
    RUNNING = 1
    PAUSED = 3
    SHUTDOWN = 4
    CRASHED = 6
    SUSPENDED = 7


def power_state_of(number: int) -> PowerState:
    """Returns NOSTATE for a number that has no meaning here, such as one that a later release has written."""
    return PowerState(number) if number in _POWER_STATES else PowerState.NOSTATE


_POWER_STATES = frozenset(int(state) for state in PowerState)


State = tuple[VmState, TaskState | None]

BUILD_STEPS = (TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING, TaskState.SPAWNING)

# States in which an idle instance holds no resources of a host (BEHAVIOUR: ResourceTracker).
RESOURCE_FREE = frozenset({VmState.DELETED, VmState.SHELVED_OFFLOADED})
# The task states of an instance that is being built on a host from the image of a shelved server: see `unshelve` in
# `objects/actions/table.py`.
UNSHELVING_STEPS = (TaskState.UNSHELVING, TaskState.SPAWNING)
# The vm_states in which a server may be evacuated, and its task states meanwhile: it is built on another host.
EVACUABLE = (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR)
EVACUATION_STEPS = (TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING)


def is_being_built(vm_state: VmState) -> bool:
    """Whether an instance in this vm_state may be built by a host: for the first time, or from the image of a shelved
    server.
    """
    return vm_state in {VmState.BUILDING, VmState.SHELVED_OFFLOADED}


def build_state(vm_state: VmState, step: TaskState) -> State:
    """Returns the state of an instance whose build is at this step. As in Nova, a shelved server stays shelved and is
    `unshelving` until `spawning`, and a server that is evacuated keeps its vm_state while it is rebuilt.
    """
    if vm_state is VmState.SHELVED_OFFLOADED:
        return (vm_state, step if step is TaskState.SPAWNING else TaskState.UNSHELVING)
    if vm_state in EVACUABLE:
        return (vm_state, _REBUILD_STEPS.get(step, TaskState.REBUILD_BLOCK_DEVICE_MAPPING))
    return (VmState.BUILDING, step)


_REBUILD_STEPS = {TaskState.SCHEDULING: TaskState.REBUILDING, TaskState.SPAWNING: TaskState.REBUILD_SPAWNING}


def is_resource_free(vm_state: VmState, task_state: TaskState | None) -> bool:
    """Whether an instance in this state holds no resources, even if it has a host. An instance with a task may hold
    those of a claim.
    """
    return vm_state in RESOURCE_FREE and task_state is None
