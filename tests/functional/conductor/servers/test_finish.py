"""What a deletion leaves of moves, and what the end of a build leaves of it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import literal, select, update

from minova.db import models
from minova.db.servers import migrations
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.servers.migration import Migration, MigrationType
from minova.placement.allocations import claims
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.scheduler.cloud import named

AT = datetime(2026, 1, 1, tzinfo=UTC)


def moving(harness: ConductorHarness, uuid: str, kind: MigrationType, source: str, dest: str, **more: Any) -> str:
    migration = Migration(
        uuid="11111111-0000-4000-8000-000000000000",
        instance_uuid=uuid,
        migration_type=kind,
        status="finished",
        source_compute=source,
        source_node=f"{source}-node",
        dest_compute=dest,
        dest_node=f"{dest}-node",
        old_flavor=FLAVOR,
        new_flavor=FLAVOR,
        **more,
    )
    with harness.db.write() as session:
        migrations.add(session, migration, AT, literal(harness.now))
    return migration.uuid


@pytest.mark.parametrize(
    ("kind", "source", "dest", "absent", "owes"),
    [
        (MigrationType.RESIZE, "a", "b", "", None),
        (MigrationType.RESIZE, "a", "b", "b", "b"),
        (MigrationType.RESIZE, "b", "a", "b", "b"),
        # The destination may have files that no audit finds.
        (MigrationType.MIGRATION, "b", "c", "bc", "c"),
        # Audits find what an evacuation has left.
        (MigrationType.EVACUATION, "b", "a", "b", None),
    ],
)
def test_an_absent_host_owes_the_removal_of_what_a_deleted_server_left_there(
    harness: ConductorHarness, kind: MigrationType, source: str, dest: str, absent: str, owes: str | None
) -> None:
    uuid = harness.active("a")
    migration_uuid = moving(harness, uuid, kind, source, dest)
    for host in absent:
        harness.force_down(host)
    harness.delete(uuid)
    for host in sorted({"a", source, dest} - {*absent}):
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host)
    assert harness.state(uuid) == "deleted/None on a"
    with harness.db.read() as session:
        ended = migrations.find(session, migration_uuid)
        assert ended is not None
        assert (ended.status, ended.cleanup_host) == ("error", owes)
        assert session.scalars(select(models.Allocation)).all() == []


def test_a_failed_build_leaves_no_host_and_no_allocation_and_says_why(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.claim("a", uuid)
    assert harness.used("a")["VCPU"] == 1
    harness.fail("a", uuid, retriable=False, reason="no disk")
    assert harness.state(uuid) == "error/None on None"
    assert harness.instance(uuid).node is None
    assert (harness.task(uuid), harness.allocated(), harness.used("a")["VCPU"]) == (None, {}, 0)
    assert harness.actions(uuid) == [("create", "Error")]
    assert harness.fault(uuid) == "BuildAbortException: a: no disk"


CELLS = InstanceNUMATopology(cells=(InstanceNUMACell(id=0, cpuset=frozenset({0}), memory=512),))


@pytest.mark.parametrize(
    ("source", "topology", "owes", "hold", "holds"),
    [("b", None, "b", "unproven", {"b"}), ("a", CELLS, None, "", set())],
)
def test_a_reset_of_a_moved_server_confirms_its_move(
    harness: ConductorHarness,
    source: str,
    topology: InstanceNUMATopology | None,
    owes: str | None,
    hold: str,
    holds: set[str],
) -> None:
    """The old size is held until the source has removed what it has."""
    uuid = harness.active("a")
    migration_uuid = moving(harness, uuid, MigrationType.RESIZE, source, "a", new_numa_topology=topology)
    claim = claims.AllocationClaim(
        consumer_uuid=migration_uuid, claim_number=1, provider_uuid=named(source), resources={"VCPU": 1}
    )
    with harness.db.write() as session:
        assert claims.claim(session, [claim]) == {}
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(vm_state="resized"))
    harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state="active")
    assert harness.state(uuid) == "active/None on a"
    with harness.db.read() as session:
        ended = migrations.find(session, migration_uuid)
    assert ended is not None
    assert (ended.status, ended.cleanup_host, ended.hold) == ("confirmed", owes, hold)
    allocated = harness.allocated()
    assert allocated.pop(uuid) == "a"
    assert {*allocated.values()} == holds
