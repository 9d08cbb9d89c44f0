"""A figure of a node that its row cannot hold failed the write of all the others, at each audit."""

import msgspec

from minova.objects.hosts.compute_node import MAX_CAPACITY
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, inventories_of

TOO_MUCH = 1 << 40


def test_audit_writes_the_nearest_figures(harness: ConductorHarness) -> None:
    node = harness.node("a", disk_available_least=-TOO_MUCH, free_disk_gb=TOO_MUCH, running_vms=3)
    answered = harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node))
    row = harness.row("a")
    assert (row.disk_available_least, row.free_disk_gb, row.running_vms) == (-MAX_CAPACITY, MAX_CAPACITY, 3)
    assert answered.disk_available_least == -MAX_CAPACITY
    # The same figures again are no change.
    generation = row.generation
    harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node))
    assert harness.row("a").generation == generation


def test_first_audit_and_each_save_write_the_nearest_figures(harness: ConductorHarness) -> None:
    node = harness.node("a", disk_available_least=-TOO_MUCH)
    new = msgspec.structs.replace(node, hypervisor_hostname="a2", uuid="6f1c9d2e-5f0a-4b53-9d0b-5a1f4f0d7c11", id=0)
    harness.conductor.finish_audit(CTX, node=new, inventories=inventories_of(new))
    saved = harness.conductor.save_compute_node(CTX, node=msgspec.structs.replace(new, disk_available_least=TOO_MUCH))
    assert saved.disk_available_least == MAX_CAPACITY


def test_figure_that_is_not_known_stays_so(harness: ConductorHarness) -> None:
    node = harness.node("a", disk_available_least=None)
    harness.conductor.finish_audit(CTX, node=node, inventories=inventories_of(node))
    assert harness.row("a").disk_available_least is None
