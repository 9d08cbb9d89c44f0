"""The table of server actions, and that every service serves each of its entries."""

import itertools
import re
from pathlib import Path

import pytest

import minova
from minova.api.policies import compute as policies
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.moves import CONFIRM_RESIZE, LIVE_MIGRATE, MIGRATE, RESIZE, REVERT_RESIZE
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import (
    PAUSE,
    REBOOT_HARD,
    REBOOT_SOFT,
    RESUME,
    START,
    STOP,
    SUSPEND,
    TRIGGER_CRASH_DUMP,
    UNPAUSE,
)
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.rescue import RESCUE, UNRESCUE
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD, UNSHELVE
from minova.objects.actions.table import ACTIONS, BY_KEY, BY_KIND, BY_TASK_STATE, RUN_BY_HOSTS
from minova.objects.actions.transitions import allowed
from minova.objects.servers.states import PowerState, State, TaskState, VmState

UUID = "0f5f9d1c-0000-4000-8000-000000000001"
EACH = pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.kind)


def test_kinds_and_task_states_are_unique_and_keys_with_their_variants() -> None:
    assert len(BY_KIND) == len(ACTIONS)
    # Those that share task states are told alike.
    steps = [(step, action.notification) for action in ACTIONS for step in action.progress]
    assert len(BY_TASK_STATE) == len(set(steps))
    keys = [(action.key, action.variant) for action in ACTIONS if action.key]
    assert len(keys) == len(set(keys))


def test_actions_that_share_a_key_differ_in_their_variant_alone() -> None:
    for actions in BY_KEY.values():
        shared = {(action.name, action.arguments, action.policy, action.event) for action in actions}
        assert len(shared) == 1
        assert len(actions) == 1 or all(action.variant for action in actions)


@EACH
def test_each_action_has_a_policy(action: ServerAction) -> None:
    assert f"os_compute_api:{action.policy}" in {rule.name for rule in policies.RULES}


@EACH
def test_an_action_begins_and_ends_and_may_go_back(action: ServerAction) -> None:
    for vm_state, task_state in itertools.product(action.vm_states, action.task_states):
        for begun in action.progress[:1]:
            assert allowed((vm_state, task_state), (vm_state, begun))
        for step in action.progress:
            assert allowed((vm_state, step), (action.after_success(vm_state), None))
            assert allowed((vm_state, step), (action.after_failure(vm_state, PowerState.SHUTDOWN), None))
            assert allowed((vm_state, step), (vm_state, None))
            assert allowed((vm_state, step), (vm_state, TaskState.DELETING))
            assert not allowed((vm_state, TaskState.DELETING), (vm_state, step))


@EACH
def test_what_may_be_interrupted_is_another_action(action: ServerAction) -> None:
    assert {state for state in action.task_states if state is not None} <= BY_TASK_STATE.keys()


def test_a_guest_that_runs_after_a_failure_is_as_before() -> None:
    assert REBOOT_SOFT.after_failure(VmState.ACTIVE, PowerState.RUNNING) is VmState.ACTIVE
    assert REBOOT_SOFT.after_failure(VmState.ACTIVE, PowerState.SHUTDOWN) is VmState.ERROR
    assert REBOOT_HARD.after_failure(VmState.STOPPED, None) is VmState.ERROR
    assert PAUSE.after_failure(VmState.ACTIVE, PowerState.SHUTDOWN) is VmState.ACTIVE


def test_the_page_on_compatibility_names_every_action() -> None:
    page = (Path(minova.__file__).parents[1] / "docs/reference/compatibility.md").read_text()
    table = page.partition("**Server actions**")[2].split("\n\n")[1]
    firsts = [line.split("|")[1] for line in table.splitlines()]
    assert set(BY_KEY) <= set(re.findall(r"`([^`]+)`", " ".join(firsts)))


def _name(value: object) -> str:
    return value.kind if isinstance(value, ServerAction) else str(value)


