"""Actions of users on an existing server, as in `POST /servers/{id}/action`: one entry in this table for each action.
Pure.

An action's entry controls everything that the services do with it: the API's checks and texts, the task that the
conductor writes, the intermediate states, the message to the compute, the record and the notifications. The values are
Nova's::

    kind          while it is done                                     allowed in
    stop          powering-off                                         active, error
    start         powering-on                                          stopped
    reboot_soft   rebooting, reboot_pending, reboot_started            active
    reboot_hard   rebooting_hard, reboot_pending_hard, ..._started_hard active, stopped, paused, suspended, error; also while
                                                                       the guest is rebooted, paused, suspended or resumed
    pause         pausing                                              active
    unpause       unpausing                                            paused
    suspend       suspending                                           active
    resume        resuming                                             suspended
    rescue        rescuing                                             active, stopped, error
    rebuild       rebuilding, rebuild_block_device_mapping, rebuild_spawning   active, stopped, error
    unrescue      unrescuing                                           rescued
    trigger_crash_dump   none                                          active, paused, rescued, resized, error
    attach_interface, detach_interface   none                          active, paused, stopped
    change_password   updating_password                                active
    snapshot      image_snapshot_pending, image_snapshot,              active, stopped, paused, suspended
                  image_pending_upload, image_uploading
    backup        image_backup, image_pending_upload, image_uploading  active, stopped, paused, suspended
    shelve        shelving, shelving_image_pending_upload,             active, stopped, paused, suspended
                  shelving_image_uploading
    shelve_offload   shelving_offloading                               shelved
    unshelve      unshelving (and spawning, on a new host)             shelved; offloaded ones go by a build on a new host
    soft_delete   soft-deleting                                        all but building, deleted and offloaded ones; also while
                                                                       any other action but a restore is in progress
    restore       restoring                                            soft-deleted
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from minova.objects.catalogue.disk_config import DiskConfig
from minova.objects.servers.states import PowerState, State, TaskState, VmState

Address = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The value of the action's key in the body of the request. As in Nova, it is ignored if the action takes no
    arguments.

    `variant`: selects one of several actions with this key. `sent`: the arguments for the conductor.
    """

    @property
    def variant(self) -> str:
        return ""

    @property
    def sent(self) -> dict[str, Any]:
        return {}


class RebootArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`type`: SOFT or HARD, case-insensitive."""

    type: str

    def __post_init__(self) -> None:
        if self.type not in {"HARD", "Hard", "hard", "SOFT", "Soft", "soft"}:
            raise ValueError(f"type: '{self.type[:64]}' is not one of SOFT and HARD")

    @property
    def variant(self) -> str:
        return self.type.upper()


class RescueArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rescue_image_ref` None: the server's own image. `admin_password` None: one is generated. The API resolves the
    image.
    """

    rescue_image_ref: str | None = None
    admin_password: Annotated[str, msgspec.Meta(max_length=255)] | None = msgspec.field(name="adminPass", default=None)


ImageName = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
# The key format of the Compute API's schema for metadata of servers and images.
MetadataKey = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9-_:. ]{1,255}$")]
MetadataValue = Annotated[str, msgspec.Meta(max_length=255)]


class CreateImageArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API creates the image's record from them."""

    name: ImageName
    metadata: dict[MetadataKey, MetadataValue] = {}


