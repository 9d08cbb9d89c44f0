"""Server actions on a host: the question before, the operation, the report after."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.compute.actions import action_run, results
from minova.compute.actions.action_run import BEAT
from minova.compute.actions.results import UnreportedResults
from minova.compute.instances.abandonment import Abandoned
from minova.compute.instances.clean_stops import shutdown_timeout
from minova.context import RequestContext
from minova.objects.actions.action import ServerAction
from minova.objects.actions.deletion import RESTORE, SOFT_DELETE
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.password import CHANGE_PASSWORD
from minova.objects.actions.power import PAUSE, REBOOT_HARD, REBOOT_SOFT, START, STOP, SUSPEND
from minova.objects.actions.rebuild import REBUILD
from minova.objects.actions.rescue import RESCUE
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD, UNSHELVE
from minova.objects.actions.table import RUN_BY_HOSTS
from minova.objects.catalogue.image import Image
from minova.objects.network.vif import Vif
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from tests.fakes.action_arguments import PASSWORD, PORT, host_arguments, power_state_after
from tests.fakes.computes import CTX, FLAVOR, Compute
from tests.fakes.conductor import nothing


@pytest.fixture
def compute() -> Compute:
    service = Compute().start()
    service.boot("i")
    return service


def ask(compute: Compute, action: ServerAction, action_id: int) -> None:
    """The message of an action that is in progress."""
    send(compute, action, compute.conductor.commit_action("i", action, action_id), action_id)
    compute.run()


def send(compute: Compute, action: ServerAction, instance: Instance, action_id: int) -> None:
    arguments = host_arguments(action)
    if arguments.port_id:
        vif = Vif(port_id=PORT, mac_address="fa:16:3e:00:00:01", network_id="blue")
        instance = msgspec.structs.replace(instance, network_info=(vif,))
    compute.manager.run_action(CTX, instance, action_id, action.kind, arguments)


def state(compute: Compute) -> tuple[VmState, object, PowerState]:
    instance = compute.conductor.instances["i"]
    return instance.vm_state, instance.task_state, instance.power_state


CHANGES = {"power_off", "power_on", "start", "hard_reboot", "rescue", "rebuild"}


def test_a_stop_and_a_start(compute: Compute) -> None:
    ask(compute, STOP, 1)
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}
    assert compute.used() == (1024, 10, 2)
    ask(compute, START, 2)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)
    assert compute.domains() == {"i": PowerState.RUNNING}


@pytest.mark.parametrize("action", RUN_BY_HOSTS, ids=lambda action: action.kind)
def test_each_action_ends_in_its_state(compute: Compute, action: ServerAction) -> None:
    compute.conductor.change("i", vm_state=min(action.vm_states), image=Image(id="own"))
    if action in (SHELVE_OFFLOAD, START, RESTORE, UNSHELVE):
        compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    ask(compute, action, 1)
    power_state = PowerState(power_state_after(action))
    assert state(compute) == (action.after_success(min(action.vm_states)), None, power_state)
    offloaded = action is SHELVE_OFFLOAD
    assert compute.domains() == ({} if offloaded else {"i": power_state})
    assert compute.used() == ((0, 0, 0) if offloaded else (1024, 10, 2))


def test_a_soft_reboot_shuts_the_guest_down_and_starts_it(compute: Compute) -> None:
    compute.hypervisor.calls.clear()
    ask(compute, REBOOT_SOFT, 1)
    done = [call for call in compute.hypervisor.calls if call in {"shut_down", "power_on", "hard_reboot"}]
    assert done == ["shut_down", "power_on"]
    assert compute.conductor.forced == []


def test_a_soft_reboot_of_a_guest_that_does_not_listen_becomes_a_hard_one(compute: Compute) -> None:
    compute.hypervisor.shuts_down = False
    compute.hypervisor.calls.clear()
    ask(compute, REBOOT_SOFT, 1)
    done = [call for call in compute.hypervisor.calls if call in {"shut_down", "power_on", "hard_reboot"}]
    assert done == ["shut_down", "hard_reboot"]
    assert compute.conductor.forced == [1]
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


@pytest.mark.parametrize(("listens", "forced"), [(True, []), (False, [1])])
def test_a_stop_reports_whether_it_has_forced_the_guest(compute: Compute, listens: bool, forced: list[int]) -> None:
    compute.hypervisor.shuts_down = listens
    ask(compute, STOP, 1)
    assert compute.conductor.forced == forced
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)


def test_a_hard_reboot_ends_the_wait_of_a_soft_one(compute: Compute) -> None:
    def hard_reboot_comes(cancelled: threading.Event) -> None:
        send(compute, REBOOT_HARD, compute.conductor.commit_action("i", REBOOT_HARD, 2), 2)
        assert cancelled.is_set()

    compute.hypervisor.shuts_down = False
    compute.hypervisor.waits_for_guest = hard_reboot_comes
    ask(compute, REBOOT_SOFT, 1)
    assert compute.hypervisor.calls.count("hard_reboot") == 1
    assert compute.conductor.calls.count("action_succeeded") == 1
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_a_deletion_ends_the_wait_of_another_action(compute: Compute) -> None:
    def deletion_comes(cancelled: threading.Event) -> None:
        send(compute, SOFT_DELETE, compute.conductor.commit_action("i", SOFT_DELETE, 2), 2)
        assert cancelled.is_set()
        compute.hypervisor.waits_for_guest = lambda cancelled: None

    compute.hypervisor.shuts_down = False
    compute.hypervisor.waits_for_guest = deletion_comes
    ask(compute, REBOOT_SOFT, 1)
    assert "hard_reboot" not in compute.hypervisor.calls
    assert state(compute) == (VmState.SOFT_DELETED, None, PowerState.SHUTDOWN)


def test_a_restored_server_is_never_on_its_rescue_disk(compute: Compute) -> None:
    compute.conductor.change("i", image=Image(id="own"))
    ask(compute, RESCUE, 1)
    assert state(compute) == (VmState.RESCUED, None, PowerState.RUNNING)
    ask(compute, SOFT_DELETE, 2)
    compute.hypervisor.calls.clear()
    ask(compute, RESTORE, 3)
    assert "start" in compute.hypervisor.calls
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_a_message_that_comes_again_does_not_end_its_own_action(compute: Compute) -> None:
    def comes_again(cancelled: threading.Event) -> None:
        send(compute, REBOOT_HARD, compute.conductor.instances["i"], 0)
        assert not cancelled.is_set()

    compute.hypervisor.waits_for_guest = comes_again
    ask(compute, REBOOT_SOFT, 1)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_a_kind_that_this_release_does_not_know_is_reported_as_failed(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    compute.manager.run_action(CTX, instance, 1, "of_a_later_release", HostArguments())
    compute.run()
    reason = "it runs a release without the action of_a_later_release"
    assert compute.conductor.action_failures == [("i", 1, reason)]
    assert (compute.conductor.untouched, state(compute)) == ([True], (VmState.ACTIVE, None, PowerState.RUNNING))


def test_a_hard_reboot_makes_a_domain_that_is_gone(compute: Compute) -> None:
    compute.hypervisor.destroy("i")
    ask(compute, REBOOT_HARD, 1)
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_rescue_boots_from_the_image_that_was_named(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    rescuer = Image(id="rescuer", status="active", disk_format="raw")
    instance = compute.conductor.commit_action("i", RESCUE, 1)
    compute.hypervisor.calls.clear()
    compute.manager.run_action(CTX, instance, 1, "rescue", HostArguments(rescue_image=rescuer))
    compute.run()
    assert compute.images.fetched == ["rescuer"]
    done = [call for call in compute.hypervisor.calls if call in {"prepare_rescue", "shut_down", "rescue"}]
    assert done == ["prepare_rescue", "shut_down", "rescue"]


def test_a_guest_whose_rescue_image_is_not_there_is_left_as_it_is(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    compute.images.refuse = errors.ServiceUnavailable("no image service")
    instance = compute.conductor.commit_action("i", RESCUE, 1)
    rescuer = Image(id="rescuer", status="active", disk_format="raw")
    compute.manager.run_action(CTX, instance, 1, "rescue", HostArguments(rescue_image=rescuer))
    compute.run()
    assert compute.conductor.action_failures == [("i", 1, "no image service")]
    assert compute.conductor.untouched == [True]
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_guest_whose_rescue_disk_cannot_be_made_is_left_as_it_is(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    instance = compute.conductor.commit_action("i", RESCUE, 1)
    with compute.hypervisor_fails("prepare_rescue", error=errors.DiskFull("no room")):
        compute.manager.run_action(CTX, instance, 1, "rescue", HostArguments(rescue_image=Image(id="rescuer")))
        compute.run()
    assert (compute.conductor.action_failures, compute.conductor.untouched) == ([("i", 1, "no room")], [True])
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_rescue_that_fails_later_has_touched_the_guest(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", RESCUE, 1)
    with compute.hypervisor_fails("rescue", error=errors.HypervisorUnavailable("no")):
        compute.manager.run_action(CTX, instance, 1, "rescue", HostArguments(rescue_image=Image(id="rescuer")))
        compute.run()
    assert compute.conductor.untouched == [False]


def test_a_rebuild_checks_its_image_stops_the_guest_and_runs_it_from_the_new_disk(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", REBUILD, 1)
    instance = msgspec.structs.replace(instance, image=Image(id="new"))
    compute.hypervisor.calls.clear()
    files = (GuestFile(path="/a", contents="YQ=="),)
    arguments = HostArguments(admin_password="p", injected_files=files)
    compute.manager.run_action(CTX, instance, 1, "rebuild", arguments)
    compute.run()
    done = [call for call in compute.hypervisor.calls if call in {*CHANGES, "shut_down", "rebuild"}]
    assert done == ["shut_down", "rebuild", "power_on"]
    data = compute.hypervisor.guest_data["i"]
    assert (data.admin_password, data.files) == ("p", files)
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


@pytest.mark.parametrize("shuts_down", [True, False])
def test_a_rebuild_says_that_the_disks_change_once_the_guest_is_off(compute: Compute, shuts_down: bool) -> None:
    """Until then a failure leaves the server with its old image, which its disk still is."""
    compute.hypervisor.shuts_down = shuts_down
    compute.conductor.change("i", image=Image(id="new"))
    begun_when_off: list[list[bool]] = []
    power_off = compute.hypervisor.power_off

    def note(instance_uuid: str) -> None:
        begun_when_off.append([*compute.conductor.begun])
        power_off(instance_uuid)

    compute.hypervisor.power_off = note  # type: ignore[method-assign]
    compute.hypervisor.waits_for_guest = lambda cancelled: begun_when_off.append([*compute.conductor.begun])
    ask(compute, REBUILD, 1)
    assert begun_when_off
    assert all(begun == [False] for begun in begun_when_off)
    assert compute.conductor.begun == [False, True]
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


@pytest.mark.parametrize("action", [REBUILD, RESCUE], ids=lambda action: action.kind)
def test_a_download_for_an_action_reports_that_it_goes_on(compute: Compute, action: ServerAction) -> None:
    now = 0.0
    compute.ticks = lambda: now
    compute.restart()
    compute.hypervisor.wants_image = True

    def download(check: Callable[[], None]) -> None:
        nonlocal now
        for _ in range(3):
            check()
            now += BEAT
            check()

    compute.images.on_fetch = download
    compute.conductor.change("i", image=Image(id="own"))
    ask(compute, action, 1)
    step = "rebuild_block_device_mapping" if action is REBUILD else "rescuing"
    assert compute.conductor.progressed.count(step) >= 4


def test_a_rebuild_reports_that_it_goes_on_while_its_disks_are_made(
    compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A raw copy takes longer than an action may take that does not report."""
    monkeypatch.setattr(action_run, "BEAT", 0.01)
    is_heard = threading.Event()

    def heard(method: str) -> None:
        if method == "action_progressed" and compute.conductor.progressed.count("rebuild_spawning") >= 2:
            is_heard.set()

    def copy() -> None:
        compute.conductor.on_call = heard
        is_heard.wait(60)

    compute.hypervisor.on_rebuild = copy
    compute.conductor.change("i", image=Image(id="own"))
    ask(compute, REBUILD, 1)
    assert is_heard.is_set()
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


