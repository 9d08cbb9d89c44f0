"""A guest that shut itself down stayed ACTIVE. By Nova's rules (`sync_power_state`) it is SHUTOFF."""

import pytest
from sqlalchemy import select, update

from minova.api.compute.servers.view import status_of
from minova.db import models
from minova.objects.states import PowerState
from tests.functional.conductor.desk import CTX, Desk


def report(desk: Desk, uuid: str, state: int, host: str = "a") -> None:
    desk.conductor.report_power_states(CTX, host=host, states={uuid: int(state)})


@pytest.mark.parametrize("state", [PowerState.SHUTDOWN, PowerState.CRASHED])
def test_a_guest_that_shut_itself_down_is_shutoff_and_keeps_what_it_holds(desk: Desk, state: PowerState) -> None:
    uuid = desk.active()
    report(desk, uuid, state)
    report(desk, uuid, state)
    assert desk.state(uuid) == "stopped/None on a"
    assert status_of(desk.instance(uuid)) == "SHUTOFF"
    assert desk.instance(uuid).power_state == state
    assert desk.actions(uuid) == [("create", "Success"), ("stop", "Success")]
    assert desk.allocated() == {uuid: "a"}
    desk.delete(uuid)
    desk.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert desk.allocated() == {}


@pytest.mark.parametrize("state", [PowerState.PAUSED, PowerState.SUSPENDED, PowerState.NOSTATE])
def test_other_states_change_the_power_state_alone(desk: Desk, state: PowerState) -> None:
    uuid = desk.active()
    report(desk, uuid, state)
    assert desk.state(uuid) == "active/None on a"
    assert desk.instance(uuid).power_state == state


def test_a_guest_of_another_host_is_left_alone(desk: Desk) -> None:
    uuid = desk.active()
    report(desk, uuid, PowerState.SHUTDOWN, host="b")
    assert desk.state(uuid) == "active/None on a"


def test_one_in_transit_is_left_alone(desk: Desk) -> None:
    uuid = desk.active()
    desk.delete(uuid)
    report(desk, uuid, PowerState.SHUTDOWN)
    assert desk.state(uuid) == "active/deleting on a"
    assert desk.instance(uuid).power_state == PowerState.RUNNING


@pytest.mark.parametrize("vm_state", ["error", "resized", "suspended", "rescued"])
def test_one_in_another_state_changes_its_power_state_alone(desk: Desk, vm_state: str) -> None:
    uuid = desk.active()
    with desk.db.write() as session:
        session.execute(update(models.Instance).values(vm_state=vm_state))
    report(desk, uuid, PowerState.SHUTDOWN)
    with desk.db.read() as session:
        row = session.scalars(select(models.Instance)).one()
        assert (row.vm_state, row.power_state) == (vm_state, PowerState.SHUTDOWN)
