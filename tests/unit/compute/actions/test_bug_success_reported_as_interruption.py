"""Bug: a change of the password that succeeded was reported as failed, if its report was lost and the conductor asked to
cancel it: the note that it had begun outlived its end.
"""

from pathlib import Path

import pytest

from minova import errors
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import STOP
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.computes import CTX, Compute
from tests.unit.compute.actions.test_runner import send


@pytest.fixture
def compute(tmp_path: Path) -> Compute:
    service = Compute(results=tmp_path / "actions", records=tmp_path / "guests").start()
    service.boot("i")
    return service


def change_password(compute: Compute) -> None:
    """Its report is lost."""
    instance = compute.conductor.commit_action("i", CHANGE_PASSWORD, 1)
    compute.conductor.on_call = lost
    send(compute, CHANGE_PASSWORD, instance, 1)
    compute.run_through_errors()
    compute.conductor.on_call = lambda method: None
    assert "i" in compute.conductor.actions


def lost(method: str) -> None:
    if method in {"action_succeeded", "action_failed"}:
        raise errors.ServiceUnavailable(f"No answer to {method}")


def cancel(compute: Compute) -> None:
    compute.manager.cancel_action(CTX, instance_uuid="i", action_id=1)
    compute.run()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_success_is_reported_again(compute: Compute, tmp_path: Path, is_killed: bool) -> None:
    change_password(compute)
    if is_killed:
        compute.restart()
    cancel(compute)
    assert compute.conductor.action_failures == []
    assert compute.conductor.actions == {}
    assert list((tmp_path / "actions").iterdir()) == []


def test_a_failure_is_reported_again_with_its_reason(compute: Compute) -> None:
    with compute.hypervisor_fails("set_admin_password", error=errors.HypervisorError("no agent")):
        change_password(compute)
    cancel(compute)
    assert compute.conductor.action_failures == [("i", 1, "no agent")]


def test_an_end_that_only_the_record_of_the_guest_knows_is_reported(compute: Compute) -> None:
    """The database was restored from before the report."""
    instance = compute.conductor.commit_action("i", CHANGE_PASSWORD, 1)
    send(compute, CHANGE_PASSWORD, instance, 1)
    compute.run()
    compute.conductor.commit_action("i", CHANGE_PASSWORD, 1)
    compute.restart()
    cancel(compute)
    assert compute.conductor.action_failures == []
    assert compute.conductor.actions == {}


def test_a_process_that_dies_between_its_result_and_its_note_has_a_result(compute: Compute, tmp_path: Path) -> None:
    change_password(compute)
    (tmp_path / "actions" / "1.begun").write_text(f"i {CHANGE_PASSWORD.kind}")
    compute.restart()
    cancel(compute)
    assert compute.conductor.action_failures == []
    assert list((tmp_path / "actions").iterdir()) == []


def test_a_result_is_not_forgotten_before_a_conductor_has_received_it(compute: Compute) -> None:
    change_password(compute)
    compute.conductor.on_call = lost
    compute.manager.cancel_action(CTX, instance_uuid="i", action_id=1)
    compute.run_through_errors()
    compute.conductor.on_call = lambda method: None
    cancel(compute)
    assert (compute.conductor.action_failures, compute.conductor.actions) == ([], {})


def test_the_end_of_an_earlier_action_waits_for_the_work_in_progress(compute: Compute) -> None:
    change_password(compute)
    with (
        compute.manager.collaborators.builder.domains.locked("i"),
        pytest.raises(errors.ServiceUnavailable),
    ):
        cancel(compute)
    cancel(compute)
    assert (compute.conductor.action_failures, compute.conductor.actions) == ([], {})


def test_a_stop_whose_report_was_lost_is_reported_without_another_request(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    compute.conductor.on_call = lost
    send(compute, STOP, instance, 1)
    compute.run_through_errors()
    compute.conductor.on_call = lambda method: None
    cancel(compute)
    row = compute.conductor.instances["i"]
    assert (row.vm_state, row.power_state) == (VmState.STOPPED, PowerState.SHUTDOWN)
