"""After a rename running guests keep their pinned CPUs and functions, and the next guest gets others."""

from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select

from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.host_identity import LocalIdentity
from minova.compute.images.source import ImageSource
from minova.compute.manager import ComputeManager
from minova.conductor.hosts import rename as host_rename
from minova.db import models
from minova.objects.hosts.compute_node import ComputeNode
from tests.functional.compute.migration_world import FLAVORS, World, options_of

BOTH = next(flavor for flavor in FLAVORS if flavor.name == "both")
LONG = "a.example.com"


def start(world: World, machine: str, host: str, folder: Path) -> ComputeManager:
    """A compute with an identity on its disk, on the hypervisor of a machine."""
    identity = LocalIdentity(folder)
    world.computes[host] = manager = make_compute_manager(
        options_of(host, folder.parent),
        cast(Any, world.machines[machine]),
        cast(Any, world.conductor),
        host=host,
        images=cast(ImageSource, None),
        clock=lambda: world.now,
        spawn=world.waiting.append,
        identity=identity,
    )
    try:
        manager.init_host()
        manager.pre_start_hook()
    finally:
        identity.release()
    world.settle()
    return manager


def rename_machine(world: World, machine: str, node: str) -> None:
    hypervisor = world.machines[machine]
    hypervisor.nodes = (node,)
    hypervisor._domains = {uuid: (node, view) for uuid, (_, view) in hypervisor._domains.items()}


def rename(world: World, old: str, new: str, node: str | None = None) -> host_rename.Renaming:
    return world.db.run(lambda session: host_rename.rename(session, old, new, node, down_time=60.0, now=world.db.now()))


def held_by(node: ComputeNode) -> tuple[list[set[int]], dict[str, str | None]]:
    assert node.numa_topology is not None
    pinned = [set(cell.pinned_cpus) for cell in node.numa_topology.cells]
    return pinned, {device.address: device.instance_uuid for device in node.pci_devices}


def boot_on(world: World, host: str) -> str:
    """Guests until one is on the host."""
    for _ in range(6):
        uuid = world.boot(BOTH)
        if any(row.uuid == uuid and row.host == host for row in world.instances()):
            return uuid
    raise AssertionError(f"no guest on {host}")


@pytest.mark.parametrize(("new", "node"), [("a", LONG), ("z", LONG), ("z", None)])
def test_renamed_host_keeps_what_its_guests_hold(world: World, tmp_path: Path, new: str, node: str | None) -> None:
    disk = tmp_path / "disk-of-a"
    start(world, "a", "a", disk)
    uuid = boot_on(world, "a")
    before = world.tracker("a").node
    rename_machine(world, "a", node or new)
    with pytest.raises(errors.HostIdentityConflict, match=f"rename a {new}"):
        start(world, "a", new, disk)
    world.now += 100.0
    assert rename(world, "a", new, node).nodes == {"a": node or new}
    start(world, "a", new, disk)
    after = tracked_node(world, new, node or new)
    assert (after.uuid, after.id, held_by(after)) == (before.uuid, before.id, held_by(before))
    with world.db.read() as session:
        nodes = set(session.scalars(select(models.ComputeNode.hypervisor_hostname)))
        providers = set(session.scalars(select(models.ResourceProvider.name)))
        row = session.scalars(select(models.Instance).where(models.Instance.uuid == uuid)).one()
    assert nodes == providers == {node or new, "b", "c"}
    assert (row.host, row.node) == (new, node or new)
    second = boot_on(world, new)
    pinned, owners = held_by(tracked_node(world, new, node or new))
    assert sum(map(len, pinned)) == 4
    assert {uuid, second} <= set(owners.values())


def tracked_node(world: World, host: str, node: str) -> ComputeNode:
    node_row = world.computes[host]._nodes.tracker(node).node
    assert node_row is not None
    return node_row


def test_host_that_is_up_is_not_renamed(world: World) -> None:
    with pytest.raises(errors.Conflict, match="Stop it first"):
        rename(world, "a", "z")
