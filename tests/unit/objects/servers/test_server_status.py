"""The status of a server for each of its states, against what Nova 34 shows."""

from itertools import product

import pytest

from minova.objects.servers.server_status import Status, states_of, status_of
from minova.objects.servers.states import TaskState, VmState

IDLE = {
    "building": "BUILD",
    "active": "ACTIVE",
    "paused": "PAUSED",
    "suspended": "SUSPENDED",
    "stopped": "SHUTOFF",
    "rescued": "RESCUE",
    "resized": "VERIFY_RESIZE",
    "soft-delete": "SOFT_DELETED",
    "deleted": "DELETED",
    "error": "ERROR",
    "shelved": "SHELVED",
    "shelved_offloaded": "SHELVED_OFFLOADED",
}
# All pairs that Nova shows otherwise than the idle server.
IN_PROGRESS = {
    ("active", "rebooting"): "REBOOT",
    ("active", "reboot_pending"): "REBOOT",
    ("active", "reboot_started"): "REBOOT",
    ("active", "rebooting_hard"): "HARD_REBOOT",
    ("active", "reboot_pending_hard"): "HARD_REBOOT",
    ("active", "reboot_started_hard"): "HARD_REBOOT",
    ("active", "updating_password"): "PASSWORD",
    ("active", "rebuilding"): "REBUILD",
    ("active", "rebuild_block_device_mapping"): "REBUILD",
    ("active", "rebuild_spawning"): "REBUILD",
    ("stopped", "rebuilding"): "REBUILD",
    ("stopped", "rebuild_block_device_mapping"): "REBUILD",
    ("stopped", "rebuild_spawning"): "REBUILD",
    ("error", "rebuilding"): "REBUILD",
    ("error", "rebuild_block_device_mapping"): "REBUILD",
    ("error", "rebuild_spawning"): "REBUILD",
    ("active", "resize_prep"): "RESIZE",
    ("active", "resize_migrating"): "RESIZE",
    ("active", "resize_migrated"): "RESIZE",
    ("active", "resize_finish"): "RESIZE",
    ("stopped", "resize_prep"): "RESIZE",
    ("stopped", "resize_migrating"): "RESIZE",
    ("stopped", "resize_migrated"): "RESIZE",
    ("stopped", "resize_finish"): "RESIZE",
    ("resized", "resize_reverting"): "REVERT_RESIZE",
    ("active", "migrating"): "MIGRATING",
    ("paused", "migrating"): "MIGRATING",
}


def test_each_pair_of_states_has_the_status_of_nova() -> None:
    pairs = [*product(map(str, VmState), [None, *map(str, TaskState)])]
    assert {pair: str(status_of(*pair)) for pair in pairs} == {
        (vm_state, task_state): IN_PROGRESS.get((vm_state, task_state or ""), IDLE[vm_state])
        for vm_state, task_state in pairs
    }


def test_states_that_there_are_not() -> None:
    assert status_of("melted", None) == status_of("melted", "rebooting") == "UNKNOWN"
    assert status_of("active", "dancing") == "ACTIVE"


REBUILDS = ("rebuild_block_device_mapping", "rebuild_spawning", "rebuilding")
REBOOTS = ("reboot_pending", "reboot_started", "rebooting")
# What Nova looks for: a status of idle servers brings those with tasks, too, also of other statuses.
FILTERS: list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...] | None]] = [
    (("ACTIVE",), ("active",), None),
    (("shutoff",), ("stopped",), None),
    (("Reboot",), ("active",), REBOOTS),
    (("HARD_REBOOT",), ("active",), ("reboot_pending_hard", "reboot_started_hard", "rebooting_hard")),
    (("PASSWORD",), ("active",), ("updating_password",)),
    (("REBUILD",), ("active", "error", "stopped"), REBUILDS),
    (("RESIZE",), ("active", "stopped"), ("resize_finish", "resize_migrated", "resize_migrating", "resize_prep")),
    (("REVERT_RESIZE",), ("resized",), ("resize_reverting",)),
    (("MIGRATING",), ("active", "paused"), ("migrating",)),
    (("REBOOT", "REBUILD"), ("active", "error", "stopped"), tuple(sorted(REBOOTS + REBUILDS))),
    (("REBOOT", "SHUTOFF"), ("active", "stopped"), None),
    (("ACTIVE", "DELETED", "HAPPY"), ("active", "deleted"), None),
]


@pytest.mark.parametrize(("statuses", "vm_states", "task_states"), FILTERS)
def test_a_status_is_looked_for_by_its_states(
    statuses: tuple[str, ...], vm_states: tuple[str, ...], task_states: tuple[str, ...] | None
) -> None:
    states = states_of(statuses)
    assert states is not None
    assert (states.vm_states, states.task_states) == (vm_states, task_states)


@pytest.mark.parametrize("statuses", [("HAPPY",), ("UNKNOWN",), ("active ",), ("",), ("HAPPY", "SAD")])
def test_what_is_no_status_has_no_states(statuses: tuple[str, ...]) -> None:
    assert states_of(statuses) is None


def test_every_status_is_shown_of_some_state() -> None:
    assert {*IDLE.values(), *IN_PROGRESS.values(), "UNKNOWN"} == {*map(str, Status)}