_IDLE_ONLY = {
    STOP.kind: {VmState.ACTIVE, VmState.ERROR},
    START.kind: {VmState.STOPPED},
    REBOOT_SOFT.kind: {VmState.ACTIVE},
    REBOOT_HARD.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED, VmState.ERROR},
    PAUSE.kind: {VmState.ACTIVE},
    UNPAUSE.kind: {VmState.PAUSED},
    SUSPEND.kind: {VmState.ACTIVE},
    RESUME.kind: {VmState.SUSPENDED},
    RESCUE.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR},
    UNRESCUE.kind: {VmState.RESCUED},
    REBUILD.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR},
    CHANGE_PASSWORD.kind: {VmState.ACTIVE},
    TRIGGER_CRASH_DUMP.kind: {VmState.ACTIVE, VmState.PAUSED, VmState.RESCUED, VmState.RESIZED, VmState.ERROR},
    ATTACH_INTERFACE.kind: {VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED},
    DETACH_INTERFACE.kind: {VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED},
    CREATE_IMAGE.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED},
    SOFT_DELETE.kind: {*VmState} - {VmState.BUILDING, VmState.SOFT_DELETED, VmState.DELETED, VmState.SHELVED_OFFLOADED},
    RESTORE.kind: {VmState.SOFT_DELETED},
    RESIZE.kind: {VmState.ACTIVE, VmState.STOPPED},
    MIGRATE.kind: {VmState.ACTIVE, VmState.STOPPED},
    LIVE_MIGRATE.kind: {VmState.ACTIVE, VmState.PAUSED},
    CONFIRM_RESIZE.kind: {VmState.RESIZED},
    REVERT_RESIZE.kind: {VmState.RESIZED},
    SHELVE.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED},
    SHELVE_OFFLOAD.kind: {VmState.SHELVED},
    # One that is offloaded is built on a host, which is no server action.
    UNSHELVE.kind: {VmState.SHELVED},
    CREATE_BACKUP.kind: {VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED},
}


@pytest.mark.parametrize(("action", "vm_state"), [*itertools.product(ACTIONS, VmState)], ids=_name)
def test_each_action_is_allowed_in_novas_states_alone(action: ServerAction, vm_state: VmState) -> None:
    refusal = action.refusal(UUID, (vm_state, None), has_host=True, launched=True)
    expected = f"Cannot '{action.refused_name}' instance {UUID} while it is in vm_state {vm_state}"
    assert refusal == (None if vm_state in _IDLE_ONLY[action.kind] else expected)


_WHILE = {
    "rebooting",
    "reboot_pending",
    "reboot_started",
    "rebooting_hard",
    "pausing",
    "unpausing",
    "suspending",
    "resuming",
}


@pytest.mark.parametrize("task_state", [*TaskState], ids=str)
def test_a_hard_reboot_interrupts_only_what_nova_lets_it_and_a_deletion_all_but_itself_and_a_restore(
    task_state: TaskState,
) -> None:
    for action in ACTIONS:
        refusal = action.refusal(UUID, (min(action.vm_states), task_state), has_host=True, launched=True)
        # One whose disks are being removed, or that is between two hosts, could not be restored: it is deleted for good.
        kept = (SOFT_DELETE, RESTORE, SHELVE_OFFLOAD)
        ended = {step for other in RUN_BY_HOSTS if other not in kept for step in other.progress}
        interrupted: dict[str, set[str]] = {REBOOT_HARD.kind: {*_WHILE}, SOFT_DELETE.kind: {*ended}}
        is_allowed = task_state in interrupted.get(action.kind, ())
        expected = f"Cannot '{action.refused_name}' instance {UUID} while it is in task_state {task_state}"
        assert refusal == (None if is_allowed else expected)


@pytest.mark.parametrize(
    ("action", "state", "has_host", "launched", "expected"),
    [
        (
            STOP,
            (VmState.BUILDING, TaskState.SPAWNING),
            True,
            False,
            f"Cannot 'stop' instance {UUID} while it is in vm_state building",
        ),
        (STOP, (VmState.BUILDING, TaskState.SCHEDULING), False, False, f"Instance {UUID} is not ready: it has no host"),
        (
            STOP,
            (VmState.SHELVED_OFFLOADED, None),
            False,
            True,
            f"Cannot 'stop' instance {UUID} while it is in vm_state shelved_offloaded",
        ),
        (STOP, (VmState.ERROR, None), True, False, "Cannot 'stop' an instance which has never been active"),
        (REBOOT_HARD, (VmState.ERROR, None), True, False, "Cannot 'reboot' an instance which has never been active"),
    ],
)
def test_refusals_are_in_novas_words_and_order(
    action: ServerAction, state: State, has_host: bool, launched: bool, expected: str | None
) -> None:
    assert action.refusal(UUID, state, has_host=has_host, launched=launched) == expected


def test_bug_sentences_have_internal_names() -> None:
    """*The server could not createImage.*"""
    for action in ACTIONS:
        assert action.done == action.done.lower()
        assert "_" not in action.done
