"""The next audit finds and reports what was changed without minova; it mends what hurts no running guest."""

import logging
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete, insert, select, update

from minova.db import models
from minova.metrics import REGISTRY
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.servers.migration import MigrationType
from minova.objects.servers.states import PowerState
from minova.placement.allocations import writes
from tests.functional.compute.migration_world import CTX, FLAVORS, World

BY_NAME = {flavor.name: flavor for flavor in FLAVORS}
STRANGER = "99999999-0000-4000-8000-000000000001"


def boot(world: World, name: str = "small") -> tuple[str, str]:
    """An instance, and its host."""
    uuid = world.boot(BY_NAME[name])
    (row,) = (row for row in world.instances() if row.uuid == uuid)
    assert row.host is not None
    return uuid, row.host


def audit(world: World, host: str) -> NodeAudit:
    answer = world.computes[host].audit_node(CTX, host)
    world.settle()
    world.computes[host].report_changes()
    return answer


def change(world: World, *statements: Any) -> None:
    with world.db.write() as session:
        for statement in statements:
            session.connection().execute(statement)


def corrected_figures(told: NodeAudit) -> set[str]:
    return {drift.figure for drift in told.corrected}


def corrections(figure: str) -> float:
    return REGISTRY.get_sample_value("minova_audit_corrections_total", {"resource": figure}) or 0.0


def node_of(world: World, host: str) -> ComputeNode:
    node: ComputeNode = world.tracker(host).node
    return node


def in_order_again(world: World, host: str) -> None:
    """The next audit finds nothing more to correct, and all books agree."""
    assert audit(world, host).corrected == ()
    assert world.violations() == []


def test_a_domain_started_behind_minovas_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.machines["a"].add_domain(STRANGER, "a", 700, ours=False)
    answer = audit(world, "a")
    assert answer.orphans == {STRANGER: 700}
    assert "memory_mb_used" in corrected_figures(answer)
    assert f"Domain {STRANGER} on node a holds 700 MB" in caplog.text
    assert world.machines["a"].power_state(STRANGER) is PowerState.RUNNING


