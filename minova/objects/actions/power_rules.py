"""Rules for a guest whose domain is in another state than its row expects, as in Nova (`sync_power_state`). Pure.

They apply only to idle instances: an instance with a task is left to the task.

    row        the domain is            then
    active     shut down, crashed       the instance is `stopped` (SHUTOFF): the guest has shut itself down
    paused     shut down, crashed       `stopped`
    stopped,   running                  its host asks the guest to shut down, and leaves it running if it does not: it was
    soft-                               started behind the cloud's back, or soft-deleted while its host was down
    deleted
    shelved    running                  `active`: its disk is newer than the image of its shelving, so no offload may
                                        remove the disk
    any other pair                      only the power state changes. A guest that has suspended itself, or was paused,
                                        cannot shut itself down

No rule destroys a domain that runs. The rules look at the states of the row and of the domain, not at a change of them: a row may
have been written with the power state of a guest that was off already, such as the row of a build that was found finished.

A host that starts with `resume_guests_state_on_host_boot` starts guests that were running when they were last seen and are
off now:

    row                  its task                                then
    active               none, or one that needs a running       it is started
                         guest or leaves it running
    resized              none                                    it is started: its user can only confirm or revert the move
    rescued              none                                    it is started from its rescue disk
    active, rescued      one that stops or starts the guest      nothing: its host repeats the task
    any other            any                                     nothing, as in Nova: a paused guest becomes `stopped`
"""

from typing import NamedTuple

from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import PAUSE, SUSPEND
from minova.objects.servers.states import PowerState, TaskState, VmState

OFF = frozenset({PowerState.SHUTDOWN, PowerState.CRASHED})
# If an idle instance in one of these states is found off, it becomes `stopped`.
STOPS_BY_ITSELF = frozenset({VmState.ACTIVE, VmState.PAUSED})
# If an idle instance in one of these states is found running, it becomes `active`.
RUNS_BY_ITSELF = frozenset({VmState.SHELVED})
ON = frozenset({PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED})


class RowStates(NamedTuple):
    """What the row of an instance says about its guest."""

    vm_state: VmState
    power_state: PowerState


def differs(in_row: RowStates, now: PowerState) -> bool:
    """Whether a conductor must hear of the state of this guest: its row has another one, or the instance must change."""
    if now in OFF and in_row.vm_state in STOPS_BY_ITSELF:
        return True
    if now is PowerState.RUNNING and in_row.vm_state in RUNS_BY_ITSELF:
        return True
    return now is not in_row.power_state


def must_stop(vm_state: VmState, power_state: PowerState) -> bool:
    """Whether the host must ask the guest of an instance in these states to shut down."""
    return vm_state in {VmState.STOPPED, VmState.SOFT_DELETED} and power_state is PowerState.RUNNING


# A guest was running when its host went down during one of these tasks, and its host does not start it when it repeats
# the task.
_RUNS_DURING = frozenset(
    {
        None,
        *(
            step
            for action in (PAUSE, SUSPEND, CREATE_IMAGE, CREATE_BACKUP, CHANGE_PASSWORD)
            for step in action.progress
        ),
    }
)


def must_resume(vm_state: VmState, task_state: TaskState | None, in_row: PowerState, now: PowerState) -> bool:
    """Whether a starting host that resumes its guests must start the guest of an instance in these states again."""
    ran = vm_state in {VmState.ACTIVE, VmState.RESIZED, VmState.RESCUED} and in_row is PowerState.RUNNING
    return ran and task_state in _RUNS_DURING and now in OFF
