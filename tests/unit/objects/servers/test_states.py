"""Which states of an instance may follow each other."""

import pytest

from minova.objects.actions.transitions import allowed
from minova.objects.servers.states import State, TaskState, VmState

SCHEDULING = (VmState.BUILDING, TaskState.SCHEDULING)
SPAWNING = (VmState.BUILDING, TaskState.SPAWNING)
ACTIVE = (VmState.ACTIVE, None)
ERROR = (VmState.ERROR, None)
DELETED = (VmState.DELETED, None)


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
    ],
)
def test_moves(what: str, before: State, after: State, expected: bool) -> None:
    assert allowed(before, after) is expected, what
