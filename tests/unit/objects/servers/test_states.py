"""Which states of an instance may follow each other."""

import pytest

from minova.objects.actions.transitions import allowed
from minova.objects.servers.states import (
    PowerState,
    State,
    TaskState,
    VmState,
    build_state,
    is_being_built,
    is_resource_free,
    power_state_of,
)

SCHEDULING = (VmState.BUILDING, TaskState.SCHEDULING)
SPAWNING = (VmState.BUILDING, TaskState.SPAWNING)
ACTIVE = (VmState.ACTIVE, None)
ERROR = (VmState.ERROR, None)
DELETED = (VmState.DELETED, None)
OFFLOADED = (VmState.SHELVED_OFFLOADED, None)
UNSHELVING = (VmState.SHELVED_OFFLOADED, TaskState.SPAWNING)
EVACUATION = (VmState.ACTIVE, TaskState.REBUILDING)


@pytest.mark.parametrize(
    ("what", "before", "after", "expected"),
    [
        ("a build goes on", SCHEDULING, SPAWNING, True),
        ("a build begins again elsewhere", SPAWNING, SCHEDULING, True),
        ("a build ends well", SPAWNING, ACTIVE, True),
        ("a build ends badly", SCHEDULING, ERROR, True),
        ("a running instance is not built again", ACTIVE, SPAWNING, False),
        ("what failed does not run by itself", ERROR, ACTIVE, False),
        ("anything may be deleted", SPAWNING, (VmState.BUILDING, TaskState.DELETING), True),
        ("a resize begins", ACTIVE, (VmState.ACTIVE, TaskState.RESIZE_PREP), True),
        ("what failed is not resized", ERROR, (VmState.ERROR, TaskState.RESIZE_PREP), False),
        ("what failed may be evacuated", ERROR, (VmState.ERROR, TaskState.REBUILDING), True),
        ("a resize arrives", (VmState.ACTIVE, TaskState.RESIZE_PREP), (VmState.RESIZED, None), True),
        ("a resize is confirmed", (VmState.RESIZED, None), ACTIVE, True),
        ("an idle instance is not resized at once", ACTIVE, (VmState.RESIZED, None), False),
        ("what failed may be deleted", ERROR, (VmState.ERROR, TaskState.DELETING), True),
        ("deleting does not change what it was", ACTIVE, (VmState.ERROR, TaskState.DELETING), False),
        ("deleting ends", (VmState.ACTIVE, TaskState.DELETING), DELETED, True),
        ("deleting may fail", (VmState.ACTIVE, TaskState.DELETING), ERROR, True),
        ("what is being deleted does not become active", (VmState.BUILDING, TaskState.DELETING), ACTIVE, False),
        ("nothing is deleted without saying so first", ACTIVE, DELETED, False),
        ("the deleted stay deleted", DELETED, (VmState.DELETED, TaskState.DELETING), False),
        ("a shelved server is built", OFFLOADED, (VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING), True),
        ("it goes on", (VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING), UNSHELVING, True),
        ("it begins again elsewhere", UNSHELVING, (VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING), True),
        ("it runs", UNSHELVING, ACTIVE, True),
        ("it stays shelved", UNSHELVING, OFFLOADED, True),
        ("it does not fail", UNSHELVING, ERROR, False),
        ("an idle one does not run at once", OFFLOADED, ACTIVE, False),
        ("an evacuation begins in any task", (VmState.ACTIVE, TaskState.PAUSING), EVACUATION, True),
        ("an evacuation does not change what it was", (VmState.STOPPED, None), EVACUATION, False),
        ("a paused server is not evacuated", (VmState.PAUSED, None), (VmState.PAUSED, TaskState.REBUILDING), False),
        ("an evacuation goes on", EVACUATION, (VmState.ACTIVE, TaskState.REBUILD_SPAWNING), True),
        ("an evacuation ends", (VmState.ERROR, TaskState.REBUILD_SPAWNING), (VmState.STOPPED, None), True),
        ("an evacuation goes back", (VmState.ERROR, TaskState.REBUILD_SPAWNING), ERROR, True),
        ("a guest stops by itself", (VmState.PAUSED, None), (VmState.STOPPED, None), True),
        ("a shelved guest runs", (VmState.SHELVED, None), ACTIVE, True),
        ("a suspended guest does not run by itself", (VmState.SUSPENDED, None), ACTIVE, False),
    ],
)
def test_moves(what: str, before: State, after: State, expected: bool) -> None:
    assert allowed(before, after) is expected, what


def test_power_states_have_novas_numbers() -> None:
    assert {state.name: int(state) for state in PowerState} == {
        "NOSTATE": 0,
        "RUNNING": 1,
        "PAUSED": 3,
        "SHUTDOWN": 4,
        "CRASHED": 6,
        "SUSPENDED": 7,
    }
    assert [power_state_of(number) for number in (1, 2, 7, 8, -1)] == [
        *(PowerState.RUNNING, PowerState.NOSTATE, PowerState.SUSPENDED, PowerState.NOSTATE, PowerState.NOSTATE)
    ]


@pytest.mark.parametrize(
    ("vm_state", "step", "state"),
    [
        (VmState.BUILDING, TaskState.NETWORKING, TaskState.NETWORKING),
        (VmState.SHELVED_OFFLOADED, TaskState.NETWORKING, TaskState.UNSHELVING),
        (VmState.SHELVED_OFFLOADED, TaskState.SPAWNING, TaskState.SPAWNING),
        (VmState.ERROR, TaskState.SCHEDULING, TaskState.REBUILDING),
        (VmState.ACTIVE, TaskState.NETWORKING, TaskState.REBUILD_BLOCK_DEVICE_MAPPING),
        (VmState.STOPPED, TaskState.SPAWNING, TaskState.REBUILD_SPAWNING),
    ],
)
def test_a_server_keeps_its_state_while_it_is_built(vm_state: VmState, step: TaskState, state: TaskState) -> None:
    assert build_state(vm_state, step) == (vm_state, state)


def test_which_servers_are_built_and_which_hold_nothing() -> None:
    assert {state for state in VmState if is_being_built(state)} == {VmState.BUILDING, VmState.SHELVED_OFFLOADED}
    free = {state for state in VmState if is_resource_free(state, None)}
    assert free == {VmState.DELETED, VmState.SHELVED_OFFLOADED}
    assert not is_resource_free(VmState.SHELVED_OFFLOADED, TaskState.SPAWNING)
