"""What a deletion leaves of moves, and what the end of a build leaves of it."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import literal, select

from minova.db import models
from minova.db.servers import migrations
from minova.objects.servers.migration import Migration, MigrationType
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness

AT = datetime(2026, 1, 1, tzinfo=UTC)


def moving(harness: ConductorHarness, uuid: str, kind: MigrationType, source: str, dest: str) -> str:
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
