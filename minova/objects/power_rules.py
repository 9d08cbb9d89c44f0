"""What follows from a guest whose domain is in another state than its row expects: Nova's rules (`sync_power_state`). Pure.

They hold for idle instances alone: one with a task is in the hands of that task.

    row        the domain is            then
    active     shut down, crashed       the instance is `stopped` (SHUTOFF): the guest has shut itself down
    active     suspended                its host stops the domain; that makes it `stopped`
    paused     shut down, crashed       `stopped`
    stopped,   running, paused or       its host stops the domain: it was started behind the cloud's back, or soft-deleted while
    soft-      suspended                its host was down. What a shelved guest writes would not be in its image
    deleted,
    shelved
    any other pair                      only the power state changes

A host that starts with `resume_guests_state_on_host_boot` runs what is `active` in its row, ran when it was last seen, and is off.
"""

from minova.objects.states import PowerState, VmState

OFF = frozenset({PowerState.SHUTDOWN, PowerState.CRASHED})
# States that make those of OFF, seen in an idle instance, into `stopped`.
STOPS_BY_ITSELF = frozenset({VmState.ACTIVE, VmState.PAUSED})
_ON = frozenset({PowerState.RUNNING, PowerState.PAUSED, PowerState.SUSPENDED})


def must_stop(vm_state: VmState, power_state: PowerState) -> bool:
    """Whether the host must stop the domain of such an instance."""
    if vm_state is VmState.ACTIVE:
        return power_state is PowerState.SUSPENDED
    return vm_state in {VmState.STOPPED, VmState.SOFT_DELETED, VmState.SHELVED} and power_state in _ON


def must_resume(vm_state: VmState, in_row: PowerState, now: PowerState) -> bool:
    """Whether a host that starts must run the domain of such an instance again, if it is to resume its guests."""
    return vm_state is VmState.ACTIVE and in_row is PowerState.RUNNING and now in OFF
