"""A guest that stands still or crashes: its server shows a fault, a record without a user, and the way out."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update

from minova import errors
from minova.api.compute.servers.view import shows_fault
from minova.db import models
from minova.db.api_queries import instances
from minova.objects.guests.guest_states import GuestReason
from minova.objects.servers.states import PowerState, VmState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def report(harness: ConductorHarness, uuid: str, state: PowerState, reason: GuestReason = GuestReason.NONE) -> None:
    harness.report_power(uuid, state, reason)


def fault(harness: ConductorHarness, uuid: str) -> str | None:
    """Returns the text of the fault that is shown."""
    with harness.db.read() as session:
        row = instances.instance(session, uuid, None)
        assert row is not None
        faults = instances.last_faults(session, [uuid])
        return faults[uuid].message if shows_fault(row) and uuid in faults else None


def record(harness: ConductorHarness, uuid: str) -> tuple[str, str | None, str, str | None]:
    """Returns action, result, user and message of the newest record."""
    with harness.db.read() as session:
        model = models.InstanceAction
        query = select(model).where(model.instance_uuid == uuid).order_by(model.id.desc()).limit(1)
        row = session.scalars(query).one()
        assert row.finish_time is not None
        return row.action, row.result, row.user_id, row.message


FULL = "The guest stands still, because a disk of its host is full."


def test_bug_guest_with_a_full_disk_is_active_without_a_word(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.PAUSED, GuestReason.DISK_FULL)
    report(harness, uuid, PowerState.PAUSED, GuestReason.DISK_FULL)
    assert harness.state(uuid) == "active/None on a"
    assert fault(harness, uuid) == FULL
    assert record(harness, uuid) == ("guest_paused", "Error", "", FULL)
    assert harness.actions(uuid) == [("create", "Success"), ("guest_paused", "Error")]
    report(harness, uuid, PowerState.RUNNING)
    assert fault(harness, uuid) is None
    assert record(harness, uuid) == ("unpause", "Success", "", "The guest goes on.")


ASLEEP = "The guest stands still, because it has put itself to sleep."


def test_bug_guest_that_sleeps_is_active_without_a_word(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.SUSPENDED, GuestReason.ASLEEP)
    report(harness, uuid, PowerState.SUSPENDED, GuestReason.ASLEEP)
    assert harness.state(uuid) == "active/None on a"
    assert fault(harness, uuid) == ASLEEP
    assert record(harness, uuid) == ("guest_paused", "Error", "", ASLEEP)
    assert harness.actions(uuid) == [("create", "Success"), ("guest_paused", "Error")]
    report(harness, uuid, PowerState.RUNNING)
    assert fault(harness, uuid) is None
    assert record(harness, uuid) == ("unpause", "Success", "", "The guest goes on.")


@pytest.mark.parametrize("kind", ["unpause", "resume"])
def test_bug_guest_that_sleeps_cannot_be_woken(harness: ConductorHarness, kind: str) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.SUSPENDED, GuestReason.ASLEEP)
    harness.acted(uuid, kind)
    assert harness.state(uuid) == "active/None on a"
    assert fault(harness, uuid) is None


@pytest.mark.parametrize("kind", ["unpause", "resume", "reboot_soft", "reboot_hard"])
def test_bug_guest_that_stands_still_refuses_actions(harness: ConductorHarness, kind: str) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.PAUSED, GuestReason.DISK_FULL)
    harness.acted(uuid, kind)
    assert harness.state(uuid) == "active/None on a"
    assert fault(harness, uuid) is None


def test_bug_guest_that_stands_still_cannot_be_stopped(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.PAUSED, GuestReason.DISK_ERROR)
    harness.acted(uuid, "stop")
    assert harness.state(uuid) == "stopped/None on a"


@pytest.mark.parametrize("kind", ["unpause", "resume"])
def test_a_guest_that_runs_is_not_woken(harness: ConductorHarness, kind: str) -> None:
    uuid = harness.active()
    with pytest.raises(errors.Conflict, match=f"Cannot '{kind}' instance {uuid} while it is in vm_state active"):
        harness.act(uuid, kind)


def test_a_guest_that_stands_still_again_keeps_its_state_and_its_fault(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.PAUSED, GuestReason.DISK_FULL)
    failed: dict[str, Any] = {"instance_uuid": uuid, "action_id": harness.act(uuid, "resume"), "host": "a"}
    harness.conductor.begin_action(CTX, **failed)
    harness.conductor.action_failed(
        CTX, **failed, reason="full", kind="GuestDiskFull", power_state=int(PowerState.PAUSED), untouched=True
    )
    assert harness.state(uuid) == "active/None on a"
    assert FULL in (fault(harness, uuid) or "")


def test_bug_killed_guest_looks_like_a_stop_by_its_owner(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.CRASHED, GuestReason.CRASHED)
    text = "The virtual machine of the guest has crashed, or was killed."
    assert harness.state(uuid) == "stopped/None on a"
    assert fault(harness, uuid) == text
    assert record(harness, uuid) == ("guest_crash", "Error", "", text)
    assert harness.events(harness.action_id(uuid)) == [("guest_crash", "a", "Error")]
    harness.acted(uuid, "start")
    assert fault(harness, uuid) is None


def test_bug_poweroff_in_the_guest_has_a_user(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.SHUTDOWN, GuestReason.SHUT_DOWN)
    assert harness.state(uuid) == "stopped/None on a"
    assert fault(harness, uuid) is None
    assert record(harness, uuid) == ("stop", "Success", "", "The guest has shut itself down.")
    assert harness.events(harness.action_id(uuid)) == [("guest_shutdown", "a", "Success")]


def off(uuid: str, **after: int) -> dict[str, Any]:
    return {
        "host": "a",
        "states": {uuid: int(PowerState.SHUTDOWN)},
        "reasons": {uuid: GuestReason.SHUT_DOWN.value},
        "after": after,
    }


@pytest.mark.parametrize("is_proved", [False, True])
def test_bug_late_report_stops_a_guest_that_was_started_since(harness: ConductorHarness, is_proved: bool) -> None:
    """Its row became `stopped`, and the next audit asked the guest to shut down."""
    uuid = harness.active()
    last = harness.conductor.report_power_states(CTX, **off(uuid))
    assert last == {uuid: harness.last_action(uuid)}
    assert harness.state(uuid) == "active/None on a"
    proved = off(uuid) | {"after": last}
    assert harness.conductor.report_power_states(CTX, **proved) == {}
    assert harness.state(uuid) == "stopped/None on a"
    harness.acted(uuid, "start")
    late = proved if is_proved else off(uuid)
    assert harness.conductor.report_power_states(CTX, **late) == {uuid: harness.last_action(uuid)}
    assert harness.state(uuid) == "active/None on a"
    assert harness.instance(uuid).power_state == PowerState.RUNNING
    assert [action for action, _ in harness.actions(uuid)] == ["create", "stop", "start"]


def test_bug_late_report_of_a_move_stops_the_server_at_its_confirmation(harness: ConductorHarness) -> None:
    """The host was the source of an earlier move of the server, and is the destination of this one, which has started the guest."""
    uuid = harness.active()
    with harness.db.write() as session:
        session.execute(
            update(models.Instance).where(models.Instance.uuid == uuid).values(vm_state=VmState.RESIZED.value)
        )
    last = {uuid: harness.last_action(uuid)}
    for after in ({}, {uuid: msgspec.structs.replace(last[uuid], number=last[uuid].number - 1)}):
        assert harness.conductor.report_power_states(CTX, **off(uuid) | {"after": after}) == last
        assert harness.instance(uuid).power_state == PowerState.RUNNING
    assert harness.conductor.report_power_states(CTX, **off(uuid) | {"after": last}) == {}
    assert harness.instance(uuid).power_state == PowerState.SHUTDOWN
    assert harness.state(uuid) == "resized/None on a"


def test_bug_report_after_an_action_of_a_lost_database_stops_a_guest(harness: ConductorHarness) -> None:
    """The restored database gave the number of that action to the start of the guest."""
    uuid = harness.active()
    last = harness.last_action(uuid)
    of_lost = {uuid: msgspec.structs.replace(last, request_id="req-of-the-database-that-was-lost")}
    assert harness.conductor.report_power_states(CTX, **off(uuid) | {"after": of_lost}) == {uuid: last}
    assert harness.state(uuid) == "active/None on a"
    assert harness.conductor.report_power_states(CTX, **off(uuid) | {"after": {uuid: last}}) == {}
    assert harness.state(uuid) == "stopped/None on a"


def test_a_report_that_changes_the_power_state_alone_needs_no_proof(harness: ConductorHarness) -> None:
    uuid = harness.active()
    said = off(uuid) | {"states": {uuid: int(PowerState.SUSPENDED)}}
    assert harness.conductor.report_power_states(CTX, **said) == {}
    assert harness.instance(uuid).power_state == PowerState.SUSPENDED


def test_a_host_of_an_earlier_release_proves_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    assert harness.conductor.report_power_states(CTX, host="a", states={uuid: int(PowerState.SHUTDOWN)}) is None
    assert harness.state(uuid) == "stopped/None on a"


def test_a_reason_of_a_later_release_is_none(harness: ConductorHarness) -> None:
    uuid = harness.active()
    states = {uuid: int(PowerState.SHUTDOWN)}
    harness.conductor.report_power_states(CTX, host="a", states=states, reasons={uuid: "of the future"})
    assert record(harness, uuid) == ("stop", "Success", "", "The guest was found off.")
