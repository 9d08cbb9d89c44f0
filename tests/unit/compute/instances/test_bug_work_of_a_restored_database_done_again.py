"""After the restore of a backup, hosts did again what had ended on them: a rebuild wiped the disk, a build began anew."""

from pathlib import Path

import msgspec
import pytest

from minova.objects.actions.action import ServerAction
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import STOP
from minova.objects.actions.rebuild import REBUILD
from minova.objects.catalogue.image import Image
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import GuestsAnswer
from tests.fakes.action_arguments import PASSWORD, host_arguments
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute

DESTROYS = {"prepare", "rebuild", "destroy", "hard_reboot"}


@pytest.fixture
def compute(tmp_path: Path) -> Compute:
    service = Compute(results=tmp_path / "actions", records=tmp_path / "guests").start()
    service.boot("i", image=Image(id="image", disk_format="raw", container_format="bare", status="active"))
    return service


def ask(compute: Compute, action: ServerAction, action_id: int, request_id: str) -> None:
    instance = compute.conductor.commit_action("i", action, action_id)
    ctx = msgspec.structs.replace(CTX, request_id=request_id)
    compute.manager.run_action(ctx, instance, action_id, action.kind, host_arguments(action))
    compute.run()


def destructive(compute: Compute, since: int) -> list[str]:
    return [name for name in compute.hypervisor.calls[since:] if name in DESTROYS]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rebuild_that_has_ended_is_only_reported(compute: Compute, *, restarted: bool) -> None:
    ask(compute, REBUILD, 1, "req-rebuild")
    ask(compute, STOP, 2, "req-stop")
    if restarted:
        compute.restart()
    since = len(compute.hypervisor.calls)
    ask(compute, REBUILD, 1, "req-rebuild")
    assert destructive(compute, since) == []
    assert compute.conductor.instances["i"].task_state is None, "its success is reported"


def test_a_new_action_with_the_number_of_an_ended_one_runs(compute: Compute) -> None:
    """The restored database gives the numbers again."""
    ask(compute, STOP, 1, "req-stop")
    ask(compute, REBUILD, 1, "req-rebuild")
    assert "rebuild" in compute.hypervisor.calls


@pytest.mark.parametrize("restarted", [False, True])
def test_bug_unreported_result_was_reported_for_a_new_action_with_its_number(
    compute: Compute, *, restarted: bool
) -> None:
    """The database was away when the first one ended, and the backup does not know it."""
    with compute.conductor_loses("action_succeeded"):
        instance = compute.conductor.commit_action("i", STOP, 1)
        compute.manager.run_action(
            msgspec.structs.replace(CTX, request_id="req-stop"), instance, 1, STOP.kind, HostArguments()
        )
        compute.run_through_errors()
    if restarted:
        compute.restart()
    compute.conductor.end_action("i")
    ask(compute, REBUILD, 1, "req-rebuild")
    assert "rebuild" in compute.hypervisor.calls


def test_an_action_of_an_older_attempt_leaves_the_guest_as_it_is(compute: Compute) -> None:
    older = compute.conductor.commit_action("i", REBUILD, 1)
    since = len(compute.hypervisor.calls)
    compute.manager.run_action(CTX, msgspec.structs.replace(older, attempt=0), 1, REBUILD.kind, HostArguments())
    compute.run()
    assert destructive(compute, since) == []
    assert "newer than the database" in compute.conductor.action_failures[-1][2]
    assert compute.conductor.untouched[-1] is True


def restore(compute: Compute, attempt: int) -> BuildMessage:
    """The database is as it was while this attempt was being built on the host."""
    compute.conductor.instances.pop("i")
    compute.conductor.open.pop("i", None)
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    while message.attempt < attempt:
        message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    return message


@pytest.mark.parametrize("power_state", [PowerState.RUNNING, PowerState.SHUTDOWN])
def test_a_build_whose_guest_exists_is_only_reported(compute: Compute, power_state: PowerState) -> None:
    """Also one that is off since: the start of the compute took it for half built, and made its disk anew."""
    compute.hypervisor.turn("i", power_state)
    since = len(compute.hypervisor.calls)
    restore(compute, 1)
    compute.restart()
    compute.run()
    assert destructive(compute, since) == []
    assert compute.domains() == {"i": power_state}
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_a_build_of_an_earlier_attempt_leaves_the_guest_as_it_is(compute: Compute) -> None:
    compute.delete("i")
    restore(compute, 2)
    compute.manager.build_and_run_instance(CTX, compute.conductor.open["i"].message)
    compute.run()
    since = len(compute.hypervisor.calls)
    message = restore(compute, 1)
    compute.restart()
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert destructive(compute, since) == []
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_build_of_a_later_attempt_leaves_a_guest_in_use_as_it_is(compute: Compute) -> None:
    """The restored row says building; its attempt was given up after the deadline."""
    since = len(compute.hypervisor.calls)
    restore(compute, 2)
    compute.manager.build_and_run_instance(CTX, compute.conductor.open["i"].message)
    compute.run()
    assert destructive(compute, since) == []
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_guest_that_is_newer_is_neither_undone_nor_started_at_the_start(tmp_path: Path) -> None:
    results, records = tmp_path / "actions", tmp_path / "guests"
    compute = Compute(results=results, records=records, resume_guests_state_on_host_boot=True).start()
    compute.boot("i")
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.conductor.guests_answer = GuestsAnswer(newer=("i",))
    compute.restart()
    compute.run()
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_removed_guest_has_no_record(compute: Compute, tmp_path: Path) -> None:
    assert (tmp_path / "guests" / "i.json").exists()
    compute.delete("i")
    assert list((tmp_path / "guests").iterdir()) == []


def test_a_secret_of_an_action_is_not_recorded(compute: Compute, tmp_path: Path) -> None:
    ask(compute, CHANGE_PASSWORD, 1, "req-password")
    assert PASSWORD not in (tmp_path / "guests" / "i.json").read_text()