@pytest.mark.parametrize("fails", ["disks", "start", "disks, after a start"])
def test_a_failed_rebuild_reports_whether_it_has_replaced_disks(fails: str, tmp_path: Path) -> None:
    compute, tries = Compute(results=tmp_path).start(), 0
    compute.boot("i", image=Image(id="own"))

    def full() -> None:
        nonlocal tries
        tries += 1
        if fails != "disks, after a start" or tries > 1:
            raise errors.DiskFull("no space left")

    if fails != "start":
        compute.hypervisor.on_rebuild = full
    away = errors.HypervisorUnavailable("away") if fails == "disks, after a start" else errors.HypervisorError("no")
    with compute.hypervisor_fails("power_on", error=away):
        ask(compute, REBUILD, 1)
    assert compute.conductor.kept_disks == [fails == "disks"]


def raising(error: Any) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("killed", ["before", "after", "in an older release"])
def test_bug_a_rebuild_of_two_processes_always_reported_replaced_disks(killed: str, tmp_path: Path) -> None:
    compute = Compute(results=tmp_path).start()
    compute.boot("i", image=Image(id="own"))
    if killed == "in an older release":
        (tmp_path / "1.begun").write_text(f"i {REBUILD.kind}")
    else:
        end: Any = Abandoned()
        if killed == "before":
            compute.hypervisor.on_rebuild = raising(end)
        with pytest.raises(Abandoned), compute.hypervisor_fails("power_on", error=end):
            ask(compute, REBUILD, 1)
    compute.restart()
    compute.hypervisor.on_rebuild = raising(errors.DiskFull("no space left"))
    ask(compute, REBUILD, 1)
    assert compute.conductor.kept_disks == [killed == "before"]
    assert list(tmp_path.iterdir()) == []


