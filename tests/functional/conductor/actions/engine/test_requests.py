"""Server actions: states on the way, fences, and recovery at every step."""

from typing import Any

import pytest

from minova import errors
from minova.conductor.hosts.services import LISTENS_AFTER
from minova.db import models
from minova.objects.actions.action import ServerAction
from minova.objects.actions.power import STOP
from minova.objects.actions.power_rules import OFF, STOPS_BY_ITSELF
from minova.objects.actions.shelving import SHELVE_OFFLOAD
from minova.objects.actions.table import BY_KIND, RUN_BY_HOSTS
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.action_arguments import PASSWORD, asked_with, power_state_after
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
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


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_each_action_begins_and_ends_in_its_states_and_leaves_its_record(
    harness: ConductorHarness, action: ServerAction
) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, vm_state := min(action.vm_states))
    held, before = harness.allocated(), len(harness.actions(uuid))
    left = None if action is SHELVE_OFFLOAD else "a"
    action_id = harness.act(uuid, action.kind)
    first = action.progress[0] if action.progress else None
    last = action.steps(first, changes=False)[-1] if action.progress else None
    assert harness.state(uuid) == f"{vm_state}/{first} on a"
    assert harness.hosts["a"].actions[-1] == (action.kind, uuid, action_id)
    for _ in range(2 if action.repeatable else 1):
        harness.conductor.begin_action(CTX, **report(harness, uuid, action_id))
        assert harness.state(uuid) == f"{vm_state}/{last} on a"
    power_state = power_state_after(action)
    succeed(harness, uuid, action_id, power_state)
    assert harness.state(uuid) == f"{action.after_success(vm_state)}/None on {left}"
    assert harness.instance(uuid).power_state == power_state
    assert (harness.allocated(), harness.task(uuid)) == (held if left else {}, None)
    assert harness.actions(uuid)[before:] == [(action.name, "Success")]
    assert harness.events(action_id) == [(action.event, "a", "Success")]


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
@pytest.mark.parametrize("power_state", [None, PowerState.RUNNING, PowerState.SHUTDOWN])
def test_what_is_left_after_a_failure_is_as_the_entry_says(
    harness: ConductorHarness, action: ServerAction, power_state: PowerState | None
) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, vm_state := min(action.vm_states))
    said = report(harness, uuid, harness.act(uuid, action.kind))
    harness.conductor.begin_action(CTX, **said)
    harness.conductor.action_failed(CTX, **said, reason="no", power_state=power_state)
    after = vm_state if action.changes_at is not None else action.after_failure(vm_state, power_state)
    assert harness.state(uuid) == f"{after}/None on a"
    assert f"On host a the server could not be {action.done}: no" in harness.fault(uuid)
    if power_state is not None and action.progress and not (after in STOPS_BY_ITSELF and power_state in OFF):
        assert harness.instance(uuid).power_state == power_state


@pytest.mark.parametrize("before", [VmState.STOPPED, VmState.ACTIVE])
def test_a_server_whose_guest_was_not_touched_is_as_before(harness: ConductorHarness, before: VmState) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, before)
    said = report(harness, uuid, harness.act(uuid, "rescue"))
    harness.conductor.begin_action(CTX, **said)
    harness.conductor.action_failed(CTX, **said, reason="no image", power_state=4, untouched=True)
    assert harness.state(uuid) == f"{before}/None on a"
    assert "no image" in harness.fault(uuid)


def test_what_may_not_be_done_twice_fails_when_its_host_begins_it_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "trigger_crash_dump")
    harness.conductor.begin_action(CTX, **report(harness, uuid, action_id))
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, action_id))
    assert harness.actions(uuid)[-1] == ("trigger_crash_dump", "Error")
    assert "does not know whether it was done" in harness.fault(uuid)
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)


def test_a_guest_that_stops_while_it_is_interrupted_does_not_hold_the_action_up(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "trigger_crash_dump")
    harness.conductor.begin_action(CTX, **report(harness, uuid, action_id))
    harness.report_power(uuid, 4)
    succeed(harness, uuid, action_id, power_state=4)
    assert (harness.state(uuid), harness.task(uuid)) == ("stopped/None on a", None)
    assert ("trigger_crash_dump", "Success") in harness.actions(uuid)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("following", ["reboot_hard", "stop", "pause", "trigger_crash_dump"])
