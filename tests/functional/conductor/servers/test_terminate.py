"""Which hosts a deletion asks, and what it leaves if they do not answer."""

import pytest

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.db import models
from minova.objects.servers.migration import MigrationType
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.conductor.servers.test_finish import moving


def removed(harness: ConductorHarness, uuid: str, host: str) -> None:
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host)


def asked(harness: ConductorHarness) -> dict[str, int]:
    """How often each host was asked to remove a server."""
    return {name: len(host.terminated) for name, host in harness.hosts.items() if host.terminated}


def test_each_host_of_a_move_is_asked_in_turn(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    moving(harness, uuid, MigrationType.RESIZE, "c", "b")
    harness.delete(uuid)
    for asked_before, host in (({"a": 1}, "a"), ({"a": 1, "b": 1}, "b"), ({"a": 1, "b": 1, "c": 1}, "c")):
        assert asked(harness) == asked_before
        assert harness.state(uuid) == "active/deleting on a"
        task = harness.task(uuid)
        assert task is not None
        assert (task.host, task.node, task.payload["asks"]) == (host, f"{host}-node", 1)
        removed(harness, uuid, host)
        # A second report changes nothing.
        removed(harness, uuid, host)
    assert (harness.state(uuid), harness.task(uuid)) == ("deleted/None on a", None)


def test_an_absent_host_of_a_move_is_passed_over(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    moving(harness, uuid, MigrationType.RESIZE, "c", "b")
    harness.force_down("b")
    harness.delete(uuid)
    removed(harness, uuid, "a")
    assert asked(harness) == {"a": 1, "c": 1}
    removed(harness, uuid, "c")
    assert harness.instance(uuid).vm_state == "deleted"


def test_questions_are_counted_and_come_more_rarely(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.delete(uuid)
    for asks, pause in ((2, 15), (3, 30), (4, 60), (5, 120), (6, 120)):
        harness.tick(harness.conductor, pause - 3)
        harness.beat()
        assert asked(harness) == {"a": asks - 1}
        harness.tick(harness.conductor, 4)
        task = harness.task(uuid)
        assert task is not None
        assert (asked(harness), task.payload["asks"]) == ({"a": asks}, asks)


def test_a_reason_is_noted_once_for_each_question(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.delete(uuid)
    report = {"instance_uuid": uuid, "host": "a", "kind": "DiskFull"}
    for host, reason, faults, failed in (
        ("b", "not asked", 0, 0),
        ("a", "disk full", 1, 1),
        ("a", "disk full", 1, 1),
        ("a", "still mounted", 2, 2),
    ):
        harness.conductor.delete_failed(CTX, **{**report, "host": host}, reason=reason)
        assert harness.count(models.InstanceFault) == faults
        events = harness.events(harness.action_id(uuid))
        assert [result for _, _, result in events].count("Error") == failed
    assert harness.fault(uuid) == "DeleteFailed: Host a could not remove the instance yet: still mounted"
    harness.tick(harness.conductor, 16)
    harness.conductor.delete_failed(CTX, **report, reason="still mounted")
    assert harness.count(models.InstanceFault) == 2, "the user knows this reason"
    task = harness.task(uuid)
    assert task is not None
    assert (task.payload["failed"], task.payload["asks"]) == (2, 2)


def test_what_is_not_being_deleted_stays_on_its_host(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    with pytest.raises(errors.StaleAttempt, match="stays on a"):
        harness.conductor.begin_removal(CTX, instance_uuid=uuid, host="a")
    removed(harness, uuid, "a")
    assert harness.state(uuid) == "active/None on a"
    harness.delete(uuid)
    harness.conductor.begin_removal(CTX, instance_uuid=uuid, host="a")
    removed(harness, uuid, "a")
    harness.conductor.begin_removal(CTX, instance_uuid=uuid, host="a")
    with pytest.raises(errors.NotFound):
        harness.conductor.delete_server(new_request(), instance_uuid=uuid)


def test_a_report_that_comes_after_the_deletion_was_given_up_completes_it(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.delete(uuid)
    harness.now += 601
    harness.beat()
    harness.tick(harness.conductor)
    assert harness.state(uuid) == "error/None on a"
    assert "could not remove the instance within 600 s: the host has not answered" in harness.fault(uuid)
    assert (harness.actions(uuid)[-1], harness.task(uuid)) == (("delete", "Error"), None)
    removed(harness, uuid, "b")
    assert harness.state(uuid) == "error/None on a"
    removed(harness, uuid, "a")
    assert (harness.state(uuid), harness.actions(uuid)[-1]) == ("deleted/None on a", ("delete", "Success"))


def test_a_server_in_error_whose_deletion_was_not_asked_for_stays(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state="error")
    removed(harness, uuid, "a")
    assert harness.state(uuid) == "error/None on a"


@pytest.mark.parametrize("ending", ["at once", "reported", "without its host"])
def test_hosts_are_told_once_a_member_of_their_groups_is_gone(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    told: list[set[str]] = []
    monkeypatch.setattr(InterfaceNotifier, "groups_of", lambda notifier, uuid: {uuid})
    monkeypatch.setattr(InterfaceNotifier, "members_changed", lambda notifier, groups: told.append(set(groups)))
    uuid = harness.active("a")
    if ending == "at once":
        harness.force_down("a")
    harness.delete(uuid)
    assert ({uuid} in told) == (ending == "at once")
    if ending == "reported":
        removed(harness, uuid, "a")
    elif ending == "without its host":
        harness.silence("a")
    assert harness.instance(uuid).vm_state == "deleted"
    assert told.count({uuid}) == 1
