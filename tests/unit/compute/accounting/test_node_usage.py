"""Steps of a node's usage, each of which can be taken back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.compute.accounting.audit import NodeSettings, audit_node
from minova.compute.accounting.inventories import ReservedResources
from minova.compute.accounting.node_usage import (
    NodeUsage,
    after_migration_step,
    tracked_migration,
    with_devices,
    with_freed,
    with_migration,
    with_orphan,
    with_reserved,
    with_updated_instance,
    without_instance,
    without_migration,
)
from minova.compute.accounting.usage import Usage
from minova.hardware.pci_devices import ALLOCATED, AVAILABLE, CLAIMED, REMOVED
from minova.objects.catalogue.flavor import Overhead
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.pci import PciDevice
from minova.objects.servers.build import AuditInputs
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import NOT_IN_PROGRESS, SWITCHED, Migration
from minova.objects.servers.states import TaskState, VmState
from tests.fakes.hypervisor import Hypervisor
from tests.unit.compute.accounting.test_migrations import NEW, OLD, held_on_b, instance, move

NODE = ComputeNode(
    uuid="u",
    host="h",
    hypervisor_hostname="n",
    memory_mb=1000,
    local_gb=100,
    vcpus=10,
    free_ram_mb=1000,
    free_disk_gb=100,
)
EMPTY = NodeUsage(node=NODE)


def used(usage: NodeUsage) -> tuple[int, ...]:
    node = usage.node
    return node.memory_mb_used, node.local_gb_used, node.vcpus_used, node.free_ram_mb, node.free_disk_gb


def test_reserved_amounts_replace_those_before() -> None:
    first = with_reserved(EMPTY, ReservedResources(memory_mb=100, disk_gb=10, vcpus=1))
    assert used(first) == (100, 10, 1, 900, 90)
    second = with_reserved(first, ReservedResources(memory_mb=30, disk_gb=20, vcpus=3))
    assert used(second) == (30, 20, 3, 970, 80)
    assert with_reserved(second, ReservedResources()).node == EMPTY.node
    assert second.reserved == ReservedResources(memory_mb=30, disk_gb=20, vcpus=3)


def test_an_orphan_is_removed_as_an_instance_is() -> None:
    first, second = Usage(memory_mb=50, disk_gb=5, vcpus=2), Usage(memory_mb=7, disk_gb=0, vcpus=0)
    both = with_orphan(with_orphan(EMPTY, "one", first), "two", second)
    assert used(both) == (57, 5, 2, 943, 95)
    left = without_instance(both, "one")
    assert (used(left), left.orphans) == ((7, 0, 0, 993, 100), {"two": second})
    assert msgspec.structs.replace(without_instance(left, "two"), orphans={}) == EMPTY
    assert without_instance(left, "unknown") == left


# Source and destination of `move`.
SOURCE, DEST = ("a", "a1"), ("b", "b1")


def overhead(flavor: object) -> Overhead:
    return Overhead(memory_mb=3)


def step(usage: NodeUsage, row: Instance, migration: Migration, place: tuple[str, str]) -> NodeUsage:
    return after_migration_step(usage, row, migration, place, overhead)


def test_what_a_move_holds_counts_once_and_is_given_back() -> None:
    (side,) = held_on_b(move()).values()
    held = tracked_migration(side, overhead)
    twice = with_migration(with_migration(EMPTY, held), held)
    assert (used(twice), twice.migrations) == ((53, 1, 2, 947, 99), {"m": held})
    assert without_migration(twice, "m") == EMPTY
    assert without_migration(twice, "unknown") == twice


def audited(row: Instance, migration: Migration, place: tuple[str, str]) -> NodeUsage:
    """The usage that an audit finds, with these rows."""
    host, node = place
    inputs = AuditInputs(instances=(row,), moved=(row,), migrations=(migration,))
    settings = NodeSettings(host=host, packing=False)
    return audit_node(
        Hypervisor(node, vcpus=10, memory_mb=1000, local_gb=100).host_view(node),
        inputs,
        settings,
        new_uuid="u",
        overhead=overhead,
    ).node_usage


STATES: dict[str, list[Any]] = {
    "vm_state": [VmState.ACTIVE, VmState.STOPPED, VmState.RESIZED, VmState.ERROR],
    "task_state": [None, TaskState.RESIZE_MIGRATING, TaskState.RESIZE_FINISH, TaskState.DELETING],
    "deleted": [False, True],
    "flavor": [OLD, NEW],
}
ROWS = st.builds(
    lambda place, **changes: instance(host=place[0], node=place[1], **changes),
    place=st.sampled_from([SOURCE, DEST]),
    **{name: st.sampled_from(values) for name, values in STATES.items()},
)
STATUSES = sorted(NOT_IN_PROGRESS | SWITCHED | {"pre-migrating", "migrating", "post-migrating"})
MOVES = st.builds(
    lambda dest, **changes: move(dest_compute=dest[0], dest_node=dest[1], **changes),
    dest=st.sampled_from([SOURCE, DEST]),
    status=st.sampled_from(STATUSES),
    new_numa_topology=st.sampled_from([None, move().new_numa_topology]),
)
PLACES = st.sampled_from([SOURCE, DEST, ("c", "c1")])


@given(ROWS, MOVES, ROWS, MOVES, PLACES)
def test_after_each_step_of_a_move_the_usage_is_that_of_an_audit(
    row_before: Instance, move_before: Migration, row: Instance, migration: Migration, place: tuple[str, str]
) -> None:
    assert step(audited(row_before, move_before, place), row, migration, place) == audited(row, migration, place)


def device(address: str, status: str, owner: str | None = "i") -> PciDevice:
    return PciDevice(address=address, vendor_id="8086", product_id="1", status=status, instance_uuid=owner)


DEVICES = (
    device("old", ALLOCATED),
    device("new", CLAIMED),
    device("gone", REMOVED),
    device("other", CLAIMED, owner="another"),
)
THERE = {"host": "b", "node": "b1"}
MOVED = {"vm_state": VmState.RESIZED, "task_state": None}
OVER: dict[str, Any] = {"task_state": None}
LOCAL = {"dest_compute": "a", "dest_node": "a1"}
AS_BEFORE = {"old": ALLOCATED, "new": CLAIMED, "gone": REMOVED}
NEW_ALSO = AS_BEFORE | {"new": ALLOCATED}
NEW_ALONE = {"old": AVAILABLE, "new": ALLOCATED}
OLD_ALONE = {"old": ALLOCATED, "new": AVAILABLE, "gone": REMOVED}
ALL_FREE = {"old": AVAILABLE, "new": AVAILABLE}


@pytest.mark.parametrize(
    ("row", "changes", "place", "left"),
    [
        pytest.param({}, {}, SOURCE, AS_BEFORE, id="on its way, at the source"),
        pytest.param({}, {}, DEST, AS_BEFORE, id="on its way, at the destination"),
        pytest.param(THERE | MOVED, {"status": "finished"}, SOURCE, AS_BEFORE, id="arrived, at the source"),
        pytest.param(THERE | MOVED, {"status": "finished"}, DEST, NEW_ALSO, id="arrived, at the destination"),
        pytest.param(MOVED, LOCAL | {"status": "finished"}, SOURCE, AS_BEFORE, id="arrived within one node"),
        pytest.param(THERE | OVER, {"status": "confirmed"}, SOURCE, ALL_FREE, id="confirmed, at the source"),
        pytest.param(THERE | OVER, {"status": "confirmed"}, DEST, NEW_ALSO, id="confirmed, at the destination"),
        pytest.param(OVER, LOCAL | {"status": "confirmed"}, SOURCE, NEW_ALONE, id="confirmed within one node"),
        pytest.param(OVER, {"status": "reverted"}, SOURCE, OLD_ALONE, id="reverted, at the source"),
        pytest.param(OVER, {"status": "confirmed"}, SOURCE, OLD_ALONE, id="confirmed, but the row is at the source"),
        pytest.param(OVER, {"status": "reverted"}, DEST, ALL_FREE, id="reverted, at the destination"),
        pytest.param(THERE | OVER, {"status": "error"}, DEST, OLD_ALONE, id="failed, at the destination"),
        pytest.param(OVER, LOCAL | {"status": "error"}, SOURCE, OLD_ALONE, id="failed within one node"),
        pytest.param({"deleted": True}, {}, SOURCE, ALL_FREE, id="deleted on its way"),
    ],
)
def test_devices_follow_the_steps_of_a_move(
    row: dict[str, Any], changes: dict[str, Any], place: tuple[str, str], left: dict[str, str]
) -> None:
    before = NodeUsage(node=with_devices(NODE, DEVICES))
    devices = step(before, instance(**row), move(**changes), place).node.pci_devices
    assert {each.address: each.status for each in devices} == {**left, "other": CLAIMED}
    assert {each.instance_uuid for each in devices if each.status == AVAILABLE} <= {None}


def test_a_new_state_of_an_instance_replaces_the_one_before() -> None:
    before = audited(instance(vm_state=VmState.ACTIVE, task_state=None), move(status="error"), SOURCE)
    stopped = instance(vm_state=VmState.STOPPED, task_state=None)
    after = with_updated_instance(before, stopped)
    assert (before.node.stats["num_vm_active"], after.node.stats["num_vm_stopped"]) == ("1", "1")
    assert after == audited(stopped, move(status="error"), SOURCE)
    assert with_updated_instance(before, instance(uuid="unknown")) == before


@pytest.mark.parametrize("devices", [DEVICES[:1], DEVICES[3:], ()])
def test_only_devices_of_the_instance_are_freed(devices: tuple[PciDevice, ...]) -> None:
    freed = with_freed(NodeUsage(node=with_devices(NODE, devices)), "i").node.pci_devices
    assert {each.address: each.status for each in freed} == {
        each.address: AVAILABLE if each.instance_uuid == "i" else each.status for each in devices
    }
