"""Server actions: states on the way, fences, and recovery at every step."""

from typing import Any

import pytest

from minova import errors
from minova.db import models
from minova.objects.failures import Failure
from minova.objects.server_actions import STOP
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import named


def report(harness: ConductorHarness, uuid: str, action_id: int, host: str = "a") -> dict[str, Any]:
    return {"instance_uuid": uuid, "action_id": action_id, "host": host}


def succeed(harness: ConductorHarness, uuid: str, action_id: int, power_state: int = 4, host: str = "a") -> None:
    harness.conductor.action_succeeded(CTX, **report(harness, uuid, action_id, host), power_state=power_state)


def test_a_stop_and_a_start_pass_through_novas_states(harness: ConductorHarness) -> None:
    uuid = harness.active()
    held = harness.allocated()
    stop = harness.act(uuid, "stop")
    assert harness.state(uuid) == "active/powering-off on a"
    assert harness.hosts["a"].actions == [("stop", uuid, stop)]
    harness.conductor.begin_action(CTX, **report(harness, uuid, stop))
    succeed(harness, uuid, stop)
    assert harness.state(uuid) == "stopped/None on a"
    assert harness.instance(uuid).power_state == 4
    start = harness.act(uuid, "start")
    assert harness.state(uuid) == "stopped/powering-on on a"
    succeed(harness, uuid, start, power_state=1)
    assert harness.state(uuid) == "active/None on a"
    assert harness.instance(uuid).power_state == 1
    assert harness.allocated() == held
    assert harness.task(uuid) is None
    assert harness.actions(uuid) == [("create", "Success"), ("stop", "Success"), ("start", "Success")]
    assert harness.events(stop) == [("compute_stop_instance", "a", "Success")]
    assert harness.events(start) == [("compute_start_instance", "a", "Success")]


def test_wrong_states_are_refused_and_nothing_is_written(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with pytest.raises(errors.Conflict, match=f"Cannot 'start' instance {uuid} while it is in vm_state active"):
        harness.act(uuid, "start")
    harness.act(uuid, "stop")
    with pytest.raises(errors.Conflict, match=f"Cannot 'stop' instance {uuid} while it is in task_state powering-off"):
        harness.act(uuid, "stop")
    (building,) = harness.create()
    with pytest.raises(errors.Conflict, match=f"Instance {building} is not ready"):
        harness.act(building, "stop")
    assert harness.actions(uuid) == [("create", "Success"), ("stop", None)]
    assert harness.actions(building) == [("create", None)]


def test_a_server_that_is_being_deleted_or_gone_is_refused(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    with pytest.raises(errors.Conflict, match="task_state deleting"):
        harness.act(uuid, "stop")
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    for gone in (uuid, named("never was")):
        with pytest.raises(errors.NotFound):
            harness.act(gone, "stop")


def test_an_unknown_action_is_a_bad_request(harness: ConductorHarness) -> None:
    with pytest.raises(errors.BadRequest, match="dance"):
        harness.act(harness.active(), "dance")


# -- fences ------------------------------------------------------------------------------------------------------------


def test_reports_that_come_twice_or_from_another_host_change_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    succeed(harness, uuid, stop, host="b")
    harness.conductor.action_failed(CTX, **report(harness, uuid, stop, "b"), reason="no business of mine")
    assert harness.state(uuid) == "active/powering-off on a"
    for _ in range(2):
        succeed(harness, uuid, stop)
    harness.conductor.action_failed(CTX, **report(harness, uuid, stop), reason="too late")
    assert harness.state(uuid) == "stopped/None on a"
    assert harness.actions(uuid)[-1] == ("stop", "Success")


def test_a_late_stop_does_not_touch_a_server_that_was_started_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    succeed(harness, uuid, stop)
    start = harness.act(uuid, "start")
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, stop))
    succeed(harness, uuid, stop)
    assert harness.state(uuid) == "stopped/powering-on on a"
    succeed(harness, uuid, start, power_state=1)
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, start))
    assert harness.state(uuid) == "active/None on a"


def test_a_second_stop_is_not_ended_by_the_reports_of_the_first(harness: ConductorHarness) -> None:
    uuid = harness.active()
    first = harness.act(uuid, "stop")
    harness.conductor.action_failed(CTX, **report(harness, uuid, first), reason="busy")
    harness.act(uuid, "stop")
    succeed(harness, uuid, first)
    assert harness.state(uuid) == "active/powering-off on a"