class CreateBackupArguments(CreateImageArguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rotation`: how many backups of this type are kept, including the new one."""

    backup_type: Annotated[str, msgspec.Meta(max_length=255)]
    rotation: Annotated[int, msgspec.Meta(ge=0, le=0x7FFFFFFF)]


class InjectedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nova's `personality`, until 2.56. `contents` in base64."""

    path: str
    contents: str


class RebuildArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in Nova. The API checks the values, and which microversions accept which fields."""

    image_ref: str = msgspec.field(name="imageRef")
    name: str | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Annotated[str, msgspec.Meta(max_length=255)]] | msgspec.UnsetType = msgspec.UNSET
    admin_password: str | None = msgspec.field(name="adminPass", default=None)
    personality: list[InjectedFile] | msgspec.UnsetType = msgspec.UNSET
    preserve_ephemeral: Any = False
    disk_config: DiskConfig | msgspec.UnsetType = msgspec.field(name="OS-DCF:diskConfig", default=msgspec.UNSET)
    access_ipv4: Address | msgspec.UnsetType = msgspec.field(name="accessIPv4", default=msgspec.UNSET)
    access_ipv6: Address | msgspec.UnsetType = msgspec.field(name="accessIPv6", default=msgspec.UNSET)
    description: Annotated[str, msgspec.Meta(max_length=255)] | msgspec.UnsetType | None = msgspec.UNSET
    hostname: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | msgspec.UnsetType = msgspec.UNSET
    key_name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | msgspec.UnsetType | None = msgspec.UNSET
    user_data: Annotated[str, msgspec.Meta(max_length=65535)] | msgspec.UnsetType | None = msgspec.UNSET


class ChangePasswordArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in Nova, the password may be any text of any length."""

    admin_password: str = msgspec.field(name="adminPass")

    @property
    def sent(self) -> dict[str, Any]:
        return {"admin_password": self.admin_password}


_SINCE: Mapping[str, str] = {"conductor": "1.7", "compute": "1.3"}


class ServerAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action, as the services need it.

    `kind`: unique; the kind of its task.
    `name`: in instance actions and refusals.
    `key`: in the body of the request; empty for an action that has a route of its own.
    `arguments`: the type of the key's value. `variant`: selects one of the entries that share a key, by the arguments'
    `variant`.
    `vm_states`, `task_states`: the states in which it may be requested. An action in progress in one of these task
    states is ended.
    `progress`: the task states during the action: the first at once, the others when its host begins; empty: the task
    state does not change.
    `ends_in`: the vm_state after success. `fails_in`: the vm_state after a failure of its host. None: the vm_state does
    not change.
    `reported`: those states of `progress`, at its end, that the host itself reports on its way.
    `keeps`: vm_states that do not change after success, whatever `ends_in` is.
    `changes_at`: the task state of `progress` in which the guest is changed; its host reports it (by another
    `begin_action`). A failure before it leaves the instance as it was; from then on a failure ends in `fails_in`.
    `repeatable`: whether a host that was interrupted may repeat it.
    `exclusive`: it has no task states, but other actions wait for it, except those that end other actions.
    `secret`: its arguments are stored nowhere. The message is sent to its host once, and the host has `SECRET_TIMEOUT`
    to answer.
    `makes_image`: the arguments hold the record of an image that is created with the task; the record is removed if the
    action fails.
    `ignores_lock`: allowed on a locked server.
    `since`: by topic, the versions of the contracts from which on services know the method and the task states.
    `event`: in the record.
    `policy`: the API's, without `os_compute_api:`.
    `notification`: without `compute.instance.`, `.start`, `.end`. For an action without task states it is sent when its
    host begins; such an action must not be repeatable.

    The texts derive from the kind and the name, unless an entry states another one, which is Nova's.
    """

    kind: str
    name: str = "{kind}"
    key: str = "{name}"
    arguments: type[Arguments] = Arguments
    variant: str = ""
    vm_states: frozenset[VmState]
    task_states: frozenset[TaskState | None] = frozenset({None})
    progress: tuple[TaskState, ...]
    ends_in: VmState | None
    fails_in: VmState | None = None
    reported: tuple[TaskState, ...] = ()
    keeps: frozenset[VmState] = frozenset()
    changes_at: TaskState | None = None
    repeatable: bool = True
    exclusive: bool = False
    secret: bool = False
    makes_image: bool = False
    ignores_lock: bool = False
    since: Mapping[str, str] = msgspec.field(default_factory=lambda: _SINCE)
    event: str = "compute_{kind}_instance"
    policy: str = "servers:{name}"
    notification: str = "{kind}"

    def __post_init__(self) -> None:
        for field in ("name", "key", "event", "policy", "notification"):
            msgspec.structs.force_setattr(self, field, getattr(self, field).format(kind=self.kind, name=self.name))

    @property
    def entered(self) -> tuple[TaskState, ...]:
        """Returns the task states that it has entered when its host begins."""
        return tuple(step for step in self.progress if step not in self.reported)

    @property
    def transitions(self) -> dict[State, set[State]]:
        """Returns the transitions from the states in which it may be requested, through those of its progress, to
        success or failure.
        """
        table: dict[State, set[State]] = {}
        for state in self.vm_states if self.progress else ():
            ends: set[State] = {(self.after_success(state), None), (self.fails_in or state, None), (state, None)}
            for task_state in self.task_states:
                table.setdefault((state, task_state), set()).add((state, self.progress[0]))
            for number, step in enumerate(self.progress):
                following: set[State] = {(state, later) for later in self.progress[number + 1 :]}
                table.setdefault((state, step), set()).update(ends | following)
        return table

    def is_in_progress(self, state: State) -> bool:
        """Whether an instance in this state, which has a task of this kind, is in the state that the task was created
        for.
        """
        return not self.progress or (state[0] in self.vm_states and state[1] in self.progress)

    @property
    def ends_others(self) -> bool:
        """Whether it may be requested while another action is in progress."""
        return len(self.task_states) > 1

    def interrupts(self, earlier: "ServerAction", task_state: TaskState | None) -> bool:
        """Whether it may be requested while `earlier` is in progress in this task state, and ends it."""
        if earlier.progress:
            return task_state is not None and task_state in self.task_states
        return self.ends_others or not earlier.exclusive

    def after_success(self, vm_state: VmState) -> VmState:
        """Returns the instance's vm_state after success."""
        return vm_state if self.ends_in is None or vm_state in self.keeps else self.ends_in

    def steps(self, task_state: TaskState | None, *, changes: bool) -> tuple[TaskState, ...]:
        """Returns the task states that follow while its host continues: to the end, or (not `changes`) to the state
        that changes the guest.
        """
        entered = self.entered
        passed = entered.index(task_state) if task_state in entered else len(entered)
        end = entered.index(self.changes_at) if self.changes_at is not None and not changes else None
        return entered[passed:end]

    def has_changed(self, task_state: TaskState | None) -> bool | None:
        """Whether the guest has already been changed. None: only its host knows."""
        if self.changes_at is None or task_state not in self.progress:
            return None
        return self.progress.index(task_state) >= self.progress.index(self.changes_at)

    def after_failure(self, vm_state: VmState, power_state: PowerState | None, *, untouched: bool = False) -> VmState:
        """Returns the instance's vm_state after its host failed. It is unchanged if the guest runs nevertheless, or was
        not touched.
        """
        if self.fails_in is None or untouched or power_state is PowerState.RUNNING:
            return vm_state
        return self.fails_in

    def refusal(self, instance_uuid: str, state: State, *, has_host: bool, launched: bool) -> str | None:
        """Returns why it is not allowed now, with Nova's texts and in Nova's order; None if it is allowed."""
        vm_state, task_state = state
        if not has_host and vm_state is not VmState.SHELVED_OFFLOADED:
            return f"Instance {instance_uuid} is not ready"
        if vm_state not in self.vm_states:
            return f"Cannot '{self.name}' instance {instance_uuid} while it is in vm_state {vm_state}"
        if task_state not in self.task_states:
            return f"Cannot '{self.name}' instance {instance_uuid} while it is in task_state {task_state}"
        if not launched:
            return f"Cannot '{self.name}' an instance which has never been active"
        return None


# Seconds for the host of an action with secret arguments: longer than the host waits for a guest (`virt`,
# GUEST_AGENT_TIMEOUT).
SECRET_TIMEOUT = 60.0

STOP = ServerAction(
    kind="stop",
    key="os-stop",
    vm_states=frozenset({VmState.ACTIVE, VmState.ERROR}),
    progress=(TaskState.POWERING_OFF,),
    ends_in=VmState.STOPPED,
    notification="power_off",
)
START = ServerAction(
    kind="start",
    key="os-start",
    vm_states=frozenset({VmState.STOPPED}),
    progress=(TaskState.POWERING_ON,),
    ends_in=VmState.ACTIVE,
    notification="power_on",
)
REBOOT_SOFT = ServerAction(
    kind="reboot_soft",
    name="reboot",
    arguments=RebootArguments,
    variant="SOFT",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    event="compute_reboot_instance",
    notification="reboot",
)
PAUSE = ServerAction(
    kind="pause",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.PAUSING,),
    ends_in=VmState.PAUSED,
    policy="os-pause-server:pause",
)
UNPAUSE = ServerAction(
    kind="unpause",
    vm_states=frozenset({VmState.PAUSED}),
    progress=(TaskState.UNPAUSING,),
    ends_in=VmState.ACTIVE,
    policy="os-pause-server:unpause",
)
SUSPEND = ServerAction(
    kind="suspend",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.SUSPENDING,),
    ends_in=VmState.SUSPENDED,
    fails_in=VmState.ERROR,
    policy="os-suspend-server:suspend",
)
RESUME = ServerAction(
    kind="resume",
    vm_states=frozenset({VmState.SUSPENDED}),
    progress=(TaskState.RESUMING,),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    policy="os-suspend-server:resume",
)
REBOOT_HARD = ServerAction(
    kind="reboot_hard",
    name="reboot",
    arguments=RebootArguments,
    variant="HARD",
    vm_states=frozenset(
        {VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED, VmState.ERROR},
    ),
    task_states=frozenset(
        {
            None,
            *REBOOT_SOFT.progress,
            TaskState.REBOOTING_HARD,
            *PAUSE.progress,
            *UNPAUSE.progress,
            *SUSPEND.progress,
            *RESUME.progress,
        }
    ),
    progress=(TaskState.REBOOTING_HARD, TaskState.REBOOT_PENDING_HARD, TaskState.REBOOT_STARTED_HARD),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    event="compute_reboot_instance",
    notification="reboot",
)

RESCUE = ServerAction(
    kind="rescue",
    arguments=RescueArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    progress=(TaskState.RESCUING,),
    ends_in=VmState.RESCUED,
    fails_in=VmState.ERROR,
    policy="os-rescue",
)
UNRESCUE = ServerAction(
    kind="unrescue",
    vm_states=frozenset({VmState.RESCUED}),
    progress=(TaskState.UNRESCUING,),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    policy="os-unrescue",
)
TRIGGER_CRASH_DUMP = ServerAction(
    kind="trigger_crash_dump",
    vm_states=frozenset({VmState.ACTIVE, VmState.PAUSED, VmState.RESCUED, VmState.RESIZED, VmState.ERROR}),
    progress=(),
    ends_in=None,
    # A second interrupt while the guest writes its dump would spoil it.
    repeatable=False,
    event="compute_trigger_crash_dump",
)
CHANGE_PASSWORD = ServerAction(
    kind="change_password",
    name="changePassword",
    arguments=ChangePasswordArguments,
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.UPDATING_PASSWORD,),
    ends_in=None,
    secret=True,
    event="compute_set_admin_password",
    policy="os-admin-password",
    notification="",
)
# As in Nova, they have no task states. Each changes rows of ports, and no other action may see these changes half done.
ATTACH_INTERFACE = ServerAction(
    kind="attach_interface",
    key="",
    vm_states=frozenset({VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED}),
    progress=(),
    ends_in=None,
    exclusive=True,
    event="compute_attach_interface",
    policy="os-attach-interfaces:create",
    notification="interface_attach",
)
DETACH_INTERFACE = ServerAction(
    kind="detach_interface",
    key="",
    vm_states=ATTACH_INTERFACE.vm_states,
    progress=(),
    ends_in=None,
    exclusive=True,
    event="compute_detach_interface",
    policy="os-attach-interfaces:delete",
    notification="interface_detach",
)
CREATE_IMAGE = ServerAction(
    kind="snapshot",
    name="createImage",
    arguments=CreateImageArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED}),
    progress=(
        TaskState.IMAGE_SNAPSHOT_PENDING,
        TaskState.IMAGE_SNAPSHOT,
        TaskState.IMAGE_PENDING_UPLOAD,
        TaskState.IMAGE_UPLOADING,
    ),
    reported=(TaskState.IMAGE_PENDING_UPLOAD, TaskState.IMAGE_UPLOADING),
    ends_in=None,
    makes_image=True,
    # As in Nova: a lock protects against changes and deletions.
    ignores_lock=True,
    policy="servers:create_image",
)
CREATE_BACKUP = ServerAction(
    kind="backup",
    name="createBackup",
    arguments=CreateBackupArguments,
    vm_states=CREATE_IMAGE.vm_states,
    progress=(TaskState.IMAGE_BACKUP, TaskState.IMAGE_PENDING_UPLOAD, TaskState.IMAGE_UPLOADING),
    reported=CREATE_IMAGE.reported,
    ends_in=None,
    makes_image=True,
    ignores_lock=True,
    policy="os-create-backup",
    notification="snapshot",
)
REBUILD = ServerAction(
    kind="rebuild",
    arguments=RebuildArguments,
    vm_states=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
    progress=(TaskState.REBUILDING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING, TaskState.REBUILD_SPAWNING),
    ends_in=VmState.ACTIVE,
    keeps=frozenset({VmState.STOPPED}),
    fails_in=VmState.ERROR,
    changes_at=TaskState.REBUILD_SPAWNING,
)
SHELVE = ServerAction(
    kind="shelve",
    vm_states=CREATE_IMAGE.vm_states,
    progress=(
        TaskState.SHELVING,
        TaskState.SHELVING_IMAGE_PENDING_UPLOAD,
        TaskState.SHELVING_IMAGE_UPLOADING,
    ),
    reported=(TaskState.SHELVING_IMAGE_PENDING_UPLOAD, TaskState.SHELVING_IMAGE_UPLOADING),
    ends_in=VmState.SHELVED,
    makes_image=True,
    policy="os-shelve:shelve",
)
SHELVE_OFFLOAD = ServerAction(
    kind="shelve_offload",
    name="shelveOffload",
    vm_states=frozenset({VmState.SHELVED}),
    progress=(TaskState.SHELVING_OFFLOADING,),
    ends_in=VmState.SHELVED_OFFLOADED,
    policy="os-shelve:shelve_offload",
)
# For a server that is still on its host. A server without a host is scheduled and built:
# `conductor/servers/shelving.py`.
UNSHELVE = ServerAction(
    kind="unshelve",
    vm_states=frozenset({VmState.SHELVED}),
    progress=(TaskState.UNSHELVING,),
    ends_in=VmState.ACTIVE,
    policy="os-shelve:unshelve",
)
_ENDED_BY_DELETION = (
    STOP,
    START,
    REBOOT_SOFT,
    REBOOT_HARD,
    PAUSE,
    UNPAUSE,
    SUSPEND,
    RESUME,
    RESCUE,
    UNRESCUE,
    REBUILD,
    CHANGE_PASSWORD,
    CREATE_IMAGE,
    CREATE_BACKUP,
    SHELVE,
    UNSHELVE,
)
SOFT_DELETE = ServerAction(
    kind="soft_delete",
    name="delete",
    key="",
    vm_states=frozenset(
        {
            VmState.ACTIVE,
            VmState.STOPPED,
            VmState.PAUSED,
            VmState.SUSPENDED,
            VmState.RESCUED,
            VmState.RESIZED,
            VmState.SHELVED,
            VmState.ERROR,
        }
    ),
    # As in Nova, a deletion does not wait for other actions: it ends any action in progress.
    task_states=frozenset({None, *(step for action in _ENDED_BY_DELETION for step in action.progress)}),
    progress=(TaskState.SOFT_DELETING,),
    ends_in=VmState.SOFT_DELETED,
)
RESTORE = ServerAction(
    kind="restore",
    vm_states=frozenset({VmState.SOFT_DELETED}),
    progress=(TaskState.RESTORING,),
    ends_in=VmState.ACTIVE,
    policy="os-deferred-delete:restore",
)

ACTIONS: tuple[ServerAction, ...] = (
    STOP,
    START,
    REBOOT_SOFT,
    REBOOT_HARD,
    PAUSE,
    UNPAUSE,
    SUSPEND,
    RESUME,
    RESCUE,
    UNRESCUE,
    REBUILD,
    TRIGGER_CRASH_DUMP,
    CHANGE_PASSWORD,
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
    CREATE_IMAGE,
    CREATE_BACKUP,
    SHELVE,
    SHELVE_OFFLOAD,
    UNSHELVE,
    SOFT_DELETE,
    RESTORE,
)
# Actions whose success is accepted although a conductor has ended them, if nothing has changed the instance since. What the
# others had taken was given back at their end: images, quotas, ports, the image of a rebuild.
ACCEPTED_LATE = (
    STOP,
    START,
    REBOOT_HARD,
    REBOOT_SOFT,
    PAUSE,
    UNPAUSE,
    SUSPEND,
    RESUME,
    RESCUE,
    UNRESCUE,
    SHELVE_OFFLOAD,
    UNSHELVE,
)
BY_KIND: Mapping[str, ServerAction] = {action.kind: action for action in ACTIONS}
BY_KEY: Mapping[str, tuple[ServerAction, ...]] = {
    key: tuple(action for action in ACTIONS if action.key == key)
    for key in dict.fromkeys(one.key for one in ACTIONS if one.key)
}
# After these actions the guest has exactly the interfaces of its instance.
DEFINE_ANEW = (START, REBOOT_HARD, RESCUE, UNRESCUE, REBUILD, SHELVE_OFFLOAD, UNSHELVE, RESTORE)
MAKE_IMAGES: tuple[ServerAction, ...] = tuple(action for action in ACTIONS if action.makes_image)
# Actions that share a task state have the same notification.
BY_TASK_STATE: Mapping[TaskState, ServerAction] = {step: action for action in ACTIONS for step in action.progress}