def test_an_action_without_task_states_holds_no_other_up(
    harness: ConductorHarness, following: str, begun: bool
) -> None:
    """The API shows an idle server, so it must take what an idle server takes, as Nova's does."""
    uuid = harness.active()
    dump = report(harness, uuid, harness.act(uuid, "trigger_crash_dump"))
    if begun:
        harness.conductor.begin_action(CTX, **dump)
    later = harness.act(uuid, following)
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **dump)
    harness.conductor.action_succeeded(CTX, **dump, power_state=1)
    assert harness.actions(uuid)[-2][1:] == ("Error",)
    succeed(harness, uuid, later, power_state=1)
    assert harness.actions(uuid)[-1][1:] == ("Success",)
    assert harness.task(uuid) is None


def test_a_host_in_the_middle_of_an_action_learns_whether_it_has_ended(harness: ConductorHarness) -> None:
    uuid = harness.active()
    for kind in ("stop", "trigger_crash_dump"):
        report_fields = report(harness, uuid, harness.act(uuid, kind))
        for again in (False, True, True):
            harness.conductor.begin_action(CTX, **report_fields, again=again)
        harness.conductor.action_failed(CTX, **report_fields, reason="no")
        with pytest.raises(errors.StaleAttempt):
            harness.conductor.begin_action(CTX, **report_fields, again=True)


# -- a hard reboot may be asked for while others are in progress --------------------------------------------------------


@pytest.mark.parametrize("first", ["reboot_soft", "reboot_hard", "pause", "suspend"])
def test_a_hard_reboot_ends_what_is_in_progress(harness: ConductorHarness, first: str) -> None:
    uuid = harness.active()
    earlier = harness.act(uuid, first)
    harness.conductor.begin_action(CTX, **report(harness, uuid, earlier))
    if first == "reboot_hard":
        with pytest.raises(errors.Conflict, match="reboot_started_hard"):
            harness.act(uuid, "reboot_hard")
        return
    later = harness.act(uuid, "reboot_hard")
    assert harness.state(uuid) == "active/rebooting_hard on a"
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, earlier))
    succeed(harness, uuid, earlier)
    harness.conductor.action_failed(CTX, **report(harness, uuid, earlier), reason="too late")
    assert harness.state(uuid) == "active/rebooting_hard on a"
    succeed(harness, uuid, later, power_state=1)
    assert harness.state(uuid) == "active/None on a"
    assert [result for _, result in harness.actions(uuid)] == ["Success", "Error", "Success"]


def test_a_second_hard_reboot_takes_the_place_of_one_that_has_not_begun(harness: ConductorHarness) -> None:
    uuid = harness.active()
    first, second = harness.act(uuid, "reboot_hard"), harness.act(uuid, "reboot_hard")
    succeed(harness, uuid, first, power_state=1)
    assert harness.state(uuid) == "active/rebooting_hard on a"
    succeed(harness, uuid, second, power_state=1)
    assert harness.state(uuid) == "active/None on a"


def test_nothing_else_interrupts_an_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "pause")
    for kind in ("stop", "reboot_soft", "pause", "suspend"):
        with pytest.raises(errors.Conflict, match="task_state pausing"):
            harness.act(uuid, kind)


# -- a host that is down -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stop", "reboot_hard", "pause"])
def test_an_action_on_a_host_that_is_down_is_refused_at_once(harness: ConductorHarness, kind: str) -> None:
    uuid = harness.active()
    for _ in range(8):
        harness.now += 10
        harness.beat("b", "c")
    with pytest.raises(errors.Conflict, match="the compute service of its host is unavailable at this time"):
        harness.act(uuid, kind)
    assert harness.state(uuid) == "active/None on a"
    assert harness.actions(uuid) == [("create", "Success")]
    harness.beat()
    harness.now += 3
    harness.acted(uuid, kind)


