"""What stands in the tables at each step of an evacuation."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from minova.conductor.servers import evacuations
from minova.db import models
from minova.objects.requests.evacuation import EvacuationRequest
from minova.objects.servers.migration import Migration
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request


def migration_of(harness: ConductorHarness, uuid: str) -> Migration:
    with harness.db.read() as session:
        query = select(models.Migration).where(models.Migration.instance_uuid == uuid)
        row = session.scalars(query.order_by(models.Migration.id.desc())).first()
        assert row is not None
        assert (row.status, row.dest_compute, row.cleanup_host) == (
            row.value.status,
            row.value.dest_compute,
            row.value.cleanup_host,
        )
        return row.value


def evacuating(harness: ConductorHarness, uuid: str, *destinations: str, **request: Any) -> str:
    """Its host is fenced, and the scheduler has chosen these hosts."""
    harness.force_down("a")
    harness.scheduler.order = [*destinations]
    harness.conductor.evacuate_server(new_request(), instance_uuid=uuid, request=EvacuationRequest(**request))
    harness.settle()
    return uuid


def arrive(harness: ConductorHarness, uuid: str, host: str, *, rebuilt: bool = False, power_state: int = 1) -> None:
    harness.claim(host, uuid, attempt=2)
    harness.conductor.build_succeeded(
        CTX, instance_uuid=uuid, attempt=2, host=host, power_state=power_state, rebuilt=rebuilt
    )


def test_the_row_has_its_source_until_the_destination_has_claimed(harness: ConductorHarness) -> None:
    uuid = evacuating(harness, harness.active("a"), "b")
    chosen = migration_of(harness, uuid)
    assert (chosen.status, chosen.source, chosen.dest) == ("accepted", ("a", "a-node"), ("b", "b-node"))
    assert (chosen.attempt, chosen.old_attempt, chosen.switched) == (2, 1, False)
    assert harness.state(uuid) == "active/rebuilding on a"
    harness.claim("b", uuid, attempt=2)
    claimed = migration_of(harness, uuid)
    assert (claimed.status, claimed.switched, claimed.cleanup_host) == ("pre-migrating", True, None)
    assert harness.instance(uuid).host == "b"


@pytest.mark.parametrize(("rebuilt", "details"), [(False, None), (True, evacuations.LOST)])
def test_the_source_owes_a_removal_once_the_server_has_arrived(
    harness: ConductorHarness, rebuilt: bool, details: str | None
) -> None:
    uuid = evacuating(harness, harness.active("a"), "b")
    arrive(harness, uuid, "b", rebuilt=rebuilt)
    done = migration_of(harness, uuid)
    assert (done.status, done.cleanup_host) == ("done", "a")
    assert harness.state(uuid) == "active/None on b"
    assert (harness.task(uuid), harness.actions(uuid)[-1]) == (None, ("evacuate", "Success"))
    with harness.db.read() as session:
        (event,) = session.scalars(
            select(models.InstanceActionEvent).where(models.InstanceActionEvent.action_id == harness.action_id(uuid))
        )
        assert event.details == details


@pytest.mark.parametrize(("stops", "before"), [(False, "stopped"), (True, "active")])
def test_a_server_that_is_to_be_off_arrives_stopped(harness: ConductorHarness, stops: bool, before: str) -> None:
    uuid = harness.active("a")
    if before == "stopped":
        harness.acted(uuid, "stop")
    evacuating(harness, uuid, "b", stops=stops)
    arrive(harness, uuid, "b", power_state=4)
    assert harness.state(uuid) == "stopped/None on b"


def fail(harness: ConductorHarness, uuid: str) -> None:
    harness.fail("b", uuid, attempt=2, retriable=False)


def claim_and_fail(harness: ConductorHarness, uuid: str) -> None:
    harness.claim("b", uuid, attempt=2)
    fail(harness, uuid)


@pytest.mark.parametrize("failing", [fail, claim_and_fail])
def test_after_a_failed_evacuation_the_server_is_as_it_was(
    harness: ConductorHarness, failing: Callable[[ConductorHarness, str], None]
) -> None:
    uuid = harness.active("a")
    before = harness.instance(uuid)
    used = {host: harness.used(host) for host in "ab"}
    evacuating(harness, uuid, "b")
    assert harness.used("b") != used["b"]
    failing(harness, uuid)
    row = harness.instance(uuid)
    assert harness.state(uuid) == "active/None on a"
    assert (row.node, row.attempt, row.numa_topology) == (before.node, before.attempt, before.numa_topology)
    failed = migration_of(harness, uuid)
    assert (failed.status, failed.switched, failed.cleanup_host) == ("error", False, None)
    assert {host: harness.used(host) for host in "ab"} == used
    assert harness.allocated() == {uuid: "a"}
    assert (harness.task(uuid), harness.actions(uuid)[-1]) == (None, ("evacuate", "Error"))
    with harness.db.read() as session:
        reservations = session.scalars(select(models.RequestSpecRow.reservation_id)).all()
    assert reservations == [row.reservation_id]


def test_the_next_destination_is_tried_from_the_source(harness: ConductorHarness) -> None:
    uuid = evacuating(harness, harness.active("a"), "b", "c")
    harness.claim("b", uuid, attempt=2)
    harness.fail("b", uuid, attempt=2)
    again = migration_of(harness, uuid)
    assert (again.dest, again.attempt, again.switched) == (("c", "c-node"), 3, False)
    row = harness.instance(uuid)
    assert (row.host, row.node, row.attempt) == ("a", "a-node", 3)
    assert (harness.used("b")["VCPU"], harness.used("c")["VCPU"]) == (0, 1)


def test_the_debt_ends_when_the_source_has_removed_what_it_had(harness: ConductorHarness) -> None:
    uuid = evacuating(harness, harness.active("a"), "b")
    arrive(harness, uuid, "b")
    assert (harness.used("a")["VCPU"], harness.used("b")["VCPU"]) == (1, 1)
    harness.conductor.evacuation_cleaned(CTX, instance_uuid=uuid, host="a")
    ended = migration_of(harness, uuid)
    assert (ended.status, ended.cleanup_host) == ("completed", None)
    assert (harness.used("a")["VCPU"], harness.used("b")["VCPU"]) == (0, 1)
