"""A PCI device's life over the real conductor, scheduler and trackers: booted, deleted, gone from the host, back again."""

import msgspec
import pytest
from sqlalchemy import select

from minova.db import models
from minova.objects.servers.migration import MigrationType
from minova.objects.servers.states import VmState
from tests.functional.compute.migration_world import FLAVORS, HOSTS, World, flavor

DEVICE = next(flavor for flavor in FLAVORS if flavor.name == "device")
VF = "0000:0a:02."


def row(world: World, uuid: str) -> models.Instance:
    with world.db.read() as session:
        return session.scalars(select(models.Instance).where(models.Instance.uuid == uuid)).one()


def audited(world: World, host: str, gone: frozenset[str] = frozenset()) -> dict[str, tuple[str, str | None]]:
    """{address: (status, owner)} of the host's devices after an audit, in the books and in the rows alike."""
    world.machines[host].gone = gone
    world.computes[host].update_available_resource()
    node = world.tracker(host).node
    assert node is not None
    world.start(host)  # which knows only what was written
    again = world.tracker(host).node
    assert again is not None
    assert again.pci_devices == node.pci_devices
    assert again.pci_device_pools == node.pci_device_pools
    return {pci_device.address: (pci_device.status, pci_device.instance_uuid) for pci_device in node.pci_devices}


def vfs(world: World, host: str) -> int:
    """How many are free, by the pools."""
    node = world.tracker(host).node
    assert node is not None
    return sum(pool.count for pool in node.pci_device_pools if pool.dev_type == "type-VF")


def test_all_devices_are_given_once_and_come_back(world: World) -> None:
    booted = [world.boot(DEVICE) for _ in range(3 * len(HOSTS))]
    assert {row(world, uuid).vm_state for uuid in booted} == {VmState.ACTIVE}
    owners = [owner for host in HOSTS for _, owner in audited(world, host).values() if owner]
    assert sorted(owners) == sorted(booted)
    assert [vfs(world, host) for host in HOSTS] == [0, 0, 0]
    assert row(world, world.boot(DEVICE)).vm_state == VmState.ERROR
    for uuid in booted:
        world.delete(uuid)
    assert [vfs(world, host) for host in HOSTS] == [3, 3, 3]
    assert {status for host in HOSTS for status, _ in audited(world, host).values()} == {"available"}


def test_a_device_that_goes_while_it_is_used_stays_its_owners(world: World) -> None:
    uuid = world.boot(DEVICE)
    host = str(row(world, uuid).host)
    ((address, (status, _)),) = [item for item in audited(world, host).items() if item[1][1] == uuid]
    assert status == "allocated"
    assert audited(world, host, frozenset({address}))[address] == ("removed", uuid)
    assert vfs(world, host) == 2
    assert audited(world, host)[address] == ("allocated", uuid)
    audited(world, host, frozenset({address}))
    world.delete(uuid)
    assert address not in audited(world, host, frozenset({address}))
    assert audited(world, host)[address] == ("available", None)
    assert vfs(world, host) == 3


def test_that_a_used_device_is_gone_is_told_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    uuid = world.boot(DEVICE)
    host = str(row(world, uuid).host)
    ((address, _),) = [item for item in audited(world, host).items() if item[1][1] == uuid]
    caplog.clear()
    # A device without a user is no loss.
    free = next(candidate for candidate in (f"{VF}0", f"{VF}1") if candidate != address)
    world.machines[host].gone = frozenset({address, free})
    for _ in range(3):
        world.computes[host].update_available_resource()
    told = f"PCI device {address} on node {host} is gone or no longer in device_spec: instance {uuid} has it"
    assert [message for message in caplog.messages if "PCI device" in message] == [told]


def test_a_free_device_that_goes_is_forgotten_until_it_is_back(world: World) -> None:
    gone = frozenset({f"{VF}1"})
    assert sorted(audited(world, "a", gone)) == ["0000:0a:00.0", f"{VF}0", f"{VF}2"]
    assert vfs(world, "a") == 2
    assert audited(world, "a")[f"{VF}1"] == ("available", None)
    assert vfs(world, "a") == 3


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("required", VmState.ERROR),
        ("legacy", VmState.ERROR),
        ("socket", VmState.ERROR),
        ("preferred", VmState.ACTIVE),
    ],
)
def test_how_near_a_device_must_be(world: World, policy: str, state: VmState) -> None:
    """The devices are on cell 0 of each host, whose CPUs are all taken."""
    near = flavor("near", 4, 512, hw__cpu_policy="dedicated", pci_passthrough__alias="nic:1")
    filling = [world.boot(near) for _ in HOSTS]
    assert sorted(str(row(world, uuid).host) for uuid in filling) == sorted(HOSTS)
    specs = near.extra_specs | {"hw:pci_numa_affinity_policy": policy}
    uuid = world.boot(msgspec.structs.replace(near, flavorid="far", name="far", vcpus=2, extra_specs=specs))
    assert row(world, uuid).vm_state == state
    if state is VmState.ACTIVE:
        (instance,) = [holds for host in HOSTS if (holds := world.tracker(host).holds(uuid)) is not None]
        assert [cell.id for cell in instance.numa_topology.cells] == [1]
        assert [device.numa_node for device in instance.pci_devices] == [0]


@pytest.mark.parametrize("end", ["confirmed", "reverted"])
@pytest.mark.parametrize("which", ["old", "new"])
def test_a_device_that_goes_and_comes_back_in_a_resize_on_one_host_stays_of_its_side(
    world: World, which: str, end: str
) -> None:
    uuid = world.boot(DEVICE)
    host = str(row(world, uuid).host)
    ((old, _),) = [item for item in audited(world, host).items() if item[1][1] == uuid]
    assert world.move(uuid, MigrationType.RESIZE, host, next(flavor for flavor in FLAVORS if flavor.name == "both"))
    ((new, _),) = [item for item in audited(world, host).items() if item[1] == ("claimed", uuid)]
    gone = frozenset({old if which == "old" else new})
    audited(world, host, gone)
    if end == "reverted":  # back before the end; else after it
        audited(world, host)
    world.step(uuid, "finished")
    world.step(uuid, end)
    has = {address: owner for address, (_, owner) in audited(world, host).items() if owner}
    assert has == {new if end == "confirmed" else old: uuid}
    assert vfs(world, host) == 2
    assert world.violations() == []