def test_arguments_are_sent_again_by_the_conductor_that_takes_over(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    action_id = harness.act(uuid, "reboot_hard")
    harness.kill("one")
    harness.hosts["a"].deaf = False
    harness.now += 31
    harness.start("two")
    harness.settle()
    assert harness.hosts["a"].actions == [("reboot_hard", uuid, action_id)]


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


@pytest.mark.parametrize("kind", ["rescue", "snapshot", "rebuild", "shelve", "reboot_hard"])
def test_a_server_that_is_being_built_is_refused_with_its_state(harness: ConductorHarness, kind: str) -> None:
    (uuid,) = harness.create()
    with pytest.raises(errors.Conflict, match=f"Instance {uuid} is not ready"):
        harness.act(uuid, kind)
    harness.claim("a", uuid)
    name = BY_KIND[kind].name
    with pytest.raises(errors.Conflict, match=f"Cannot '{name}' instance {uuid} while it is in vm_state building"):
        harness.act(uuid, kind)
    assert harness.actions(uuid) == [("create", None)]


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
    harness.report_power(uuid, 4)
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
    assert (
        harness.fault(uuid)
        == f"ServerActionFailed: On host a the server could not be {BY_KIND[name].done}: libvirt is away"
    )


def test_a_host_that_is_too_old_fails_the_action_at_once(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].old = True
    harness.act(uuid, "stop")
    assert harness.state(uuid) == "active/None on a"
    assert f"needs compute {STOP.since['compute']}" in harness.fault(uuid)
    assert harness.actions(uuid)[-1] == ("stop", "Error")


@pytest.mark.parametrize("kind", ["reboot_hard", "rescue", "suspend"])
def test_a_server_whose_host_is_too_old_is_as_before(harness: ConductorHarness, kind: str) -> None:
    """Its host was never asked: nothing has happened to the guest."""
    uuid = harness.active()
    harness.hosts["a"].old = True
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action=kind, arguments=asked_with(BY_KIND[kind]))
    assert harness.state(uuid) == "active/None on a"
    assert "needs compute" in harness.fault(uuid)


def test_a_host_that_seems_too_old_later_may_still_report(harness: ConductorHarness) -> None:
    """The first message has reached it."""
    uuid = harness.active()
    action_id = harness.act(uuid, "reboot_hard")
    harness.hosts["a"].old = True
    harness.now += 20
    harness.beat()
    assert harness.state(uuid) == "active/rebooting_hard on a"
    succeed(harness, uuid, action_id, power_state=1)
    assert harness.state(uuid) == "active/None on a"
    assert harness.actions(uuid)[-1] == ("reboot", "Success")


@pytest.mark.parametrize(("topic", "level"), [("compute", "1.2"), ("conductor", "1.6")])
def test_an_action_is_refused_while_a_service_runs_that_does_not_know_its_states(
    harness: ConductorHarness, topic: str, level: str
) -> None:
    uuid = harness.active()
    harness.conductor.collaborators.actions._levels = lambda: {topic: level}
    with pytest.raises(errors.PeerTooOld, match=f"A server is stopped with {topic} .*has {level}"):
        harness.act(uuid, "stop")
    assert harness.state(uuid) == "active/None on a"
    assert harness.actions(uuid) == [("create", "Success")]


# -- recovery ----------------------------------------------------------------------------------------------------------


def test_a_message_that_was_lost_is_sent_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    stop = harness.act(uuid, "stop")
    harness.hosts["a"].deaf = False
    harness.tick(harness.conductor, 20)
    assert harness.hosts["a"].actions == [("stop", uuid, stop)]


