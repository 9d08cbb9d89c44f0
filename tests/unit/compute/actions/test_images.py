"""Images of servers on a host: what it reports, when it ends, and what is left."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from minova import errors
from minova.compute.actions.action_run import BEAT
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.images import CREATE_IMAGE
from minova.objects.actions.power import STOP
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.action_arguments import host_arguments
from tests.fakes.computes import CTX, Compute


@pytest.fixture
def compute(tmp_path: Path) -> Compute:
    service = Compute(instances_path=str(tmp_path)).start()
    service.boot("i")
    return service


def ask(compute: Compute, action_id: int = 1) -> str:
    """The image's ID."""
    arguments = host_arguments(CREATE_IMAGE)
    instance = compute.conductor.commit_action("i", CREATE_IMAGE, action_id)
    compute.manager.run_action(CTX, instance, action_id, CREATE_IMAGE.kind, arguments)
    compute.run()
    return str(arguments.image_id)


def test_the_disk_is_uploaded_with_a_token_of_its_own_and_no_file_is_left(compute: Compute, tmp_path: Path) -> None:
    image = ask(compute)
    assert compute.uploads.uploaded == {image: (b"the disk", f"upload token for {image} on host-1")}
    assert compute.conductor.progressed == ["image_pending_upload", "image_uploading"]
    instance = compute.conductor.instances["i"]
    assert (instance.vm_state, instance.task_state, instance.power_state) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert list(tmp_path.rglob("snapshots/*/*")) == []


@pytest.mark.parametrize("reason", [errors.DiskFull("the disk is full"), errors.NotFound("the image is deleted")])
def test_a_failure_is_reported_and_leaves_no_file(compute: Compute, tmp_path: Path, reason: errors.MinovaError) -> None:
    compute.uploads.refuse = reason
    ask(compute)
    assert compute.conductor.action_failures == [("i", 1, str(reason))]
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert list(tmp_path.rglob("snapshots/*/*")) == []


def test_guest_that_is_not_held_still_fails_the_snapshot(compute: Compute) -> None:
    """Not as an image that was uploaded before, of which the conductor says Conflict."""

    def refuse(check: Callable[[], None]) -> None:
        raise errors.QuiesceFailed("the guest could not be quiesced")

    compute.hypervisor.on_snapshot = refuse
    ask(compute)
    assert compute.conductor.action_failures == [("i", 1, "the guest could not be quiesced")]
    assert compute.uploads.uploaded == {}


@pytest.mark.parametrize("step", ["on_snapshot", "on_upload"])
def test_a_delete_ends_the_snapshot(compute: Compute, tmp_path: Path, step: str) -> None:
    def deleted_meanwhile(check: Callable[[], None]) -> None:
        compute.manager.collaborators.actions.cancel("i")
        check()

    setattr(compute.hypervisor if step == "on_snapshot" else compute.uploads, step, deleted_meanwhile)
    ask(compute)
    assert compute.uploads.uploaded == {}
    assert compute.conductor.action_failures == []
    assert list(tmp_path.rglob("snapshots/*/*")) == []


def test_an_action_that_ends_meanwhile_ends_the_snapshot(compute: Compute) -> None:
    """As after a reset of the server's state: a host that takes long asks now and then."""
    now = 0.0
    compute.ticks = lambda: now
    compute.restart()

    def reset_meanwhile(check: Callable[[], None]) -> None:
        nonlocal now
        now += BEAT
        check()
        compute.conductor.actions.clear()
        check()
        now += BEAT
        with pytest.raises(errors.StaleAttempt):
            check()
        check_again.append(check)
        raise errors.StaleAttempt("ended")

    check_again: list[Callable[[], None]] = []
    compute.hypervisor.on_snapshot = reset_meanwhile
    ask(compute)
    assert check_again
    assert compute.conductor.progressed == ["image_pending_upload"] * 2
    assert compute.uploads.uploaded == {}


def test_a_conductor_that_is_away_for_a_moment_ends_no_snapshot(compute: Compute) -> None:
    now = 0.0
    compute.ticks = lambda: now
    compute.restart()

    def conductor_is_away(check: Callable[[], None]) -> None:
        nonlocal now

        def away(method: str) -> None:
            raise errors.ServiceUnavailable("no conductor")

        now += BEAT
        compute.conductor.on_call = away
        check()
        compute.conductor.on_call = lambda method: None

    compute.hypervisor.on_snapshot = conductor_is_away
    image = ask(compute)
    assert set(compute.uploads.uploaded) == {image}


def test_a_host_that_starts_removes_what_a_snapshot_has_left(compute: Compute, tmp_path: Path) -> None:
    left = tmp_path / "snapshots" / "on-host-1" / "i"
    others = tmp_path / "snapshots" / "on-host-2" / "j"
    for path in (left, others):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"half")
    compute.restart()
    assert (left.exists(), others.exists()) == (False, True)


def end_snapshots(compute: Compute) -> None:
    next(task for task in compute.manager.periodic_tasks() if task.name == "end_snapshots").work()


def test_a_start_waits_for_no_snapshot_that_is_open(compute: Compute) -> None:
    """A commit takes minutes, and a host that does not report meanwhile counts as down."""
    compute.hypervisor.aside = {"i"}
    compute.restart()
    assert compute.hypervisor.aside == {"i"}
    end_snapshots(compute)
    compute.run()
    assert compute.hypervisor.aside == set()


@pytest.mark.parametrize("comes", ["action", "deletion"])
def test_bug_work_on_an_instance_waits_for_a_commit(compute: Compute, comes: str) -> None:
    """For up to ten minutes: whoever committed held the instance's lock."""
    seen: list[bool] = []

    def wanted_meanwhile(check: Callable[[], None]) -> None:
        check()
        if comes == "action":
            instance = compute.conductor.commit_action("i", STOP, 1)
            compute.manager.run_action(CTX, instance, 1, STOP.kind, HostArguments())
        else:
            compute.delete_meanwhile("i")
        seen.append(True)
        check()
        seen.append(False)

    compute.hypervisor.aside = {"i"}
    compute.hypervisor.on_commit = wanted_meanwhile
    end_snapshots(compute)
    compute.run()
    assert seen == [True]
    assert compute.domains() == ({"i": PowerState.SHUTDOWN} if comes == "action" else {})


def test_an_open_snapshot_is_ended_under_the_lock_of_its_instance(compute: Compute) -> None:
    """So that it is not taken from a snapshot in progress."""
    compute.hypervisor.aside = {"i"}
    end_snapshots(compute)
    held = compute.manager.collaborators.builder.domains.locked("i")
    with held:
        work = threading.Thread(target=compute.run)
        work.start()
        work.join(0.2)
        assert compute.hypervisor.aside == {"i"}
    work.join(30)
    assert compute.hypervisor.aside == set()


def test_an_image_that_has_its_bytes_is_not_made_again(compute: Compute) -> None:
    def has_bytes(method: str) -> None:
        if method == "image_upload_token":
            raise errors.Conflict("it has all its bytes")

    compute.conductor.on_call = has_bytes
    ask(compute)
    assert "snapshot" not in compute.hypervisor.calls
    assert (compute.conductor.action_failures, compute.conductor.actions) == ([], {})
