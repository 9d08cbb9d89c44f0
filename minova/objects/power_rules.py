"""What follows from a guest whose domain is in another state than its row expects: Nova's rules (`sync_power_state`). Pure.

They hold for idle instances alone: one with a task is in the hands of that task.

    row        the domain is            then
    active     shut down, crashed       the instance is `stopped` (SHUTOFF): the guest has shut itself down
    active     suspended                its host stops the domain; that makes it `stopped`
    paused     shut down, crashed       `stopped`
    stopped    running, paused or       its host stops the domain: it was started behind the cloud's back
               suspended
    any other pair                      only the power state changes
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
    return vm_state is VmState.STOPPED and power_state in _ON
