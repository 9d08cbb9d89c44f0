"""`DELETE /os-services/{id}`: what goes with a service, and what keeps it."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

from minova import errors
from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.hosts.test_bug_node_renamed import service
from tests.functional.conductor.moves.begun_moves import claimed
from tests.functional.scheduler.cloud import named

OTHERS = ("b", "c")


def delete(harness: ConductorHarness, host: str) -> None:
    harness.conductor.delete_service(CTX, service_uuid=service(harness, host).uuid)


def hosts_in(harness: ConductorHarness) -> set[str]:
    with harness.db.read() as session:
        nodes = set(session.scalars(select(models.ComputeNode.host)))
        computes = set(session.scalars(select(models.Service.host).where(models.Service.topic == "compute")))
    assert nodes == computes
    return nodes


def test_everything_that_a_host_was_known_by_goes_with_its_compute(harness: ConductorHarness) -> None:
    aggregate = harness.conductor.create_aggregate(CTX, name="rack", metadata={})
    harness.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host="a")
    node_id = harness.row("a").id
    harness.beat()
    delete(harness, "a")
    assert hosts_in(harness) == set(OTHERS)
    with harness.db.read() as session:
        assert set(session.scalars(select(models.ResourceProvider.uuid))) == {named(host) for host in OTHERS}
        assert session.scalar(select(func.count(models.Inventory.provider_id.distinct()))) == len(OTHERS)
        assert session.scalars(select(models.AggregateHost)).all() == []
        assert session.scalar(select(func.count(models.Heartbeat.service_id))) == 1 + len(OTHERS)
        last = session.scalars(select(models.HostChange.node_id).order_by(models.HostChange.seq)).all()[-1]
    assert last == node_id


def test_bug_a_later_host_inherited_decisions_about_guests(harness: ConductorHarness) -> None:
    """The order to remove a guest without a row from a dead host was obeyed by the next host of its name: it removed its own copy."""
    at, uuid = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None), named("guest")
    with harness.db.write() as session:
        for number, host in enumerate(("a", "b", None)):
            session.add(
                models.PurgedInstance(uuid=uuid if host == "a" else named(f"purged {number}"), purged_at=at, host=host)
            )
    delete(harness, "a")
    assert harness.count(models.PurgedInstance) == 2
    harness.add_host("a")
    inputs = harness.conductor.begin_audit(CTX, host="a", view=harness.view("a", uuid))
    assert inputs.purged == ()


def test_compute_that_hosts_instances_stays(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    with pytest.raises(errors.Conflict, match="Unable to delete compute service that is hosting instances"):
        delete(harness, "a")
    assert hosts_in(harness) == {"a", *OTHERS}
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    delete(harness, "a")
    assert hosts_in(harness) == set(OTHERS)


def test_destination_of_a_migration_in_progress_stays(harness: ConductorHarness) -> None:
    claimed(harness, harness.active("a"), "b")
    with pytest.raises(errors.Conflict, match="Unable to delete compute service that has in-progress migrations"):
        delete(harness, "b")


def test_host_of_a_build_stays(harness: ConductorHarness) -> None:
    harness.create()
    with pytest.raises(errors.Conflict, match="instances are being built"):
        delete(harness, "a")


def test_unknown_service_is_not_found(harness: ConductorHarness) -> None:
    with pytest.raises(errors.NotFound, match="not found"):
        harness.conductor.delete_service(CTX, service_uuid=named("nothing"))


def test_process_that_still_runs_is_told_to_register_anew(harness: ConductorHarness) -> None:
    delete(harness, "a")
    with pytest.raises(errors.NotFound):
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    harness.add_host("a")
    assert hosts_in(harness) == {"a", *OTHERS}


def test_process_whose_service_another_conductor_deleted_is_told_so(harness: ConductorHarness) -> None:
    other = harness.start("two")
    harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    other.delete_service(CTX, service_uuid=service(harness, "a").uuid)
    harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    harness.tick(harness.conductor)
    with pytest.raises(errors.NotFound):
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")


def test_conductor_service_is_a_row_alone(harness: ConductorHarness) -> None:
    conductor = service(harness, "one")
    other = harness.start("two")
    other.collaborators.services.flush()
    harness.conductor.delete_service(CTX, service_uuid=service(harness, "two").uuid)
    with harness.db.read() as session:
        rows = session.scalars(select(models.Service.host).where(models.Service.binary == conductor.binary)).all()
    assert rows == ["one"]
    assert hosts_in(harness) == {"a", *OTHERS}
