"""Starts, stops, reboots, pauses and suspensions. Pure."""

from minova.objects.actions.action import Arguments, ServerAction
from minova.objects.servers.states import TaskState, VmState


class RebootArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`type`: SOFT or HARD, case-insensitive."""

    type: str

    def __post_init__(self) -> None:
        if self.type not in {"HARD", "Hard", "hard", "SOFT", "Soft", "soft"}:
            raise ValueError(f"type: '{self.type[:64]}' is not one of SOFT and HARD")

    @property
    def variant(self) -> str:
        return self.type.upper()


STOP = ServerAction(
    kind="stop",
    done="stopped",
    key="os-stop",
    vm_states=frozenset({VmState.ACTIVE, VmState.ERROR}),
    progress=(TaskState.POWERING_OFF,),
    ends_in=VmState.STOPPED,
    accepted_late=True,
    notification="power_off",
)
START = ServerAction(
    kind="start",
    done="started",
    key="os-start",
    vm_states=frozenset({VmState.STOPPED}),
    progress=(TaskState.POWERING_ON,),
    ends_in=VmState.ACTIVE,
    accepted_late=True,
    redefines_domain=True,
    opens_disk=True,
    notification="power_on",
)
REBOOT_SOFT = ServerAction(
    forced="The guest did not shut down in time, and was rebooted hard.",
    kind="reboot_soft",
    done="rebooted",
    name="reboot",
    arguments=RebootArguments,
    variant="SOFT",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.REBOOTING, TaskState.REBOOT_PENDING, TaskState.REBOOT_STARTED),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    accepted_late=True,
    notifies_errors=True,
    opens_disk=True,
    event="compute_reboot_instance",
    notification="reboot",
)
PAUSE = ServerAction(
    kind="pause",
    done="paused",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.PAUSING,),
    ends_in=VmState.PAUSED,
    accepted_late=True,
    policy="os-pause-server:pause",
)
UNPAUSE = ServerAction(
    kind="unpause",
    done="unpaused",
    vm_states=frozenset({VmState.PAUSED}),
    wakes=True,
    progress=(TaskState.UNPAUSING,),
    ends_in=VmState.ACTIVE,
    accepted_late=True,
    policy="os-pause-server:unpause",
)
SUSPEND = ServerAction(
    kind="suspend",
    done="suspended",
    vm_states=frozenset({VmState.ACTIVE}),
    progress=(TaskState.SUSPENDING,),
    ends_in=VmState.SUSPENDED,
    fails_in=VmState.ERROR,
    accepted_late=True,
    policy="os-suspend-server:suspend",
)
RESUME = ServerAction(
    kind="resume",
    done="resumed",
    vm_states=frozenset({VmState.SUSPENDED}),
    wakes=True,
    progress=(TaskState.RESUMING,),
    ends_in=VmState.ACTIVE,
    fails_in=VmState.ERROR,
    accepted_late=True,
    opens_disk=True,
    policy="os-suspend-server:resume",
)
REBOOT_HARD = ServerAction(
    kind="reboot_hard",
    done="rebooted",
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
    accepted_late=True,
    redefines_domain=True,
    notifies_errors=True,
    opens_disk=True,
    event="compute_reboot_instance",
    notification="reboot",
)
TRIGGER_CRASH_DUMP = ServerAction(
    kind="trigger_crash_dump",
    done="interrupted for a crash dump",
    vm_states=frozenset({VmState.ACTIVE, VmState.PAUSED, VmState.RESCUED, VmState.RESIZED, VmState.ERROR}),
    progress=(),
    ends_in=None,
    # A second interrupt while the guest writes its dump would spoil it.
    repeatable=False,
    event="compute_trigger_crash_dump",
)
ACTIONS = (
    STOP,
    START,
    REBOOT_SOFT,
    PAUSE,
    UNPAUSE,
    SUSPEND,
    RESUME,
    REBOOT_HARD,
    TRIGGER_CRASH_DUMP,
)
