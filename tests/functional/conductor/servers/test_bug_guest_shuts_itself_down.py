"""A guest that shut itself down stayed ACTIVE. By Nova's rules (`sync_power_state`) it is SHUTOFF."""

import pytest
from sqlalchemy import select, update

from minova.api.compute.servers.view import shown_status
from minova.db import models
from minova.db.api_queries import instances
from minova.objects.servers.states import PowerState
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness


def report(harness: ConductorHarness, uuid: str, state: int, host: str = "a") -> None:
    harness.report_power(uuid, state, host=host)


@pytest.mark.parametrize(
    ("state", "record"),
    [(PowerState.SHUTDOWN, ("stop", "Success")), (PowerState.CRASHED, ("guest_crash", "Error"))],
)
def test_a_guest_that_shut_itself_down_is_shutoff_and_keeps_what_it_holds(
    harness: ConductorHarness, state: PowerState, record: tuple[str, str]
) -> None:
    uuid = harness.active()
    report(harness, uuid, state)
    report(harness, uuid, state)
    assert harness.state(uuid) == "stopped/None on a"
    with harness.db.read() as session:
        row = instances.instance(session, uuid, None)
    assert row is not None
    assert shown_status(row) == "SHUTOFF"
    assert harness.instance(uuid).power_state == state
    assert harness.actions(uuid) == [("create", "Success"), record]
    assert harness.allocated() == {uuid: "a"}
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert harness.allocated() == {}


@pytest.mark.parametrize("state", [PowerState.PAUSED, PowerState.SUSPENDED, PowerState.NOSTATE])
def test_other_states_change_the_power_state_alone(harness: ConductorHarness, state: PowerState) -> None:
    uuid = harness.active()
    report(harness, uuid, state)
    assert harness.state(uuid) == "active/None on a"
    assert harness.instance(uuid).power_state == state


def test_bug_offload_removes_the_newer_disk_of_a_shelved_guest_that_runs(harness: ConductorHarness) -> None:
    """An unshelve that was given up has started it all the same. Its image is older than its disk now."""
    uuid = harness.active()
    harness.acted(uuid, "shelve")
    report(harness, uuid, PowerState.RUNNING)
    assert harness.state(uuid) == "active/None on a"
    assert harness.actions(uuid)[-1] == ("unshelve", "Success")
    harness.settings.set_override("shelved_offload_time", 0)
    harness.conductor.collaborators.shelving.offload_due()
    assert harness.state(uuid) == "active/None on a"
    # Its image goes with the next action.
    assert harness.count(models.Image) == 1
    harness.acted(uuid, "stop")
    assert harness.count(models.Image) == 0


def test_a_guest_of_another_host_is_left_alone(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, uuid, PowerState.SHUTDOWN, host="b")
    assert harness.state(uuid) == "active/None on a"


def test_one_in_transit_is_left_alone(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.delete(uuid)
    report(harness, uuid, PowerState.SHUTDOWN)
    assert harness.state(uuid) == "active/deleting on a"
    assert harness.instance(uuid).power_state == PowerState.RUNNING


@pytest.mark.parametrize("vm_state", ["error", "resized", "suspended", "rescued"])
def test_one_in_another_state_changes_its_power_state_alone(harness: ConductorHarness, vm_state: str) -> None:
    uuid = harness.active()
    with harness.db.write() as session:
        session.execute(update(models.Instance).values(vm_state=vm_state))
    report(harness, uuid, PowerState.SHUTDOWN)
    with harness.db.read() as session:
        row = session.scalars(select(models.Instance)).one()
        assert (row.vm_state, row.power_state) == (vm_state, PowerState.SHUTDOWN)
