"""A host without NUMA cells claimed a pinned guest, and the guest ran without its CPUs.

A compute of release 0.1.0 did so in a soak, when it took over a build after a rollback: its fake hypervisor has no cells.
"""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.servers.build import InstanceClaim, refusal
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.moves.begun_moves import begin

CELL = InstanceNUMACell(id=0, pcpuset=frozenset({0, 1}), memory=512, cpu_policy="dedicated")
REQUESTED = InstanceNUMATopology(cells=(CELL,))
PINNED = InstanceNUMATopology(cells=(msgspec.structs.replace(CELL, cpu_pinning=((0, 4), (1, 5))),))
PARTLY = InstanceNUMATopology(cells=(msgspec.structs.replace(CELL, cpu_pinning=((0, 4),)),))


def claim(harness: ConductorHarness, uuid: str, topology: InstanceNUMATopology) -> Any:
    node = harness.node("a", vcpus_used=1, memory_mb_used=512, running_vms=1)
    return harness.conductor.claim_instance(CTX, instance_uuid=uuid, attempt=1, node=node, numa_topology=topology)


@pytest.mark.parametrize("topology", [REQUESTED, PARTLY], ids=["no cell is fitted", "a CPU is left over"])
def test_a_claim_without_pins_is_refused_and_the_next_host_builds(
    harness: ConductorHarness, topology: InstanceNUMATopology
) -> None:
    (uuid,) = harness.create()
    before = harness.row("a").vcpus_used
    with pytest.raises(errors.ComputeResourcesUnavailable, match="a has no host CPUs for") as refused:
        claim(harness, uuid, topology)
    assert (harness.state(uuid), harness.row("a").vcpus_used) == ("building/scheduling on None", before)
    harness.fail("a", uuid, reason=str(refused.value))
    harness.settle()
    harness.build("b", uuid, attempt=2)
    assert harness.state(uuid) == "active/None on b"


def test_others_that_are_claimed_with_it_are_written(harness: ConductorHarness) -> None:
    harness.scheduler.order = ["a"]
    pinned, unpinned, plain = harness.create(3)
    topologies = {pinned: PINNED, unpinned: REQUESTED, plain: None}
    claims = tuple(
        InstanceClaim(ctx=CTX, instance_uuid=uuid, attempt=1, numa_topology=topology)
        for uuid, topology in topologies.items()
    )
    node = harness.node("a", vcpus_used=3, memory_mb_used=1536, running_vms=3)
    first, second, third = harness.conductor.claim_instances(CTX, claims=claims, node=node)
    assert first.instance is not None
    assert first.instance.numa_topology == PINNED
    assert isinstance(refusal(second), errors.ComputeResourcesUnavailable)
    assert third.instance is not None
    assert [harness.state(uuid) for uuid in (pinned, unpinned, plain)] == [
        "building/block_device_mapping on a",
        "building/scheduling on None",
        "building/block_device_mapping on a",
    ]


def test_a_late_claim_is_stale_whatever_it_pins(harness: ConductorHarness) -> None:
    """Else the host counted a failed build."""
    uuid = harness.active()
    with pytest.raises(errors.StaleAttempt):
        claim(harness, uuid, REQUESTED)


def test_a_move_without_pins_is_refused(harness: ConductorHarness) -> None:
    migration = begin(harness, harness.active(), "b")
    unpinned = msgspec.structs.replace(migration, new_numa_topology=REQUESTED)
    with pytest.raises(errors.ComputeResourcesUnavailable):
        harness.conductor.claim_move(CTX, migration=unpinned, node=harness.node("b"))
    with harness.db.read() as session:
        assert session.scalars(select(models.Migration.status)).one() == "accepted"