@pytest.mark.parametrize(
    ("edit", "figure"),
    [
        ({"memory_mb_used": 7}, "row's memory_mb_used"),
        ({"vcpus_used": 99}, "row's vcpus_used"),
        ({"running_vms": 42}, "row's running_vms"),
        ({"memory_mb": 1}, "row's memory_mb"),
        ({"free_disk_gb": -1}, "row's free_disk_gb"),
        ({"numa_topology": None}, "row's pinned_cpus"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_edited_row_of_a_node(
    world: World, edit: dict[str, Any], figure: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, host = boot(world, "pinned")
    audit(world, host)
    before = corrections(figure)
    change(world, update(models.ComputeNode).where(models.ComputeNode.host == host).values(edit))
    assert corrected_figures(audit(world, host)) == {figure}
    assert corrections(figure) == before + 1
    assert f"The audit of node {host} corrected {figure}" in caplog.text
    in_order_again(world, host)


def test_a_deleted_row_of_a_node(world: World) -> None:
    _, host = boot(world)
    change(world, delete(models.ComputeNode).where(models.ComputeNode.host == host))
    assert corrected_figures(audit(world, host)) == {"row"}
    in_order_again(world, host)


def test_an_edited_host_of_an_instance_costs_no_guest(world: World, caplog: pytest.LogCaptureFixture) -> None:
    uuid, host = boot(world)
    other = "b" if host == "a" else "a"
    of_instance = update(models.Instance).where(models.Instance.uuid == uuid)
    change(world, of_instance.values(host=other, node=other))
    answer = audit(world, host)
    assert uuid in answer.orphans
    assert "memory_mb_used" not in corrected_figures(answer)  # the domain holds what the instance did
    assert "vcpus_used" not in corrected_figures(answer), "the guest uses its CPUs, whatever its row says"
    assert f"the domain of instance {uuid} is here, but its row says host {other}" in " ".join(answer.conflicts)
    assert world.machines[host].power_state(uuid) is PowerState.RUNNING
    answer = audit(world, other)
    assert uuid in answer.power_states
    assert f"allocation on the wrong provider: {uuid}" in " ".join(answer.conflicts)
    assert "Left to minova-manage" in caplog.text
    change(world, of_instance.values(host=host, node=host, power_state=int(PowerState.RUNNING)))
    audit(world, host)
    audit(world, other)
    in_order_again(world, host)


def test_an_allocation_on_another_node_comes_back_to_the_node_of_the_guest(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    uuid, host = boot(world)
    other = "b" if host == "a" else "a"
    move_allocation(world, uuid, other)
    answer = audit(world, host)
    assert corrected_figures(answer) == {"allocations"}
    assert f"{uuid} holds" in caplog.text
    in_order_again(world, host)
    in_order_again(world, other)


def test_it_comes_back_to_a_node_that_is_full_meanwhile(world: World) -> None:
    """The guest runs there, with room or without: the usage must say so."""
    uuid, host = boot(world)
    other = "b" if host == "a" else "a"
    move_allocation(world, uuid, other)
    root = select(models.ResourceProvider.id).where(models.ResourceProvider.name == host).scalar_subquery()
    filled = update(models.Inventory).where(models.Inventory.provider_id == root)
    full = {"total": 0, "capacity": 0}
    change(world, filled.values(full))
    assert corrected_figures(audit(world, host)) == {"allocations"}
    with world.db.read() as session:
        held = session.scalars(select(models.Allocation.provider_id).where(models.Allocation.consumer_uuid == uuid))
        assert set(held) == {session.scalar(select(root))}


def move_allocation(world: World, uuid: str, to: str) -> None:
    """As a duplicated request did, with the usage of both nodes."""
    provider = select(models.ResourceProvider.uuid).where(models.ResourceProvider.name == to)
    with world.db.read() as session:
        at = session.scalar(provider)
        held = select(models.Allocation.resource_class, models.Allocation.used)
        resources = {row[0]: row[1] for row in session.execute(held.where(models.Allocation.consumer_uuid == uuid))}
    consumer_allocations = writes.ConsumerAllocations(
        consumer_uuid=uuid, allocations={str(at): resources}, consumer_type="INSTANCE"
    )
    world.db.run(lambda session: writes.replace(session, [consumer_allocations]))


def test_an_edited_flavor_of_an_instance(world: World, caplog: pytest.LogCaptureFixture) -> None:
    uuid, host = boot(world, "large")
    of_instance = update(models.Instance).where(models.Instance.uuid == uuid)
    change(world, of_instance.values(flavor=BY_NAME["small"]))
    answer = audit(world, host)
    assert {"memory_mb_used", "vcpus_used", "allocations"} <= corrected_figures(answer)
    assert answer.conflicts == (f"the domain of instance {uuid} has 1024 MB, its flavor 256 MB",)
    assert answer.conflicts[0] in caplog.text
    assert audit(world, host).corrected == ()
    change(world, of_instance.values(flavor=BY_NAME["large"]))
    assert audit(world, host).conflicts == ()
    in_order_again(world, host)


HELD = models.Allocation


@pytest.mark.parametrize(
    "damage",
    [
        delete(HELD),
        delete(HELD).where(HELD.resource_class == "VCPU"),
        update(HELD).where(HELD.resource_class == "MEMORY_MB").values(used=1),
        update(HELD).where(HELD.resource_class == "MEMORY_MB").values(used=3000),
        update(models.Inventory).where(models.Inventory.resource_class == "VCPU").values(used=0),
    ],
    ids=["deleted", "a part deleted", "less", "more", "used"],
)
def test_damaged_allocations_are_restored(world: World, damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    _, host = boot(world)
    before = corrections("allocations")
    change(world, damage)
    answer = audit(world, host)
    assert corrected_figures(answer) == {"allocations"}
    assert corrections("allocations") == before + len(answer.corrected)
    assert f"The audit of node {host} restored allocations" in caplog.text
    in_order_again(world, host)


def test_an_allocation_without_room_is_told_of_until_there_is_some(world: World) -> None:
    uuid, host = boot(world)
    change(
        world,
        delete(HELD),
        update(models.Inventory).where(models.Inventory.resource_class == "VCPU").values(used=0),
    )
    other = next(iter({"a", "b", "c"} - {host}))
    node = select(models.ResourceProvider.id).where(models.ResourceProvider.uuid == node_of(world, host).uuid)
    full = {"provider_id": node.scalar_subquery(), "resource_class": "VCPU", "used": 8}
    stranger = {"uuid": STRANGER, "consumer_type": "OTHER", "project_id": "", "user_id": ""}
    change(world, insert(models.Consumer).values(stranger))
    change(world, insert(HELD).values(consumer_uuid=STRANGER, **full))
    for _ in range(2):
        assert any(f"instance without allocation: {uuid}" in conflict for conflict in audit(world, host).conflicts)
    change(world, delete(HELD).where(HELD.consumer_uuid == STRANGER))
    assert audit(world, host).conflicts == ()
    in_order_again(world, host)
    assert audit(world, other).corrected == ()


def test_an_instance_that_is_being_moved_is_left_alone(world: World) -> None:
    uuid, host = boot(world)
    dest = "b" if host == "a" else "a"
    assert world.move(uuid, MigrationType.LIVE_MIGRATION, dest, BY_NAME["small"])
    change(world, update(HELD).where(HELD.resource_class == "MEMORY_MB").values(used=255))
    for where in (host, dest):
        answer = audit(world, where)
        assert all("used" in drift.kept for drift in answer.corrected)  # the sums, not what the two hold


def test_an_edited_row_of_a_device_takes_it_from_no_guest(world: World) -> None:
    uuid, host = boot(world, "device")
    audit(world, host)
    device = models.PciDevice
    with world.db.read() as session:
        mine = session.scalars(select(device).where(device.instance_uuid == uuid)).one()
    free = msgspec.structs.replace(mine.value, status="available", instance_uuid=None)
    of_instance = update(device).where(device.instance_uuid == uuid)
    change(world, of_instance.values(instance_uuid=None, value=free))
    assert corrected_figures(audit(world, host)) == {"row's pci_devices"}
    assert [
        pci_device.address for pci_device in node_of(world, host).pci_devices if pci_device.instance_uuid == uuid
    ] == [mine.address]
    in_order_again(world, host)


@pytest.mark.parametrize("state", [PowerState.SHUTDOWN, PowerState.NOSTATE], ids=["shut off from inside", "gone"])
def test_a_killed_guest(world: World, state: PowerState, caplog: pytest.LogCaptureFixture) -> None:
    uuid, host = boot(world)
    caplog.set_level(logging.INFO)
    machine = world.machines[host]
    if state is PowerState.NOSTATE:
        machine.destroy(uuid)
    else:
        machine.add_domain(uuid, host, 256, attempt=1, running=False)
    assert audit(world, host).power_states == (uuid,)
    assert f"The guest of instance {uuid} on node {host} is not as its row says: active, RUNNING" in caplog.text
    (row,) = world.instances()
    assert row.power_state == state
    assert audit(world, host).power_states == ()
    assert world.violations() == []