def test_power_states_do_not_end_an_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "stop")
    harness.conductor.report_power_states(CTX, host="a", states={uuid: 4})
    assert harness.state(uuid) == "active/powering-off on a"


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "before"), [("stop", "active/None on a"), ("start", "stopped/None on a")])
def test_a_failure_leaves_the_server_as_before_with_the_reason(
    harness: ConductorHarness, name: str, before: str
) -> None:
    uuid = harness.active()
    if name == "start":
        harness.acted(uuid, "stop")
    action = harness.act(uuid, name)
    harness.conductor.action_failed(CTX, **report(harness, uuid, action), reason="libvirt is away")
    assert harness.state(uuid) == before
    assert harness.task(uuid) is None
    assert harness.actions(uuid)[-1] == (name, "Error")
    assert harness.events(action)[-1][2] == "Error"
    assert harness.fault(uuid) == f"ServerActionFailed: Host a could not {name} the instance: libvirt is away"


def test_a_host_that_is_too_old_fails_the_action_at_once(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].old = True
    harness.act(uuid, "stop")
    assert harness.state(uuid) == "active/None on a"
    assert f"needs compute {STOP.since['compute']}" in harness.fault(uuid)
    assert harness.actions(uuid)[-1] == ("stop", "Error")


@pytest.mark.parametrize(("topic", "level"), [("compute", "1.2"), ("conductor", "1.6")])
def test_an_action_is_refused_while_a_service_runs_that_does_not_know_its_states(
    harness: ConductorHarness, topic: str, level: str
) -> None:
    uuid = harness.active()
    harness.conductor.collaborators.actions._levels = lambda: {topic: level}
    with pytest.raises(errors.PeerTooOld, match=f"stop needs {topic} .*has {level}"):
        harness.act(uuid, "stop")
    assert harness.state(uuid) == "active/None on a"
    assert harness.actions(uuid) == [("create", "Success")]


def test_a_host_that_dies_fails_the_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "stop")
    for _ in range(8):
        harness.now += 10
        harness.beat("b", "c")
    harness.tick(harness.conductor, 10)
    assert harness.state(uuid) == "active/None on a"
    assert "the host is down" in harness.fault(uuid)


def test_a_host_that_never_reports_is_asked_again_until_the_time_is_over(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    for _ in range(14):
        harness.now += 50
        harness.beat()
    assert harness.hosts["a"].actions[:3] == [("stop", uuid, stop)] * 3
    assert harness.state(uuid) == "active/None on a"
    assert "the host has not reported within 600 s" in harness.fault(uuid)


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_a_message_that_was_lost_is_sent_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    stop = harness.act(uuid, "stop")
    harness.hosts["a"].deaf = False
    harness.tick(harness.conductor, 20)
    assert harness.hosts["a"].actions == [("stop", uuid, stop)]


def test_a_restarted_broker_gets_the_message_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    harness.conductor.broker_is_back()
    harness.tick(harness.conductor, 1)
    assert harness.hosts["a"].actions == [("stop", uuid, stop)] * 2


@pytest.mark.parametrize("reported", [False, True])
def test_another_conductor_takes_an_action_over(harness: ConductorHarness, reported: bool) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    stop = harness.act(uuid, "stop")
    harness.kill("one")
    harness.hosts["a"].deaf = False
    if reported:
        succeed(harness, uuid, stop)
    harness.now += 31
    other = harness.start("two")
    harness.settle()
    assert harness.hosts["a"].actions == ([] if reported else [("stop", uuid, stop)])
    other.action_succeeded(CTX, **report(harness, uuid, stop), power_state=4)
    assert harness.state(uuid) == "stopped/None on a"


def test_what_the_former_owner_of_a_task_does_is_void(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "stop")
    task = harness.task(uuid)
    assert task is not None
    harness.now += 31
    harness.start("two")
    harness.settle()
    harness.conductor.collaborators.actions.expire(uuid, task.epoch, Failure(kind="HostDown", details="a late look"))
    assert harness.state(uuid) == "active/powering-off on a"


def test_a_delete_wins_over_a_stop_in_progress(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    harness.delete(uuid)
    assert harness.state(uuid) == "active/deleting on a"
    assert harness.hosts["a"].terminated == [uuid]
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, stop))
    succeed(harness, uuid, stop)
    harness.conductor.action_failed(CTX, **report(harness, uuid, stop), reason="it is being deleted")
    assert harness.state(uuid) == "active/deleting on a"
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.actions(uuid) == [("create", "Success"), ("stop", "Error"), ("delete", "Success")]
    assert harness.count(models.Task) == 0
