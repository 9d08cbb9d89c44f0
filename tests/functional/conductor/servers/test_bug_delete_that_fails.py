"""A delete that its host could not do stayed `deleting` for ever, and users saw no reason."""

from sqlalchemy import select

from minova.conductor.servers.terminate import BACKOFF
from minova.db import models
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness

REASON = "Failed to terminate process 4711 with SIGKILL: Device or resource busy"


def report_failed_delete(harness: ConductorHarness, uuid: str, reason: str = REASON, host: str = "a") -> None:
    harness.conductor.delete_failed(CTX, instance_uuid=uuid, host=host, reason=reason)


def events(harness: ConductorHarness, uuid: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Of the delete's actions."""
    with harness.db.read() as session:
        event, action = models.InstanceActionEvent, models.InstanceAction
        query = select(event.event, event.host, event.result, event.details).join(action, action.id == event.action_id)
        rows = session.execute(query.where(action.instance_uuid == uuid, action.action == "delete").order_by(event.id))
        return [(row[0], row[1], row[2], row[3]) for row in rows]


def pass_time(harness: ConductorHarness, seconds: float) -> None:
    """While hosts beat. Each beat here does the conductor's periodic work, so it is rarer than a real one."""
    until = harness.now + seconds
    while harness.now < until:
        harness.now += 15.0
        harness.beat()


def test_the_reason_is_seen_at_once(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    report_failed_delete(harness, uuid)
    report_failed_delete(harness, uuid)
    assert harness.state(uuid) == "active/deleting on a"
    assert harness.fault(uuid) == f"DeleteFailed: Host a could not remove the instance yet: {REASON}"
    assert events(harness, uuid) == [("compute_terminate_instance", "a", "Error", REASON)]


def test_a_report_of_another_host_or_of_no_delete_changes_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report_failed_delete(harness, uuid)
    harness.delete(uuid)
    report_failed_delete(harness, uuid, host="b")
    assert harness.fault(uuid) == ""


def test_the_host_is_asked_again_with_growing_pauses(harness: ConductorHarness) -> None:
    assert [BACKOFF.pause(asks) for asks in range(1, 6)] == [15, 30, 60, 120, 120]
    uuid = harness.active()
    harness.delete(uuid)
    requests = harness.hosts["a"].terminated
    counts = []
    for _ in range(6):
        pass_time(harness, 30)
        counts.append(len(requests))
    # At 0, 15, 45 and 105 s.
    assert counts == [2, 3, 3, 4, 4, 4]


def test_at_the_deadline_it_is_in_error_with_the_reason_and_its_delete_may_be_asked_for_again(
    harness: ConductorHarness,
) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    pass_time(harness, 300)
    report_failed_delete(harness, uuid)
    pass_time(harness, 450)
    assert harness.state(uuid) == "error/None on a"
    assert harness.fault(uuid) == f"DeleteFailed: Host a could not remove the instance within 600 s: {REASON}"
    assert harness.actions(uuid) == [("create", "Success"), ("delete", "Error")]
    assert harness.allocated() == {uuid: "a"}
    assert harness.task(uuid) is None
    before = len(harness.hosts["a"].terminated)
    harness.delete(uuid)
    assert harness.state(uuid) == "error/deleting on a"
    assert len(harness.hosts["a"].terminated) == before + 1
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.instance(uuid).vm_state == "deleted"
    assert harness.allocated() == {}


def test_a_host_that_never_says_anything_ends_in_error_too(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    pass_time(harness, 800)
    assert harness.state(uuid) == "error/None on a"
    assert "the host has not answered" in harness.fault(uuid)


def test_the_delete_of_a_build_has_all_its_time_and_asks_the_same_host_again(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    pass_time(harness, 500)
    harness.delete(uuid)
    pass_time(harness, 400)
    assert harness.state(uuid) == "building/deleting on None"
    pass_time(harness, 400)
    assert harness.state(uuid) == "error/None on a"
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.instance(uuid).vm_state == "deleted"


def test_the_death_of_its_host_ends_a_delete_that_waits_long(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    pass_time(harness, 110)
    for _ in range(7):
        harness.now += 15.0
        harness.beat("b", "c")
    assert harness.instance(uuid).vm_state == "deleted"


def test_a_delete_of_the_last_release_gets_all_its_time(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    with harness.db.write() as session:
        task = session.scalars(select(models.Task)).one()
        task.payload = {}
        task.deadline = 0.0
    pass_time(harness, 120)
    assert harness.state(uuid) == "active/deleting on a"
    pass_time(harness, 700)
    assert harness.state(uuid) == "error/None on a"
