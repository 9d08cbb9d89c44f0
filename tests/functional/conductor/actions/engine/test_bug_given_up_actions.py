"""Bug: a conductor ended actions that went on at their hosts: at `action_timeout`, for a host that was silent, and for a
compute that had reported that its hypervisor was away. The guest that started all the same was destroyed by an audit, and
a deletion at that moment left the domain running without a row.

Law: an action ends only by a report of its host, by a cancellation that its host has acknowledged, or when its host is
forced down.
"""

from typing import Any

import pytest

from minova import metrics
from minova.conductor.actions.engine.reports import _ACCEPTED_LATE
from minova.conductor.network.attachments import Attachments
from minova.db import models
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import SOFT_DELETE
from minova.objects.actions.power import STOP
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.rescue import RESCUE
from minova.objects.actions.shelving import SHELVE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.action_arguments import power_state_after
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.nightly import daily

OTHERS = [action for action in RUN_BY_HOSTS if action is not SOFT_DELETE]
DAILY = (STOP, REBUILD, SHELVE, RESCUE)
REASON = "the engine knows no kinds of actions"
SOME, SOME_OTHERS = daily(RUN_BY_HOSTS, DAILY, REASON), daily(OTHERS, DAILY, REASON)


def asked_on(harness: ConductorHarness, uuid: str, action: ServerAction) -> dict[str, Any]:
    """Ask for the action in the first of its states. Returns what its host's reports name."""
    harness.bring_to(uuid, min(action.vm_states))
    return {"instance_uuid": uuid, "action_id": harness.act(uuid, action.kind), "host": "a"}


def let_time_pass(harness: ConductorHarness, seconds: float) -> None:
    """All computes are heard meanwhile, and no action is."""
    until = harness.now + seconds
    while harness.now < until:
        harness.now += 25
        harness.beat()


def message_of(harness: ConductorHarness, action_id: int) -> tuple[str | None, str | None]:
    """What the record of the action says, and the details of its event."""
    with harness.db.read() as session:
        event = session.query(models.InstanceActionEvent).filter_by(action_id=action_id).one()
        return session.get_one(models.InstanceAction, action_id).message, event.details


@pytest.mark.parametrize("action", SOME_OTHERS, ids=lambda action: action.kind)
def test_after_its_time_the_host_is_asked_to_cancel_and_nothing_has_ended(
    harness: ConductorHarness, action: ServerAction
) -> None:
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, action)
    before = harness.state(uuid)
    let_time_pass(harness, 700)
    assert (uuid, action_fields["action_id"]) in harness.hosts["a"].cancellations
    assert (harness.state(uuid), harness.actions(uuid)[-1]) == (before, (action.name, None))
    text, details = message_of(harness, action_fields["action_id"])
    assert text == "The host did not report in time. It is asked to cancel the action."
    assert "Host a has given no sign of life" in str(details)
    power_state = power_state_after(action)
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=power_state)
    vm_state = min(action.vm_states)
    assert harness.state(uuid).startswith(f"{action.after_success(vm_state)}/None")
    assert harness.actions(uuid)[-1] == (action.name, "Success")


def test_a_cancellation_that_the_host_has_acknowledged_ends_the_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_fields: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.act(uuid, "stop"), "host": "a"}
    let_time_pass(harness, 700)
    harness.conductor.action_failed(CTX, **action_fields, reason="it did not begin", kind="HostTooSlow", untouched=True)
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)
    assert "it did not begin" in harness.fault(uuid)


def test_the_time_counts_from_the_last_sign_of_life(harness: ConductorHarness) -> None:
    """A guest with much memory may need more than action_timeout to start."""
    uuid = harness.active()
    harness.bring_to(uuid, VmState.STOPPED)
    action_fields: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.act(uuid, "start"), "host": "a"}
    harness.conductor.begin_action(CTX, **action_fields)
    for _ in range(20):
        let_time_pass(harness, 150)
        harness.conductor.action_progressed(CTX, **action_fields, task_state="")
    assert harness.hosts["a"].cancellations == []
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=1)
    assert harness.state(uuid) == "active/None on a"


def test_nothing_cancels_a_soft_deletion(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, SOFT_DELETE)
    let_time_pass(harness, 700)
    assert harness.hosts["a"].cancellations == []
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=4)
    assert harness.state(uuid) == "soft-delete/None on a"


# -- hosts that are silent, forced down, or without a hypervisor ---------------------------------------------------------


@pytest.mark.parametrize("action", SOME, ids=lambda action: action.kind)
def test_an_action_waits_for_a_silent_host_and_says_so(harness: ConductorHarness, action: ServerAction) -> None:
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, action)
    before = harness.state(uuid)
    harness.silence("a")
    for _ in range(30):
        harness.now += 50
        harness.beat("b", "c")
    assert harness.state(uuid) == before
    assert harness.hosts["a"].cancellations == []
    assert metrics.ACTIONS_WAITING._value.get() == 1
    text, details = message_of(harness, action_fields["action_id"])
    assert text == "The host does not answer. The action waits for it."
    assert details is not None
    assert "Host a is down" in details
    harness.register("a")
    harness.beat("a", "b", "c")
    harness.conductor.action_progressed(CTX, **action_fields, task_state="")
    assert message_of(harness, action_fields["action_id"]) == (None, None)
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=power_state_after(action))
    assert harness.actions(uuid)[-1] == (action.name, "Success")
    assert message_of(harness, action_fields["action_id"]) == (None, None)


