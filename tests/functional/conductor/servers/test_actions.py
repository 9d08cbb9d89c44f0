"""Server actions: states on the way, fences, and recovery at every step."""

from typing import Any

import pytest

from minova import errors
from minova.db import models
from tests.functional.conductor.desk import CTX, Desk
from tests.functional.scheduler.cloud import named


def report(desk: Desk, uuid: str, action_id: int, host: str = "a") -> dict[str, Any]:
    return {"instance_uuid": uuid, "action_id": action_id, "host": host}


def succeed(desk: Desk, uuid: str, action_id: int, power_state: int = 4, host: str = "a") -> None:
    desk.conductor.action_succeeded(CTX, **report(desk, uuid, action_id, host), power_state=power_state)


def test_a_stop_and_a_start_pass_through_novas_states(desk: Desk) -> None:
    uuid = desk.active()
    held = desk.allocated()
    stop = desk.act(uuid, "stop")
    assert desk.state(uuid) == "active/powering-off on a"
    assert desk.hosts["a"].actions == [("stop", uuid, stop)]
    desk.conductor.begin_action(CTX, **report(desk, uuid, stop))
    succeed(desk, uuid, stop)
    assert desk.state(uuid) == "stopped/None on a"
    assert desk.instance(uuid).power_state == 4
    start = desk.act(uuid, "start")
    assert desk.state(uuid) == "stopped/powering-on on a"
    succeed(desk, uuid, start, power_state=1)
    assert desk.state(uuid) == "active/None on a"
    assert desk.instance(uuid).power_state == 1
    assert desk.allocated() == held
    assert desk.task(uuid) is None
    assert desk.actions(uuid) == [("create", "Success"), ("stop", "Success"), ("start", "Success")]
    assert desk.events(stop) == [("compute_stop_instance", "a", "Success")]
    assert desk.events(start) == [("compute_start_instance", "a", "Success")]


def test_wrong_states_are_refused_and_nothing_is_written(desk: Desk) -> None:
    uuid = desk.active()
    with pytest.raises(errors.Conflict, match=f"Cannot 'start' instance {uuid} while it is in vm_state active"):
        desk.act(uuid, "start")
    desk.act(uuid, "stop")
    with pytest.raises(errors.Conflict, match=f"Cannot 'stop' instance {uuid} while it is in task_state powering-off"):
        desk.act(uuid, "stop")
    (building,) = desk.create()
    with pytest.raises(errors.Conflict, match=f"Instance {building} is not ready"):
        desk.act(building, "stop")
    assert desk.actions(uuid) == [("create", "Success"), ("stop", None)]
    assert desk.actions(building) == [("create", None)]


def test_a_server_that_is_being_deleted_or_gone_is_refused(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    with pytest.raises(errors.Conflict, match="task_state deleting"):
        desk.act(uuid, "stop")
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    for gone in (uuid, named("never was")):
        with pytest.raises(errors.NotFound):
            desk.act(gone, "stop")


def test_an_unknown_action_is_a_bad_request(desk: Desk) -> None:
    with pytest.raises(errors.BadRequest, match="dance"):
        desk.act(desk.active(), "dance")


# -- fences ------------------------------------------------------------------------------------------------------------


def test_reports_that_come_twice_or_from_another_host_change_nothing(desk: Desk) -> None:
    uuid = desk.active()
    stop = desk.act(uuid, "stop")
    succeed(desk, uuid, stop, host="b")
    desk.conductor.action_failed(CTX, **report(desk, uuid, stop, "b"), reason="no business of mine")
    assert desk.state(uuid) == "active/powering-off on a"
    for _ in range(2):
        succeed(desk, uuid, stop)
    desk.conductor.action_failed(CTX, **report(desk, uuid, stop), reason="too late")
    assert desk.state(uuid) == "stopped/None on a"
    assert desk.actions(uuid)[-1] == ("stop", "Success")


def test_a_late_stop_does_not_touch_a_server_that_was_started_again(desk: Desk) -> None:
    uuid = desk.active()
    stop = desk.act(uuid, "stop")
    succeed(desk, uuid, stop)
    start = desk.act(uuid, "start")
    with pytest.raises(errors.StaleAttempt):
        desk.conductor.begin_action(CTX, **report(desk, uuid, stop))
    succeed(desk, uuid, stop)
    assert desk.state(uuid) == "stopped/powering-on on a"
    succeed(desk, uuid, start, power_state=1)
    with pytest.raises(errors.StaleAttempt):
        desk.conductor.begin_action(CTX, **report(desk, uuid, start))
    assert desk.state(uuid) == "active/None on a"


def test_a_second_stop_is_not_ended_by_the_reports_of_the_first(desk: Desk) -> None:
    uuid = desk.active()
    first = desk.act(uuid, "stop")
    desk.conductor.action_failed(CTX, **report(desk, uuid, first), reason="busy")
    desk.act(uuid, "stop")
    succeed(desk, uuid, first)
    assert desk.state(uuid) == "active/powering-off on a"


def test_power_states_do_not_end_an_action(desk: Desk) -> None:
    uuid = desk.active()
    desk.act(uuid, "stop")
    desk.conductor.report_power_states(CTX, host="a", states={uuid: 4})
    assert desk.state(uuid) == "active/powering-off on a"


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "before"), [("stop", "active/None on a"), ("start", "stopped/None on a")])
def test_a_failure_leaves_the_server_as_before_with_the_reason(desk: Desk, name: str, before: str) -> None:
    uuid = desk.active()
    if name == "start":
        desk.acted(uuid, "stop")
    action = desk.act(uuid, name)
    desk.conductor.action_failed(CTX, **report(desk, uuid, action), reason="libvirt is away")
    assert desk.state(uuid) == before
    assert desk.task(uuid) is None
    assert desk.actions(uuid)[-1] == (name, "Error")
    assert desk.events(action)[-1][2] == "Error"
    assert desk.fault(uuid) == f"ServerActionFailed: Host a could not {name} the instance: libvirt is away"