def test_a_host_whose_compute_is_started_again_is_asked_within_seconds(harness: ConductorHarness) -> None:
    """By the conductor that owns the action, whichever it registers with; others wait as long as before."""
    uuid = harness.active()
    harness.scheduler.order = ["b"]
    other = harness.active("b")
    stops = [harness.act(instance_uuid, "stop") for instance_uuid in (uuid, other)]
    harness.tick(harness.conductor, 1)
    actions_by_host = {"a": [("stop", uuid, stops[0])], "b": [("stop", other, stops[1])]}
    assert {name: harness.hosts[name].actions for name in actions_by_host} == actions_by_host
    harness.register("a", harness.start("two"))
    harness.tick(harness.conductor)
    assert {name: harness.hosts[name].actions for name in actions_by_host} == actions_by_host
    harness.tick(harness.conductor, LISTENS_AFTER)
    assert {name: harness.hosts[name].actions for name in actions_by_host} == {
        "a": actions_by_host["a"] * 2,
        "b": actions_by_host["b"],
    }
    harness.conductor.action_succeeded(CTX, **report(harness, uuid, stops[0]), power_state=4)
    assert harness.state(uuid) == "stopped/None on a"


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
    harness.conductor.collaborators.actions.expire(
        uuid, task.action_id, task.epoch, Failure(kind="HostDown", details="a late look")
    )
    assert harness.state(uuid) == "active/powering-off on a"


def test_bug_look_at_an_earlier_action_ends_no_later_one(harness: ConductorHarness) -> None:
    """Both have the same owner, and the epoch of each begins with 1."""
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    task = harness.task(uuid)
    assert task is not None
    succeed(harness, uuid, stop)
    harness.act(uuid, "start")
    harness.conductor.collaborators.actions.expire(
        uuid, task.action_id, task.epoch, Failure(kind="HostDown", details="a late look")
    )
    assert harness.state(uuid) == "stopped/powering-on on a"


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


@pytest.mark.parametrize("is_done", [True, False])
def test_a_guest_that_shuts_down_during_an_action_stops_its_server(harness: ConductorHarness, is_done: bool) -> None:
    """The row must not already say so: then no report of the host would differ from it."""
    uuid = harness.active()
    said = report(harness, uuid, harness.act(uuid, "snapshot"))
    harness.conductor.begin_action(CTX, **said)
    if is_done:
        harness.conductor.action_succeeded(CTX, **said, power_state=PowerState.SHUTDOWN)
    else:
        harness.conductor.action_failed(CTX, **said, reason="no", power_state=PowerState.SHUTDOWN)
    assert harness.state(uuid) == "active/None on a"
    assert harness.instance(uuid).power_state == PowerState.RUNNING
    harness.report_power(uuid, PowerState.SHUTDOWN)
    assert harness.state(uuid) == "stopped/None on a"


# -- secret arguments --------------------------------------------------------------------------------------------------


def test_password_stands_in_no_row_and_its_host_is_asked_once(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "change_password")
    assert [sent.admin_password for sent in harness.hosts["a"].arguments] == [PASSWORD]
    with harness.db.read() as session:
        rows = [str(vars(row)) for model in (models.Task, models.InstanceAction) for row in session.query(model)]
    assert not any(PASSWORD in row for row in rows)
    harness.now += 31
    harness.settle()
    assert harness.hosts["a"].actions == [("change_password", uuid, action_id)]
    assert harness.state(uuid) == "active/updating_password on a"


def test_password_whose_message_is_lost_is_cancelled_after_a_minute(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.hosts["a"].deaf = True
    action_id = harness.act(uuid, "change_password")
    harness.hosts["a"].deaf = False
    for _ in range(4):
        harness.now += 20
        harness.beat()
        harness.tick(harness.conductor)
    assert (uuid, action_id) in harness.hosts["a"].cancellations
    assert harness.hosts["a"].arguments == []
    said = report(harness, uuid, action_id)
    harness.conductor.action_failed(CTX, **said, reason="it did not begin", kind="HostTooSlow", untouched=True)
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)
    assert harness.actions(uuid)[-1] == ("changePassword", "Error")


def test_kind_of_a_failure_stands_in_the_event_of_its_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    said = report(harness, uuid, harness.act(uuid, "change_password"))
    harness.conductor.begin_action(CTX, **said)
    harness.conductor.action_failed(CTX, **said, reason="silent", kind="GuestAgentUnresponsive", power_state=1)
    with harness.db.read() as session:
        event = session.query(models.InstanceActionEvent).order_by(models.InstanceActionEvent.id.desc()).first()
    assert event is not None
    assert (event.kind, harness.fault(uuid).partition(":")[0]) == ("GuestAgentUnresponsive", "ServerActionFailed")
