"""What a migration says of its instance."""

from typing import Any

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.migration import HostNode, Migration, MigrationType, transitions
from minova.objects.servers.states import PowerState, TaskState, VmState
from tests.unit.hardware import guests

SMALL = Flavor(flavorid="s", name="s", vcpus=1, memory_mb=512, root_gb=1)
STATUSES = {
    # status: in progress, succeeded, its instance's row has the destination
    "accepted": (False, False, False),
    "queued": (False, False, False),
    "pre-migrating": (True, False, False),
    "migrating": (True, False, False),
    "post-migrating": (True, False, False),
    "finished": (True, False, True),
    "confirming": (True, False, True),
    "reverting": (True, False, True),
    "confirmed": (False, True, False),
    "completed": (False, True, False),
    "done": (False, True, False),
    "reverted": (False, False, False),
    "error": (False, False, False),
    "failed": (False, False, False),
    "cancelled": (False, False, False),
}


def migration(kind: MigrationType = MigrationType.RESIZE, **more: Any) -> Migration:
    plain = {"uuid": "m", "instance_uuid": "vm", "source_compute": "a", "source_node": "a1", "status": "migrating"}
    return Migration(**{**plain, "migration_type": kind, "old_flavor": SMALL, "new_flavor": SMALL, **more})


@pytest.mark.parametrize("status", STATUSES)
def test_statuses(status: str) -> None:
    move = migration(status=status)
    assert (move.in_progress, move.succeeded, move.switched) == STATUSES[status]
    assert migration(status=status, has_switched=True).switched


@pytest.mark.parametrize("kind", MigrationType)
def test_kinds(kind: MigrationType) -> None:
    move = migration(kind)
    assert move.is_evacuation is (kind is MigrationType.EVACUATION)
    assert move.is_live is (kind is MigrationType.LIVE_MIGRATION)


@pytest.mark.parametrize(
    ("before", "stops", "after"),
    [
        (VmState.ACTIVE, False, VmState.ACTIVE),
        (VmState.STOPPED, False, VmState.STOPPED),
        (VmState.ACTIVE, True, VmState.STOPPED),
        (VmState.ERROR, False, VmState.ACTIVE),
    ],
)
def test_a_stopped_instance_stays_stopped(before: VmState, stops: bool, after: VmState) -> None:
    move = migration(old_vm_state=before, stops=stops)
    assert move.new_vm_state is after
    assert move.vm_state_confirmed(PowerState.NOSTATE) is after
    assert move.vm_state_confirmed(PowerState.SHUTDOWN) is VmState.STOPPED
    assert move.vm_state_confirmed(PowerState.RUNNING) is VmState.ACTIVE


def test_a_server_that_stays_on_its_node_counts_its_larger_size_unless_it_has_cells() -> None:
    stays: Any = {"dest_compute": "a", "dest_node": "a1"}
    cells = guests.guest(guests.shared())
    assert migration(**stays).counts_larger
    assert not migration(dest_compute="a", dest_node="a2").counts_larger
    assert not migration(dest_compute="b", dest_node="a1").counts_larger
    assert not migration().counts_larger
    assert not migration(**stays, old_numa_topology=cells).counts_larger
    assert not migration(**stays, new_numa_topology=cells).counts_larger
    assert migration().dest == HostNode(None, None)
    assert migration(**stays).source == ("a", "a1")


def test_a_cold_move_goes_through_its_steps_and_arrives_or_goes_back() -> None:
    table = transitions()
    prep, finish = (VmState.ACTIVE, TaskState.RESIZE_PREP), (VmState.ACTIVE, TaskState.RESIZE_FINISH)
    migrating, migrated = (VmState.ACTIVE, TaskState.RESIZE_MIGRATING), (VmState.ACTIVE, TaskState.RESIZE_MIGRATED)
    ends = {
        (state, None) for state in (VmState.RESIZED, VmState.ERROR, VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED)
    }
    assert table[prep] == {migrating, migrated, finish, *ends}
    assert table[migrated] == {finish, *ends}
    assert table[finish] == {finish, *ends}
    assert prep in table[VmState.ACTIVE, None]


def test_a_live_migration_begins_from_active_and_paused() -> None:
    table = transitions()
    for vm_state in VmState:
        begins = (vm_state, TaskState.MIGRATING) in table.get((vm_state, None), set())
        assert begins is (vm_state in {VmState.ACTIVE, VmState.PAUSED})
    on_its_way = (VmState.PAUSED, TaskState.MIGRATING)
    assert on_its_way in table[on_its_way]


def test_a_resized_server_is_confirmed_or_reverted() -> None:
    table = transitions()
    resized, reverting = (VmState.RESIZED, None), (VmState.RESIZED, TaskState.RESIZE_REVERTING)
    back = {(VmState.ACTIVE, None), (VmState.STOPPED, None), (VmState.ERROR, None)}
    assert table[resized] == table[reverting] == {*back, resized, reverting}
