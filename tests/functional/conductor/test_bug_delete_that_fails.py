"""A delete that its host could not do stayed `deleting` for ever, and users saw no reason."""

from sqlalchemy import select

from minova.conductor.servers.terminate import ASK_AGAIN, LONGEST_PAUSE, pause_after
from minova.db import models
from tests.functional.conductor.desk import CTX, Desk

REASON = "Failed to terminate process 4711 with SIGKILL: Device or resource busy"


def fails(desk: Desk, uuid: str, reason: str = REASON, host: str = "a") -> None:
    desk.conductor.delete_failed(CTX, instance_uuid=uuid, host=host, reason=reason)


def events(desk: Desk, uuid: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """Of the delete's actions."""
    with desk.db.read() as session:
        event, action = models.InstanceActionEvent, models.InstanceAction
        query = select(event.event, event.host, event.result, event.details).join(action, action.id == event.action_id)
        rows = session.execute(query.where(action.instance_uuid == uuid, action.action == "delete").order_by(event.id))
        return [(row[0], row[1], row[2], row[3]) for row in rows]


def pass_time(desk: Desk, seconds: float) -> None:
    """While hosts beat."""
    until = desk.now + seconds
    while desk.now < until:
        desk.now += 5.0
        desk.beat()


def test_the_reason_is_seen_at_once(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    fails(desk, uuid)
    fails(desk, uuid)
    assert desk.state(uuid) == "active/deleting on a"
    assert desk.fault(uuid) == f"DeleteFailed: Host a could not remove the instance yet: {REASON}"
    assert events(desk, uuid) == [("compute_terminate_instance", "a", "Error", REASON)]


def test_a_report_of_another_host_or_of_no_delete_changes_nothing(desk: Desk) -> None:
    uuid = desk.active()
    fails(desk, uuid)
    desk.delete(uuid)
    fails(desk, uuid, host="b")
    assert desk.fault(uuid) == ""


def test_the_host_is_asked_again_with_growing_pauses(desk: Desk) -> None:
    assert [pause_after(asks) for asks in range(1, 6)] == [15, 30, 60, 120, 120]
    assert (ASK_AGAIN, LONGEST_PAUSE) == (15, 120)
    uuid = desk.active()
    desk.delete(uuid)
    asked = desk.hosts["a"].terminated
    counts = []
    for _ in range(6):
        pass_time(desk, 30)
        counts.append(len(asked))
    # At 0, 15, 45 and 105 s.
    assert counts == [2, 3, 3, 4, 4, 4]


def test_at_the_deadline_it_is_in_error_with_the_reason_and_its_delete_may_be_asked_for_again(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    pass_time(desk, 300)
    fails(desk, uuid)
    pass_time(desk, 450)
    assert desk.state(uuid) == "error/None on a"
    assert desk.fault(uuid) == f"DeleteFailed: Host a could not remove the instance within 600 s: {REASON}"
    assert desk.actions(uuid) == [("create", "Success"), ("delete", "Error")]
    assert desk.allocated() == {uuid: "a"}
    assert desk.task(uuid) is None
    before = len(desk.hosts["a"].terminated)
    desk.delete(uuid)
    assert desk.state(uuid) == "error/deleting on a"
    assert len(desk.hosts["a"].terminated) == before + 1
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert desk.instance(uuid).vm_state == "deleted"
    assert desk.allocated() == {}


def test_a_host_that_never_says_anything_ends_in_error_too(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    pass_time(desk, 800)
    assert desk.state(uuid) == "error/None on a"
    assert "the host has not answered" in desk.fault(uuid)


def test_the_delete_of_a_build_has_all_its_time_and_asks_the_same_host_again(desk: Desk) -> None:
    (uuid,) = desk.create()
    pass_time(desk, 500)
    desk.delete(uuid)
    pass_time(desk, 400)
    assert desk.state(uuid) == "building/deleting on None"
    pass_time(desk, 400)
    assert desk.state(uuid) == "error/None on a"
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert desk.instance(uuid).vm_state == "deleted"


def test_the_death_of_its_host_ends_a_delete_that_waits_long(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    pass_time(desk, 110)
    for _ in range(20):
        desk.now += 5.0
        desk.beat("b", "c")
    assert desk.instance(uuid).vm_state == "deleted"


def test_a_delete_of_the_last_release_gets_all_its_time(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    with desk.db.write() as session:
        task = session.scalars(select(models.Task)).one()
        task.payload = {}
        task.deadline = 0.0
    pass_time(desk, 120)
    assert desk.state(uuid) == "active/deleting on a"
    pass_time(desk, 700)
    assert desk.state(uuid) == "error/None on a"
