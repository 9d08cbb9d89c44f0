"""`DELETE /os-services/{id}`: what goes with a service, and what keeps it."""

import pytest
from sqlalchemy import func, select

from minova import errors
from minova.db import models
from minova.objects.migration import MigrationType
from minova.objects.request_spec import Selection
from tests.functional.conductor.desk import CTX, FLAVOR, Desk
from tests.functional.conductor.test_bug_node_renamed import service
from tests.functional.scheduler.cloud import named

OTHERS = ("b", "c")


def delete(desk: Desk, host: str) -> None:
    desk.conductor.delete_service(CTX, service_uuid=service(desk, host).uuid)


def hosts_in(desk: Desk) -> set[str]:
    with desk.db.read() as session:
        nodes = set(session.scalars(select(models.ComputeNode.host)))
        computes = set(session.scalars(select(models.Service.host).where(models.Service.topic == "compute")))
    assert nodes == computes
    return nodes


def test_everything_that_a_host_was_known_by_goes_with_its_compute(desk: Desk) -> None:
    aggregate = desk.conductor.create_aggregate(CTX, name="rack", metadata={})
    desk.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host="a")
    node_id = desk.row("a").id
    desk.beat()
    delete(desk, "a")
    assert hosts_in(desk) == set(OTHERS)
    with desk.db.read() as session:
        assert set(session.scalars(select(models.ResourceProvider.uuid))) == {named(host) for host in OTHERS}
        assert session.scalar(select(func.count(models.Inventory.provider_id.distinct()))) == len(OTHERS)
        assert session.scalars(select(models.AggregateHost)).all() == []
        assert session.scalar(select(func.count(models.Heartbeat.service_id))) == 1 + len(OTHERS)
        last = session.scalars(select(models.HostChange.node_id).order_by(models.HostChange.seq)).all()[-1]
    assert last == node_id


def test_compute_that_hosts_instances_stays(desk: Desk) -> None:
    uuid = desk.active("a")
    with pytest.raises(errors.Conflict, match="Unable to delete compute service that is hosting instances"):
        delete(desk, "a")
    assert hosts_in(desk) == {"a", *OTHERS}
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    delete(desk, "a")
    assert hosts_in(desk) == set(OTHERS)


def test_destination_of_a_migration_in_progress_stays(desk: Desk) -> None:
    uuid = desk.active("a")
    chosen = Selection(host="b", node="b-node", provider_uuid=named("b"), allocation={"VCPU": 1})
    moved = desk.conductor.collaborators.migrations.begin_move(
        uuid, MigrationType.RESIZE, FLAVOR, chosen, claim_number=50
    )
    desk.conductor.claim_move(CTX, migration=moved.migration, node=desk.node("b"))
    with pytest.raises(errors.Conflict, match="Unable to delete compute service that has in-progress migrations"):
        delete(desk, "b")


def test_host_of_a_build_stays(desk: Desk) -> None:
    desk.create()
    with pytest.raises(errors.Conflict, match="instances are being built"):
        delete(desk, "a")


def test_unknown_service_is_not_found(desk: Desk) -> None:
    with pytest.raises(errors.NotFound, match="not found"):
        desk.conductor.delete_service(CTX, service_uuid=named("nothing"))


def test_process_that_still_runs_is_told_to_register_anew(desk: Desk) -> None:
    delete(desk, "a")
    with pytest.raises(errors.NotFound):
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    desk.add_host("a")
    assert hosts_in(desk) == {"a", *OTHERS}


def test_process_whose_service_another_conductor_deleted_is_told_so(desk: Desk) -> None:
    other = desk.start("two")
    desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    other.delete_service(CTX, service_uuid=service(desk, "a").uuid)
    desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    desk.tick(desk.conductor)
    with pytest.raises(errors.NotFound):
        desk.conductor.heartbeat(CTX, host="a", binary="minova-compute")


def test_conductor_service_is_a_row_alone(desk: Desk) -> None:
    conductor = service(desk, "one")
    other = desk.start("two")
    other.collaborators.services.flush()
    desk.conductor.delete_service(CTX, service_uuid=service(desk, "two").uuid)
    with desk.db.read() as session:
        rows = session.scalars(select(models.Service.host).where(models.Service.binary == conductor.binary)).all()
    assert rows == ["one"]
    assert hosts_in(desk) == {"a", *OTHERS}