def test_a_host_that_is_too_old_fails_the_action_at_once(desk: Desk) -> None:
    uuid = desk.active()
    desk.hosts["a"].old = True
    desk.act(uuid, "stop")
    assert desk.state(uuid) == "active/None on a"
    assert "needs compute 1.3" in desk.fault(uuid)
    assert desk.actions(uuid)[-1] == ("stop", "Error")


@pytest.mark.parametrize(("topic", "level"), [("compute", "1.2"), ("conductor", "1.6")])
def test_an_action_is_refused_while_a_service_runs_that_does_not_know_its_states(
    desk: Desk, topic: str, level: str
) -> None:
    uuid = desk.active()
    desk.conductor.collaborators.actions._levels = lambda: {topic: level}
    with pytest.raises(errors.PeerTooOld, match=f"stop needs {topic} .*has {level}"):
        desk.act(uuid, "stop")
    assert desk.state(uuid) == "active/None on a"
    assert desk.actions(uuid) == [("create", "Success")]


def test_a_host_that_dies_fails_the_action(desk: Desk) -> None:
    uuid = desk.active()
    desk.act(uuid, "stop")
    for _ in range(8):
        desk.now += 10
        desk.beat("b", "c")
    desk.tick(desk.conductor, 10)
    assert desk.state(uuid) == "active/None on a"
    assert "the host is down" in desk.fault(uuid)


def test_a_host_that_never_reports_is_asked_again_until_the_time_is_over(desk: Desk) -> None:
    uuid = desk.active()
    stop = desk.act(uuid, "stop")
    for _ in range(14):
        desk.now += 50
        desk.beat()
    assert desk.hosts["a"].actions[:3] == [("stop", uuid, stop)] * 3
    assert desk.state(uuid) == "active/None on a"
    assert "the host has not reported within 600 s" in desk.fault(uuid)


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_a_message_that_was_lost_is_sent_again(desk: Desk) -> None:
    uuid = desk.active()
    desk.hosts["a"].deaf = True
    stop = desk.act(uuid, "stop")
    desk.hosts["a"].deaf = False
    desk.tick(desk.conductor, 20)
    assert desk.hosts["a"].actions == [("stop", uuid, stop)]


def test_a_restarted_broker_gets_the_message_again(desk: Desk) -> None:
    uuid = desk.active()
    stop = desk.act(uuid, "stop")
    desk.conductor.broker_is_back()
    desk.tick(desk.conductor, 1)
    assert desk.hosts["a"].actions == [("stop", uuid, stop)] * 2


@pytest.mark.parametrize("reported", [False, True])
def test_another_conductor_takes_an_action_over(desk: Desk, reported: bool) -> None:
    uuid = desk.active()
    desk.hosts["a"].deaf = True
    stop = desk.act(uuid, "stop")
    desk.kill("one")
    desk.hosts["a"].deaf = False
    if reported:
        succeed(desk, uuid, stop)
    desk.now += 31
    other = desk.start("two")
    desk.settle()
    assert desk.hosts["a"].actions == ([] if reported else [("stop", uuid, stop)])
    other.action_succeeded(CTX, **report(desk, uuid, stop), power_state=4)
    assert desk.state(uuid) == "stopped/None on a"


def test_what_the_former_owner_of_a_task_does_is_void(desk: Desk) -> None:
    uuid = desk.active()
    desk.act(uuid, "stop")
    task = desk.task(uuid)
    assert task is not None
    desk.now += 31
    desk.start("two")
    desk.settle()
    desk.conductor.collaborators.actions.expire(uuid, task.epoch, "a late look")
    assert desk.state(uuid) == "active/powering-off on a"


def test_a_delete_wins_over_a_stop_in_progress(desk: Desk) -> None:
    uuid = desk.active()
    stop = desk.act(uuid, "stop")
    desk.delete(uuid)
    assert desk.state(uuid) == "active/deleting on a"
    assert desk.hosts["a"].terminated == [uuid]
    with pytest.raises(errors.StaleAttempt):
        desk.conductor.begin_action(CTX, **report(desk, uuid, stop))
    succeed(desk, uuid, stop)
    desk.conductor.action_failed(CTX, **report(desk, uuid, stop), reason="it is being deleted")
    assert desk.state(uuid) == "active/deleting on a"
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert desk.actions(uuid) == [("create", "Success"), ("stop", "Error"), ("delete", "Success")]
    assert desk.count(models.Task) == 0
