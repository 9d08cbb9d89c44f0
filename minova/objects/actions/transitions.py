"""The one table of the states that may follow each other. Pure.

                 claim, image, disk         domain runs
(BUILDING, SCHEDULING) --> (BUILDING, NETWORKING | BLOCK_DEVICE_MAPPING | SPAWNING) --> (ACTIVE, None)
          |   ^ next alternate      |
          |   '---------------------'
          v               (ACTIVE, None) --> (STOPPED, None)   the guest has shut itself down
    (ERROR, None)         (idle, None) <--> (idle, action's task_states) --> (action's end, None)
    (SHELVED_OFFLOADED, None) --> (SHELVED_OFFLOADED, UNSHELVING | SPAWNING) --> (ACTIVE, None), or back
    (ACTIVE | STOPPED | ERROR, any) --> (same, rebuilding steps of an evacuation) --> (ACTIVE | STOPPED, None), or back
    (idle, None) --> (idle, migration's task_state) --> (RESIZED, None) --> (idle, None)
                          (any, any) --> (any, DELETING) --> (DELETED, None)
"""

from collections.abc import Iterable, Mapping

from minova.objects.actions.table import ACTIONS
from minova.objects.servers import migration
from minova.objects.servers.states import (
    BUILD_STEPS,
    EVACUABLE,
    EVACUATION_STEPS,
    UNSHELVING_STEPS,
    State,
    TaskState,
    VmState,
)

# A build step may repeat or begin again on the next alternate. Deletion may be requested at any time.
_BUILD = {(VmState.BUILDING, step) for step in (TaskState.SCHEDULING, *BUILD_STEPS)}

_OF_BUILDS: dict[State, set[State]] = {
    state: _BUILD | {(VmState.ACTIVE, None), (VmState.ERROR, None)} for state in _BUILD
}
# As `_BUILD`, from the image of a shelved server.
_UNSHELVING = {(VmState.SHELVED_OFFLOADED, step) for step in UNSHELVING_STEPS}
_OF_UNSHELVING: dict[State, set[State]] = {
    (VmState.SHELVED_OFFLOADED, None): {(VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING)},
    **{state: _UNSHELVING | {(VmState.ACTIVE, None), (VmState.SHELVED_OFFLOADED, None)} for state in _UNSHELVING},
}
# As `_BUILD`, on another host than the one that is down.
_OF_EVACUATIONS: dict[State, set[State]] = {
    (vm_state, step): {
        *((vm_state, other) for other in EVACUATION_STEPS),
        (VmState.ACTIVE, None),
        (VmState.STOPPED, None),
        (vm_state, None),
    }
    for vm_state in EVACUABLE
    for step in EVACUATION_STEPS
}
# Changes of idle instances by the hypervisor, and failures.
_OF_IDLE: dict[State, set[State]] = {
    (VmState.ACTIVE, None): {(VmState.ACTIVE, None), (VmState.STOPPED, None), (VmState.ERROR, None)},
    (VmState.PAUSED, None): {(VmState.PAUSED, None), (VmState.STOPPED, None), (VmState.ERROR, None)},
    (VmState.STOPPED, None): {(VmState.STOPPED, None), (VmState.ACTIVE, None), (VmState.ERROR, None)},
    (VmState.SUSPENDED, None): {(VmState.SUSPENDED, None), (VmState.ERROR, None)},
    (VmState.RESCUED, None): {(VmState.RESCUED, None), (VmState.ERROR, None)},
    (VmState.SHELVED, None): {(VmState.SHELVED, None), (VmState.ACTIVE, None), (VmState.ERROR, None)},
    (VmState.SOFT_DELETED, None): {(VmState.SOFT_DELETED, None), (VmState.ERROR, None)},
    (VmState.ERROR, None): {(VmState.ERROR, None)},
}


def _merged(tables: Iterable[Mapping[State, set[State]]]) -> dict[State, set[State]]:
    merged: dict[State, set[State]] = {}
    for table in tables:
        for before, after in table.items():
            merged.setdefault(before, set()).update(after)
    return merged


ALLOWED = _merged(
    [
        _OF_BUILDS,
        _OF_UNSHELVING,
        _OF_EVACUATIONS,
        _OF_IDLE,
        migration.transitions(),
        *(action.transitions for action in ACTIONS),
    ]
)


def allowed(before: State, after: State) -> bool:
    """Whether an instance may go from one (vm_state, task_state) to the other."""
    if before[0] is VmState.DELETED:
        return False
    if after[1] is TaskState.DELETING:
        return after[0] is before[0]
    if before[1] is TaskState.DELETING:
        return after in {(VmState.DELETED, None), (VmState.ERROR, None)}
    if after[1] is TaskState.REBUILDING and after[0] in EVACUABLE and after[0] is before[0]:
        return True  # a server in any task state may be evacuated
    return after in ALLOWED.get(before, set())
