"""The table of server actions, and that every service serves each of its entries."""

import pytest

from minova.compute.manager import ComputeManager
from minova.contracts.base import methods_of
from minova.contracts.compute import ComputeApi
from minova.objects.server_actions import ACTIONS, BY_KEY, BY_NAME, BY_TASK_STATE, START, STOP, ServerAction
from minova.objects.states import State, TaskState, VmState
from minova.objects.transitions import allowed

UUID = "0f5f9d1c-0000-4000-8000-000000000001"


def test_names_keys_and_task_states_are_unique() -> None:
    assert len(BY_NAME) == len(BY_KEY) == len(BY_TASK_STATE) == len(ACTIONS)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_compute_contract_has_the_method_of_each_action(action: ServerAction) -> None:
    method = methods_of(ComputeApi)[action.method]
    assert (method.kind, method.since) == ("cast", action.since["compute"])
    assert hasattr(ComputeManager, action.method)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.name)
def test_an_action_begins_and_ends_and_may_go_back(action: ServerAction) -> None:
    for vm_state in action.vm_states:
        begun = (vm_state, action.task_state)
        assert allowed((vm_state, None), begun)
        assert allowed(begun, (action.ends_in, None))
        assert allowed(begun, (vm_state, None))
        assert allowed(begun, (vm_state, TaskState.DELETING))
        assert not allowed((vm_state, TaskState.DELETING), begun)


@pytest.mark.parametrize(
    ("action", "state", "has_host", "launched", "expected"),
    [
        (STOP, (VmState.ACTIVE, None), True, True, None),
        (STOP, (VmState.ERROR, None), True, True, None),
        (START, (VmState.STOPPED, None), True, True, None),
        (STOP, (VmState.STOPPED, None), True, True, f"Cannot 'stop' instance {UUID} while it is in vm_state stopped"),
        (START, (VmState.ACTIVE, None), True, True, f"Cannot 'start' instance {UUID} while it is in vm_state active"),
        (
            STOP,
            (VmState.ACTIVE, TaskState.POWERING_OFF),
            True,
            True,
            f"Cannot 'stop' instance {UUID} while it is in task_state powering-off",
        ),
        (
            STOP,
            (VmState.BUILDING, TaskState.SPAWNING),
            True,
            False,
            f"Cannot 'stop' instance {UUID} while it is in vm_state building",
        ),
        (STOP, (VmState.BUILDING, TaskState.SCHEDULING), False, False, f"Instance {UUID} is not ready"),
        (STOP, (VmState.ERROR, None), True, False, "Cannot 'stop' an instance which has never been active"),
    ],
)
def test_refusals_are_in_novas_words_and_order(
    action: ServerAction, state: State, has_host: bool, launched: bool, expected: str | None
) -> None:
    assert action.refusal(UUID, state, has_host=has_host, launched=launched) == expected