def test_a_rebuild_that_cannot_note_it_replaces_no_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute(results=tmp_path).start()
    compute.boot("i", image=Image(id="own"))

    def refuse(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(results, "sync_folder", refuse)
    compute.hypervisor.calls.clear()
    ask(compute, REBUILD, 1)
    assert compute.conductor.kept_disks == [True]
    assert "rebuild" not in compute.hypervisor.calls
    [(_, _, reason)] = compute.conductor.action_failures
    assert reason.endswith("1-i.begun cannot be written: Input/output error")
    assert list(tmp_path.iterdir()) == []


def test_an_end_that_is_reported_again_says_whether_disks_were_replaced(tmp_path: Path) -> None:
    """As after a restore of the database: the conductor has received the result, and requests the action again."""
    compute = Compute(results=tmp_path).start()
    compute.boot("i", image=Image(id="own"))
    compute.hypervisor.on_rebuild = raising(errors.DiskFull("no space left"))
    for _ in range(2):
        ask(compute, REBUILD, 1)
    assert compute.conductor.kept_disks == [True, True]


def test_an_older_conductor_hears_of_a_failed_rebuild_all_the_same(
    compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = compute.conductor.action_failed

    def action_failed(ctx: RequestContext, *, kept_disks: bool = False, **report: Any) -> None:
        if kept_disks or "request_id" in report:
            raise errors.PeerTooOld("action_failed(kept_disks) needs conductor 1.9")
        failed(ctx, kept_disks=kept_disks, **report)

    monkeypatch.setattr(compute.conductor, "action_failed", action_failed)
    compute.conductor.change("i", image=Image(id="own"))
    with compute.hypervisor_fails("rebuild", error=errors.DiskFull("no space left")):
        ask(compute, REBUILD, 1)
    assert compute.conductor.action_failures == [("i", 1, "no space left")]
    assert compute.conductor.kept_disks == [False]


@pytest.mark.parametrize("is_older", [False, True], ids=["conductor of now", "older conductor"])
@pytest.mark.parametrize("is_off", [False, True], ids=["active", "stopped"])
def test_bug_a_rebuild_did_not_report_the_hardware_that_it_has_chosen(
    compute: Compute, monkeypatch: pytest.MonkeyPatch, is_older: bool, is_off: bool
) -> None:
    succeeded, reported = compute.conductor.action_succeeded, []

    def action_succeeded(ctx: RequestContext, *, hardware: ChosenHardware | None = None, **report: Any) -> None:
        if is_older and (hardware is not None or "request_id" in report):
            raise errors.PeerTooOld("action_succeeded(hardware) needs conductor 1.9")
        reported.append(hardware)
        succeeded(ctx, **report)

    if is_off:
        ask(compute, STOP, 1)
    monkeypatch.setattr(compute.conductor, "action_succeeded", action_succeeded)
    compute.conductor.change("i", image=Image(id="new"))
    compute.hypervisor.hardware = {"i": ChosenHardware(machine_type="pc-q35-7.2")}
    ask(compute, REBUILD, 2)
    assert reported == [None if is_older else compute.hypervisor.hardware["i"]]
    assert state(compute)[:2] == (VmState.STOPPED if is_off else VmState.ACTIVE, None)


def test_a_stopped_server_stays_stopped_when_it_is_rebuilt(compute: Compute) -> None:
    ask(compute, STOP, 1)
    compute.conductor.change("i", image=Image(id="new"))
    compute.hypervisor.calls.clear()
    ask(compute, REBUILD, 2)
    assert "rebuild" in compute.hypervisor.calls
    assert "power_on" not in compute.hypervisor.calls
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)


@pytest.mark.parametrize("why", ["no image service", "too small"])
def test_a_guest_whose_new_image_cannot_be_had_is_left_as_it_is(compute: Compute, why: str) -> None:
    compute.hypervisor.wants_image = True
    compute.images.refuse = errors.ServiceUnavailable("no image service")
    compute.conductor.change("i", image=Image(id="new", min_disk=11 if why == "too small" else 0))
    compute.hypervisor.calls.clear()
    ask(compute, REBUILD, 1)
    assert {*CHANGES, "shut_down", "rebuild"}.isdisjoint(compute.hypervisor.calls)
    ((_, _, reason),) = compute.conductor.action_failures
    assert why in reason or "does not fit the flavor" in reason
    assert compute.conductor.untouched == [True]


@pytest.mark.parametrize("state", ["without", "with", "no domain", "unknown"])
def test_an_attachment_that_fails_says_whether_the_guest_may_have_the_interface(compute: Compute, state: str) -> None:
    """Only when it is known that the guest has not got it, another server may get its addresses."""
    vif = Vif(port_id=PORT, mac_address="fa:16:3e:00:00:01", network_id="blue")
    compute.hypervisor.vifs["i"] = (vif,) if state == "with" else ()

    def fail(operation: str) -> None:
        if operation == "attach_interface":
            raise errors.InterfaceAttachFailed("no slot is free")
        if operation == "interfaces" and state == "unknown":
            raise errors.HypervisorUnavailable("libvirt is away")
        if operation == "interfaces" and state == "no domain":
            raise errors.NotFound("no domain")

    compute.hypervisor.on_call = fail
    ask(compute, ATTACH_INTERFACE, 1)
    assert compute.conductor.action_failures == [("i", 1, "no slot is free")]
    assert compute.conductor.untouched == [state in {"without", "no domain"}]


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_guest_that_takes_its_time_to_let_go_keeps_its_action_alive(compute: Compute, is_ended: bool) -> None:
    """`device_detach_attempts` times `device_detach_timeout` may be more than the time of an action."""
    now = 0.0
    compute.ticks = lambda: now
    compute.restart()
    vif = Vif(port_id=PORT, mac_address="fa:16:3e:00:00:01", network_id="blue")
    compute.hypervisor.vifs["i"] = (vif,)
    detach = compute.hypervisor.detach_interface

    def slow(instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        nonlocal now
        for number in range(3):
            check()
            now += BEAT
            if is_ended and number == 1:
                compute.conductor.end_action("i")
        return detach(instance_uuid, vif, check)

    compute.hypervisor.detach_interface = slow  # type: ignore[method-assign]
    ask(compute, DETACH_INTERFACE, 1)
    assert compute.conductor.begun[:3] == [False, True, True][: 2 if is_ended else 3]
    assert bool(compute.hypervisor.vifs["i"]) == is_ended


# -- the conductor ends an action that its host still does --------------------------------------------------------------


@pytest.mark.parametrize("shuts_down", [True, False])
@pytest.mark.parametrize("action", [STOP, REBOOT_SOFT, RESCUE, REBUILD], ids=lambda action: action.kind)
def test_what_has_ended_while_the_guest_was_waited_for_changes_it_no_more(
    compute: Compute, action: ServerAction, shuts_down: bool
) -> None:
    """As after a deletion: the guest must not be rescued or started late."""
    compute.hypervisor.shuts_down = shuts_down
    compute.hypervisor.waits_for_guest = lambda cancelled: compute.conductor.end_action("i")
    compute.conductor.change("i", image=Image(id="own"))
    compute.hypervisor.calls.clear()
    ask(compute, action, 1)
    assert "shut_down" in compute.hypervisor.calls
    assert CHANGES.isdisjoint(compute.hypervisor.calls)
    assert compute.conductor.action_failures == []


def test_a_guest_is_not_shut_down_for_a_rescue_that_has_ended_while_its_image_came(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    compute.images.on_fetch = lambda check: compute.conductor.end_action("i")
    compute.conductor.change("i", image=Image(id="own"))
    ask(compute, RESCUE, 1)
    assert "shut_down" not in compute.hypervisor.calls
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_an_action_waits_for_its_conductor_before_it_changes_the_guest(compute: Compute) -> None:
    """Nothing is reported either: the conductor asks for it again."""
    compute.hypervisor.shuts_down = False
    instance = compute.conductor.commit_action("i", STOP, 1)
    away = lambda cancelled: setattr(compute.conductor, "on_call", compute.conductor.is_away)  # noqa: E731
    compute.hypervisor.waits_for_guest = away
    compute.hypervisor.calls.clear()
    send(compute, STOP, instance, 1)
    compute.run()
    assert CHANGES.isdisjoint(compute.hypervisor.calls)
    assert compute.conductor.action_failures == []
    compute.conductor.on_call = nothing
    compute.hypervisor.waits_for_guest = lambda cancelled: None
    send(compute, STOP, instance, 1)
    compute.run()
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)


def test_a_guest_has_all_the_time_to_shut_down_that_was_configured() -> None:
    """It may be longer than action_timeout: the host reports meanwhile that the action is in progress."""
    compute = Compute()
    compute.conf.set_override("wait_soft_reboot_seconds", 5000, group="libvirt")
    compute.start().boot("i")
    image = Image(id="own", properties={"os_shutdown_timeout": "100000"})
    compute.conductor.change("i", image=image)
    for number, action in enumerate([REBOOT_SOFT, STOP, START, RESCUE], 1):
        ask(compute, action, number)
    assert compute.hypervisor.timeouts == [5000.0, 100000.0, 100000.0]


def test_a_start_defines_the_domain_anew(compute: Compute) -> None:
    """It may have been left with a rescue disk."""
    ask(compute, STOP, 1)
    compute.hypervisor.calls.clear()
    ask(compute, START, 2)
    assert "start" in compute.hypervisor.calls


# -- shelved servers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "calls"),
    [
        (VmState.ACTIVE, ["shut_down", "snapshot"]),
        # It cannot hear.
        (VmState.PAUSED, ["power_off", "snapshot"]),
    ],
)
def test_a_guest_is_off_before_its_disk_is_written_for_a_shelve(
    compute: Compute, before: VmState, calls: list[str]
) -> None:
    compute.conductor.change("i", vm_state=before)
    compute.hypervisor.calls.clear()
    ask(compute, SHELVE, 1)
    assert [call for call in compute.hypervisor.calls if call in {"shut_down", "power_off", "snapshot"}] == calls
    steps = ["shelving", "shelving_image_pending_upload", "shelving_image_uploading"]
    assert list(dict.fromkeys(compute.conductor.progressed)) == steps
    assert [content for content, _ in compute.uploads.uploaded.values()] == [b"the disk"]
    assert state(compute) == (VmState.SHELVED, None, PowerState.SHUTDOWN)
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_a_guest_whose_image_cannot_be_uploaded_keeps_its_disk(compute: Compute) -> None:
    compute.uploads.refuse = errors.ServiceUnavailable("the image service is away")
    ask(compute, SHELVE, 1)
    assert compute.conductor.action_failures == [("i", 1, "the image service is away")]
    assert compute.domains() == {"i": PowerState.SHUTDOWN}


def test_an_offload_that_fails_leaves_the_guest_to_its_host(compute: Compute) -> None:
    """No audit goes on with it: the server may be started from its disk meanwhile."""
    compute.conductor.change("i", vm_state=VmState.SHELVED)
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    with compute.hypervisor_fails("destroy", error=errors.DiskFull("no"), times=1):
        ask(compute, SHELVE_OFFLOAD, 1)
    assert compute.conductor.action_failures == [("i", 1, "no")]
    assert compute.manager.collaborators.builder.domains.not_removed() == ()
    assert compute.used() == (1024, 10, 2)
    ask(compute, SHELVE_OFFLOAD, 2)
    assert (compute.domains(), compute.used()) == ({}, (0, 0, 0))


# -- no conductor hears how an action has ended -------------------------------------------------------------------------


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("action", [REBOOT_HARD, REBOOT_SOFT, RESCUE, REBUILD], ids=lambda action: action.kind)
def test_what_is_done_is_not_done_again_after_an_outage(action: ServerAction, restarted: bool, tmp_path: Path) -> None:
    compute = Compute(results=tmp_path).start()
    compute.boot("i", image=Image(id="own"))
    instance = compute.conductor.commit_action("i", action, 1)
    with compute.conductor_loses("action_succeeded"):
        send(compute, action, instance, 1)
        compute.run_through_errors()
    if restarted:
        compute.restart()
    compute.hypervisor.calls.clear()
    send(compute, action, instance, 1)
    compute.run()
    assert {*CHANGES, "shut_down", "prepare_rescue"}.isdisjoint(compute.hypervisor.calls)
    assert state(compute) == (action.ends_in, None, PowerState.RUNNING)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_remembered_as_well(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", REBOOT_HARD, 1)
    failing = compute.hypervisor_fails("hard_reboot", error=errors.DiskFull("no"), times=1)
    with failing, compute.conductor_loses("action_failed"):
        send(compute, REBOOT_HARD, instance, 1)
        compute.run_through_errors()
    send(compute, REBOOT_HARD, instance, 1)
    compute.run()
    assert compute.conductor.action_failures == [("i", 1, "no")]
    assert compute.hypervisor.calls.count("hard_reboot") == 1


def test_a_later_action_is_done_whatever_became_of_the_report_of_an_earlier_one(tmp_path: Path) -> None:
    compute = Compute(results=tmp_path).start()
    compute.boot("i")
    with compute.conductor_loses("action_succeeded"):
        send(compute, REBOOT_HARD, compute.conductor.commit_action("i", REBOOT_HARD, 1), 1)
        compute.run_through_errors()
    compute.conductor.end_action("i")
    ask(compute, STOP, 2)
    assert state(compute) == (VmState.STOPPED, None, PowerState.SHUTDOWN)
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_server_leaves_no_result(tmp_path: Path) -> None:
    compute = Compute(results=tmp_path).start()
    compute.boot("i")
    with compute.conductor_loses("action_succeeded"):
        send(compute, REBOOT_HARD, compute.conductor.commit_action("i", REBOOT_HARD, 1), 1)
        compute.run_through_errors()
    compute.delete("i")
    assert list(tmp_path.iterdir()) == []


def test_a_result_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text("half of it")
    assert UnreportedResults(tmp_path).of("i", 1, "req-1") is None


def test_a_rescue_that_is_not_wanted_any_more_does_not_wait_for_its_image(compute: Compute) -> None:
    compute.hypervisor.wants_image = True

    def deleted_meanwhile(check: Callable[[], None]) -> None:
        compute.manager.collaborators.actions.cancel("i")
        check()

    compute.images.on_fetch = deleted_meanwhile
    instance = compute.conductor.commit_action("i", RESCUE, 1)
    compute.manager.run_action(CTX, instance, 1, "rescue", HostArguments(rescue_image=Image(id="rescuer")))
    compute.run()
    assert compute.conductor.action_failures == []
    assert "rescue" not in compute.hypervisor.calls


@pytest.mark.parametrize("action", [REBOOT_HARD, SUSPEND, PAUSE], ids=lambda action: action.kind)
def test_a_failure_is_reported_with_the_guests_power_state(compute: Compute, action: ServerAction) -> None:
    operation = {"reboot_hard": "hard_reboot"}.get(action.kind, action.kind)
    with compute.hypervisor_fails(operation, error=errors.HypervisorUnavailable("libvirt does not answer")):
        ask(compute, action, 1)
    assert compute.conductor.failed_power_states == [PowerState.RUNNING]


def test_a_message_that_comes_late_does_nothing(compute: Compute) -> None:
    instance = compute.conductor.commit_action("i", STOP, 1)
    send(compute, STOP, instance, 1)
    send(compute, STOP, instance, 1)
    compute.run()
    ask(compute, START, 2)
    send(compute, STOP, instance, 1)
    compute.run()
    assert compute.hypervisor.calls.count("shut_down") == 1
    assert state(compute) == (VmState.ACTIVE, None, PowerState.RUNNING)


def test_an_operation_that_fails_is_reported_with_its_reason(compute: Compute) -> None:
    with compute.hypervisor_fails("shut_down", error=errors.HypervisorUnavailable("libvirt does not answer")):
        ask(compute, STOP, 1)
    assert compute.conductor.action_failures == [("i", 1, "libvirt does not answer")]
    assert state(compute)[:2] == (VmState.ACTIVE, None)


def test_a_stopped_server_is_not_stopped_again_once_a_start_is_in_progress(compute: Compute) -> None:
    """The audit has seen the domain run while the row still said stopped."""
    ask(compute, STOP, 1)
    compute.hypervisor.turn("i", PowerState.RUNNING)
    compute.manager.update_available_resource()
    compute.conductor.commit_action("i", START, 2)
    compute.hypervisor.calls.clear()
    compute.run()
    assert "shut_down" not in compute.hypervisor.calls


@pytest.mark.parametrize(("told", "expected"), [(None, 60.0), ("300", 300.0), ("0", 0.0), ("-5", 0.0), ("soon", 60.0)])
def test_an_image_may_say_how_long_its_guest_takes_to_shut_down(told: str | None, expected: float) -> None:
    properties = {} if told is None else {"os_shutdown_timeout": told}
    image = Image(id="an-image", status="active", disk_format="raw", properties=properties)
    instance = Instance(uuid="i", display_name="vm", flavor=FLAVOR, image=image)
    assert shutdown_timeout(instance, 60) == expected


def test_a_password_is_given_to_a_guest_that_runs(compute: Compute) -> None:
    ask(compute, CHANGE_PASSWORD, 7)
    assert compute.hypervisor.passwords == {"i": PASSWORD}
    assert PASSWORD not in repr(compute.conductor.__dict__)


def test_refusal_by_the_agent_is_reported_with_its_reason(compute: Compute) -> None:
    refused = errors.GuestAgentRefused("refused: too short", "too short")
    with compute.hypervisor_fails("set_admin_password", error=refused):
        ask(compute, CHANGE_PASSWORD, 7)
    assert compute.conductor.agent_reasons == ["too short"]


def test_a_guest_that_does_not_run_takes_no_password(compute: Compute) -> None:
    compute.hypervisor.turn("i", PowerState.PAUSED)
    ask(compute, CHANGE_PASSWORD, 7)
    assert compute.hypervisor.passwords == {}
    assert "instance i is not running" in str(compute.conductor.__dict__)