def test_a_host_that_is_back_has_the_whole_time_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    stop = harness.act(uuid, "stop")
    harness.silence("a")
    for _ in range(30):
        harness.now += 50
        harness.beat("b", "c")
    harness.hosts["a"].actions.clear()
    harness.register("a")
    for _ in range(5):
        harness.now += 20
        harness.beat()
    assert harness.hosts["a"].actions[0] == ("stop", uuid, stop)
    assert harness.hosts["a"].cancellations == []


def test_a_host_that_is_forced_down_ends_the_action(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "stop")
    harness.silence("a")
    assert harness.state(uuid) == "active/powering-off on a"
    harness.force_down("a")
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)
    assert "forced down" in harness.fault(uuid)


@pytest.mark.parametrize(
    "action", [action for action in RUN_BY_HOSTS if action.accepted_late], ids=lambda action: action.kind
)
def test_a_late_success_is_accepted_while_nothing_has_changed(harness: ConductorHarness, action: ServerAction) -> None:
    """The host was forced down, and was not off."""
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, action)
    harness.force_down("a")
    assert harness.actions(uuid)[-1] == (action.name, "Error")
    for _ in range(2):
        harness.conductor.action_succeeded(CTX, **action_fields, power_state=power_state_after(action))
        assert harness.state(uuid).startswith(f"{action.after_success(min(action.vm_states))}/None")
        assert harness.actions(uuid)[-1] == (action.name, "Success")
    assert message_of(harness, action_fields["action_id"]) == (None, None)


@pytest.mark.parametrize("since", ["another action", "a reset", "a deletion", "another host"])
def test_a_late_success_changes_nothing_once_the_server_has_changed(harness: ConductorHarness, since: str) -> None:
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, STOP)
    harness.force_down("a")
    if since == "a reset":
        harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state="active")
    elif since == "a deletion":
        harness.delete(uuid)
    elif since == "another action":
        harness.force_down("a", forced_down=False)
        harness.acted(uuid, "reboot_hard")
    else:
        action_fields["host"] = "b"
    before = harness.state(uuid)
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=4)
    assert harness.state(uuid) == before


def test_an_action_of_a_host_without_a_service_ends(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.act(uuid, "stop")
    with harness.db.write() as session:
        session.query(models.Service).filter_by(host="a").delete()
    harness.tick(harness.conductor, 20)
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)
    assert "no compute service any more" in harness.fault(uuid)


@pytest.mark.parametrize("action", SOME, ids=lambda action: action.kind)
def test_a_compute_whose_hypervisor_is_away_keeps_its_actions(harness: ConductorHarness, action: ServerAction) -> None:
    uuid = harness.active()
    action_fields = asked_on(harness, uuid, action)
    before = harness.state(uuid)
    harness.cannot_work("a")
    harness.tick(harness.conductor, 10)
    assert harness.state(uuid) == before
    harness.conductor.action_succeeded(CTX, **action_fields, power_state=power_state_after(action))
    assert harness.actions(uuid)[-1] == (action.name, "Success")


@pytest.mark.parametrize("begun_before", [False, True])
def test_a_deletion_waits_for_a_compute_whose_hypervisor_is_away(harness: ConductorHarness, begun_before: bool) -> None:
    uuid = harness.active()
    held = harness.allocated()
    if begun_before:
        harness.delete(uuid)
    harness.cannot_work("a")
    if not begun_before:
        harness.delete(uuid)
    harness.tick(harness.conductor, 20)
    assert (harness.state(uuid), harness.allocated()) == ("active/deleting on a", held)
    assert uuid in harness.hosts["a"].terminated
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.state(uuid).startswith("deleted/None")


def test_a_soft_deletion_asks_a_compute_whose_hypervisor_is_away(harness: ConductorHarness) -> None:
    harness.settings.set_override("reclaim_instance_interval", 3600)
    uuid = harness.active()
    harness.cannot_work("a")
    harness.delete(uuid)
    assert harness.state(uuid) == "active/soft-deleting on a"
    assert harness.hosts["a"].actions[-1][:2] == ("soft_delete", uuid)


def test_ports_that_wait_for_a_new_domain_stay_while_the_old_one_is_kept(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest that runs already may still have their interfaces."""
    uuid = harness.active()
    harness.bring_to(uuid, VmState.STOPPED)
    released = []
    monkeypatch.setattr(Attachments, "release_pending_delete", lambda self, *args: released.append(args))
    for kept in (True, False):
        action_fields: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.act(uuid, "start"), "host": "a"}
        harness.conductor.action_succeeded(CTX, **action_fields, power_state=PowerState.RUNNING, kept=kept)
        assert bool(released) is not kept
        harness.bring_to(uuid, VmState.STOPPED)


@pytest.mark.parametrize("kind", ["stop", "rebuild", "reboot_hard"])
def test_an_action_fails_if_its_host_goes_back_to_a_release_without_it(harness: ConductorHarness, kind: str) -> None:
    """The compute has another process, so nothing works on the action any more. It refuses every message about it."""
    uuid = harness.active()
    harness.act(uuid, kind)
    with harness.db.write() as session:
        session.query(models.Service).filter_by(host="a").update({"version": 0})
    let_time_pass(harness, 100)
    assert (harness.state(uuid), harness.task(uuid)) == ("active/None on a", None)
    assert harness.actions(uuid)[-1][1] == "Error"
    assert "of a release without this action" in harness.fault(uuid)


def test_a_late_reboot_counts_as_a_hard_one_where_both_are_possible() -> None:
    """A soft reboot has the same event, but keeps the interfaces of the guest."""
    accepted = [action.kind for action in _ACCEPTED_LATE["compute_reboot_instance"]]
    assert accepted == ["reboot_hard", "reboot_soft"]
