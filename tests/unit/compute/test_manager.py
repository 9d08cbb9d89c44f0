"""A compute's life: builds, removals, its start, and what it does from time to time."""

import logging
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova import conf as configuration
from minova import errors
from minova.cmd.compute import make_manager as make_compute_manager
from minova.compute.instances.builds import failed
from minova.compute.manager import ComputeManager
from minova.context import RequestContext
from minova.objects.actions.images import CREATE_BACKUP, CREATE_IMAGE
from minova.objects.actions.power import REBOOT_HARD, STOP, SUSPEND
from minova.objects.catalogue.image import Image
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.service import Service
from minova.objects.requests.build_extras import GuestFile
from minova.objects.requests.request_spec import HostLimits
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.states import PowerState, TaskState, VmState
from minova.virt.driver.domains import GuestData
from tests.fakes.computes import CTX, FLAVOR, HOST, NODE, Compute
from tests.fakes.hypervisor import Hypervisor

RUNNING = PowerState.RUNNING
IMAGE = Image(id="an-image", status="active", disk_format="raw")
GONE = errors.HypervisorUnavailable("libvirt does not answer")


@pytest.fixture
def compute() -> Compute:
    return Compute().start()


def the_failure(compute: Compute) -> tuple[str, bool]:
    assert len(compute.conductor.failures) == 1
    return compute.conductor.failures[0].reason, compute.conductor.failures[0].retriable


# -- builds ------------------------------------------------------------------------------------------------------------


def test_a_build_ends_active_with_its_usage_in_the_row(compute: Compute) -> None:
    compute.conductor.calls.clear()
    compute.boot("i")
    instance = compute.conductor.instances["i"]
    assert (instance.vm_state, instance.task_state, instance.power_state) == (VmState.ACTIVE, None, RUNNING)
    assert (instance.host, instance.node) == (HOST, NODE)
    assert compute.used() == (1024, 10, 2)
    assert compute.domains() == {"i": RUNNING}
    assert compute.conductor.calls == ["claim_instance", "begin_attempt", "build_succeeded"]
    assert [step for _, _, step in compute.conductor.steps] == ["spawning"]


def test_a_lone_boot_asks_the_conductor_twice() -> None:
    compute = Compute(fresh_claim=60.0).start()
    compute.conductor.calls.clear()
    compute.boot("i")
    compute.manager.report_changes()
    assert compute.conductor.calls == ["claim_instance", "build_succeeded"]
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.row.current_workload == 0


def test_an_attempt_is_asked_for_again_when_its_claim_is_old() -> None:
    compute = Compute(fresh_claim=60.0).start()
    now = 0.0
    compute.ticks = lambda: now

    def pass_time(operation: str) -> None:
        nonlocal now
        now += 100.0 if operation == "prepare" else 0.0

    compute.hypervisor.on_call = pass_time
    compute.conductor.calls.clear()
    compute.boot("i")
    assert compute.conductor.calls == ["claim_instance", "begin_attempt", "build_succeeded"]


def test_a_build_that_fetches_its_image_begins_with_that(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute(fresh_claim=60.0).start()
    builder = compute.manager.collaborators.builder
    monkeypatch.setattr(compute.hypervisor, "needs_image", lambda: True)
    image = Image(id="image", name="i")
    assert builder._first_step(None) is TaskState.BLOCK_DEVICE_MAPPING
    assert builder._first_step(image) is TaskState.BLOCK_DEVICE_MAPPING
    compute.images.cached = True
    assert builder._first_step(image) is TaskState.SPAWNING


def test_an_older_conductor_is_asked_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Compute(fresh_claim=60.0).start()
    conductor: Any = compute.conductor
    claim_instance, build_succeeded = conductor.claim_instance, conductor.build_succeeded

    def claim(ctx: RequestContext, step: str | None = None, **arguments: Any) -> Any:
        if step is not None:
            raise errors.PeerTooOld("step needs conductor 1.6")
        return claim_instance(ctx, **arguments)

    def succeed(ctx: RequestContext, node: object = None, **arguments: Any) -> None:
        if node is not None:
            raise errors.PeerTooOld("node needs conductor 1.6")
        build_succeeded(ctx, **arguments)

    monkeypatch.setattr(conductor, "claim_instance", claim)
    monkeypatch.setattr(conductor, "build_succeeded", succeed)
    compute.conductor.calls.clear()
    compute.boot("i")
    compute.manager.report_changes()
    assert compute.conductor.calls == ["claim_instance", "begin_attempt", "build_succeeded", "save_compute_node"]
    assert compute.row.current_workload == 0


def test_the_same_cast_twice_builds_once(compute: Compute) -> None:
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    for _ in range(2):
        compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.hypervisor.calls.count("prepare") == 1
    assert compute.conductor.calls.count("build_succeeded") == 1


def test_a_lower_attempt_than_one_already_seen_is_ignored(compute: Compute) -> None:
    first = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    second = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.manager.build_and_run_instance(CTX, second)
    compute.manager.build_and_run_instance(CTX, first)
    compute.run()
    assert compute.conductor.calls.count("claim_instance") == 1
    assert [attempt for _, attempt, _ in compute.conductor.steps] == [2]


def test_a_late_repetition_after_a_restart_leaves_the_running_instance_alone(compute: Compute) -> None:
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    compute.restart()
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.domains() == {"i": RUNNING}
    assert compute.used() == (1024, 10, 2)
    assert compute.conductor.failures == []


def test_a_host_that_ran_out_of_room_says_so_and_may_be_retried_elsewhere(compute: Compute) -> None:
    compute.boot("i", limits=HostLimits(memory_mb=1024))
    reason, retriable = the_failure(compute)
    assert "Free memory 512.00 MB < requested 1024 MB" in reason
    assert retriable
    assert compute.used() == (0, 0, 0)


def test_a_node_that_the_driver_does_not_report_fails_with_its_name(compute: Compute) -> None:
    compute.boot("i", node="elsewhere")
    assert the_failure(compute) == ("Node elsewhere is not one of host host-1", True)


FAILURES = [
    ("prepare", errors.DiskFull("no room in /images"), True),
    ("prepare", GONE, True),
    ("power_on", GONE, True),
    ("power_on", RuntimeError("out of the blue"), True),
    ("prepare", errors.ImageUnacceptable("virtual size over the flavor's disk"), False),
    ("prepare", errors.HardwareNotOffered("this host has no such machine"), True),
]


@pytest.mark.parametrize(("operation", "error", "retriable"), FAILURES)
def test_a_build_that_fails_is_undone_and_reported(
    compute: Compute, operation: str, error: Exception, retriable: bool
) -> None:
    with compute.hypervisor_fails(operation, error=error):
        compute.boot("i")
    assert the_failure(compute) == (str(error), retriable)
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)


def test_a_bad_image_is_not_tried_elsewhere(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    compute.images.refuse = errors.ImageUnacceptable("it has a backing file")
    compute.boot("i", image=IMAGE)
    assert the_failure(compute) == ("it has a backing file", False)
    assert compute.used() == (0, 0, 0)


def raw_disk(compute: Compute, folder: Path, size: int) -> None:
    compute.hypervisor.wants_image = True
    compute.images.path = folder / "raw-disk"
    compute.images.path.touch()
    os.truncate(compute.images.path, size)


def test_the_images_file_reaches_the_driver(compute: Compute, tmp_path: Path) -> None:
    raw_disk(compute, tmp_path, 10 << 30)
    compute.boot("i", image=IMAGE)
    assert compute.hypervisor.images["i"] == tmp_path / "raw-disk"
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_password_files_and_zone_reach_the_driver(compute: Compute) -> None:
    files = (GuestFile(path="/x", contents="eA=="),)
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    carried: dict[str, Any] = {"injected_files": files, "admin_password": "s3cret", "availability_zone": "north"}
    compute.manager.build_and_run_instance(CTX, msgspec.structs.replace(message, **carried))
    compute.run()
    guest_data = GuestData(availability_zone="north", admin_password="s3cret", files=files)
    assert compute.hypervisor.guest_data["i"] == guest_data


def test_an_image_that_turns_out_larger_than_the_flavors_disk_is_refused(compute: Compute, tmp_path: Path) -> None:
    raw_disk(compute, tmp_path, (10 << 30) + 1)
    compute.boot("i", image=IMAGE)
    reason, retriable = the_failure(compute)
    assert "virtual size 10737418241 bytes > root disk 10 GB" in reason
    assert not retriable
    assert "prepare" not in compute.hypervisor.calls


def test_an_image_too_large_by_its_record_is_not_even_fetched(compute: Compute) -> None:
    compute.hypervisor.wants_image = True
    compute.boot("i", image=msgspec.structs.replace(IMAGE, virtual_size=11 << 30))
    assert not the_failure(compute)[1]
    assert compute.images.fetched == []


def test_a_file_of_another_format_than_declared_is_refused(compute: Compute, tmp_path: Path) -> None:
    raw_disk(compute, tmp_path, 1 << 20)
    compute.boot("i", image=msgspec.structs.replace(IMAGE, disk_format="qcow2"))
    assert the_failure(compute)[1] is False


def test_driver_without_images_fetches_none(compute: Compute) -> None:
    compute.boot("i", image=IMAGE)
    assert compute.images.fetched == []


def test_an_attempt_given_up_meanwhile_is_undone_without_a_word(compute: Compute) -> None:
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.hypervisor.on_call = lambda operation: compute.conductor.give_up("i") if operation == "prepare" else None
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)
    assert not {"build_failed", "build_succeeded"} & set(compute.conductor.calls)


def test_an_attempt_given_up_just_before_its_report_is_removed(compute: Compute) -> None:
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.conductor.on_call = lambda method: compute.conductor.give_up("i") if method == "build_succeeded" else None
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)


@pytest.mark.parametrize("method", ["claim_instance", "begin_attempt", "build_succeeded"])
@pytest.mark.parametrize("answers", [False, True], ids=["requests", "answers"])
def test_lost_report_is_sent_again(compute: Compute, method: str, answers: bool) -> None:
    with compute.conductor_loses(method, times=2, answers=answers):
        compute.boot("i")
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.used() == (1024, 10, 2)


@pytest.mark.parametrize("answers", [False, True], ids=["requests", "answers"])
def test_audit_sends_an_unheard_success_again(compute: Compute, answers: bool) -> None:
    with compute.conductor_loses("build_succeeded", answers=answers):
        compute.boot("i")
    assert compute.domains() == {"i": RUNNING}
    compute.manager.update_available_resource()
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.hypervisor.calls.count("prepare") == 1


def test_audit_sends_an_unheard_failure_again(compute: Compute) -> None:
    disk_full = errors.DiskFull("full")
    with compute.conductor_loses("build_failed"), compute.hypervisor_fails("prepare", error=disk_full):
        compute.boot("i")
    assert compute.conductor.failures == []
    compute.manager.update_available_resource()
    compute.run()
    assert the_failure(compute) == ("full", True)
    assert compute.used() == (0, 0, 0)


def test_a_build_whose_cast_was_lost_is_begun_by_the_audit(compute: Compute) -> None:
    compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.manager.update_available_resource()
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_a_clean_up_that_fails_is_tried_again_by_the_audit(compute: Compute) -> None:
    with compute.hypervisor_fails("power_on", "destroy", error=GONE):
        compute.boot("i")
    assert the_failure(compute) == (str(GONE), True)
    assert "i" in compute.domains()
    compute.manager.update_available_resource()
    compute.run()
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)


def test_what_is_left_of_a_build_is_not_removed_once_a_later_attempt_has_made_it_anew(compute: Compute) -> None:
    with compute.hypervisor_fails("power_on", "destroy", error=GONE):
        compute.boot("i")
    compute.manager.update_available_resource()
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.manager.build_and_run_instance(CTX, message)
    compute.queue.reverse()  # the build first, then the removals that the audit wants
    compute.run()
    assert compute.domains() == {"i": RUNNING}
    assert compute.used() == (1024, 10, 2)


def test_builds_failed_in_a_row_are_counted_until_one_succeeds(compute: Compute) -> None:
    for number in range(2):
        compute.boot(f"i{number}", limits=HostLimits(vcpu=0))
    compute.manager.report_changes()
    assert compute.row.stats["failed_builds"] == "2"
    compute.manager.update_available_resource()
    assert compute.row.stats["failed_builds"] == "2"
    compute.boot("good")
    compute.manager.report_changes()
    assert compute.row.stats["failed_builds"] == "0"


# -- removals ----------------------------------------------------------------------------------------------------------


def test_a_removal_gives_everything_back(compute: Compute) -> None:
    compute.boot("i")
    compute.conductor.calls.clear()
    compute.delete("i")
    assert compute.conductor.instances["i"].vm_state is VmState.DELETED
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)
    assert compute.conductor.calls == ["begin_removal", "save_compute_node", "instance_deleted"]


def test_what_is_not_there_counts_as_removed(compute: Compute) -> None:
    compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    for _ in range(2):
        compute.delete("i")
    assert compute.conductor.calls.count("instance_deleted") == 2


@pytest.mark.parametrize("uuid", ["i", "never-seen"])
def test_what_is_not_to_be_deleted_stays(compute: Compute, uuid: str) -> None:
    compute.boot("i")
    compute.manager.terminate_instance(CTX, uuid, None)
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}
    assert "instance_deleted" not in compute.conductor.calls


def test_a_removal_waits_for_a_conductor_that_says_that_it_is_wanted(compute: Compute) -> None:
    compute.boot("i")
    with compute.conductor_loses("begin_removal"):
        compute.delete("i")
    assert compute.domains() == {"i": PowerState.RUNNING}
    compute.delete("i")
    assert compute.domains() == {}


def test_a_removal_beside_an_older_conductor_asks_nothing(compute: Compute) -> None:
    def refuse(method: str) -> None:
        if method == "begin_removal":
            raise errors.PeerTooOld("begin_removal needs 1.9")

    compute.boot("i")
    compute.conductor.on_call = refuse
    compute.delete("i")
    assert compute.domains() == {}


def test_a_removal_before_its_build_leaves_nothing(compute: Compute) -> None:
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.delete("i")
    compute.manager.build_and_run_instance(CTX, message)
    compute.run()
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)
    assert compute.conductor.instances["i"].vm_state is VmState.DELETED


def test_an_audit_between_removal_and_its_report_leaves_no_usage_behind(compute: Compute) -> None:
    compute.boot("i")

    def audit_before(method: str) -> None:
        if method == "instance_deleted":
            compute.manager.update_available_resource()

    compute.conductor.on_call = audit_before
    compute.delete("i")
    assert compute.used() == (0, 0, 0)


def test_a_removal_without_a_hypervisor_is_not_reported(compute: Compute) -> None:
    compute.boot("i")
    with compute.hypervisor_fails("destroy", error=GONE):
        compute.delete("i")
    assert "instance_deleted" not in compute.conductor.calls
    compute.delete("i")
    assert compute.conductor.instances["i"].vm_state is VmState.DELETED


def test_uptime_is_the_drivers(compute: Compute) -> None:
    assert "load average" in compute.manager.get_host_uptime(CTX)


def test_console_output(compute: Compute) -> None:
    compute.boot("i")
    assert compute.manager.get_console_output(CTX, "i", 1) == "ready"
    with pytest.raises(errors.NotFound):
        compute.manager.get_console_output(CTX, "other", None)


# -- the start ---------------------------------------------------------------------------------------------------------


def test_at_its_start_it_registers_reports_adopts_and_audits_in_this_order() -> None:
    compute = Compute().start()
    assert compute.conductor.calls == [
        "register_service",
        "report_guests",
        "instances_of_host",
        "begin_audit",
        "finish_audit",
    ]
    assert compute.hypervisor.calls[0] == "init_host"
    service = compute.conductor.services[HOST, "minova-compute"]
    assert (service.topic, service.down_reason) == ("compute", None)


def killed_in(compute: Compute, operation: str) -> Compute:
    """The compute dies in this operation of a build, and starts again."""

    class Killed(BaseException):
        """Nothing of ours may catch it."""

    dead = False

    def die(name: str) -> None:
        nonlocal dead
        dead = dead or name == operation
        if dead:
            raise Killed

    compute.hypervisor.on_call = compute.conductor.on_call = die
    with pytest.raises(Killed):
        compute.boot("i")
    compute.hypervisor.on_call = compute.conductor.on_call = lambda name: None
    return compute.restart()


@pytest.mark.parametrize("operation", ["claim_instance", "begin_attempt", "prepare", "power_on", "build_succeeded"])
def test_a_build_in_which_the_compute_died_is_finished_by_the_next_start(compute: Compute, operation: str) -> None:
    killed_in(compute, operation).run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.domains() == {"i": RUNNING}
    assert compute.used() == (1024, 10, 2)
    assert compute.conductor.open == {}


def test_a_domain_that_runs_is_adopted_not_built_again(compute: Compute) -> None:
    killed_in(compute, "build_succeeded")
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE, "at once, without background work"
    assert compute.hypervisor.calls.count("prepare") == 1


ROWS = ("ran", "paused", "suspended", "rescued", "stopped")
BUSY = {
    "saved": CREATE_IMAGE,
    "backed up": CREATE_BACKUP,
    "to be suspended": SUSPEND,
    "to be stopped": STOP,
    "to be rebooted": REBOOT_HARD,
}
RUN_AGAIN = {"ran", "rescued", "saved", "backed up", "to be suspended"}


def after_a_power_cut(*, resumes: bool) -> Compute:
    """Every guest was switched off with its host, which starts again."""
    compute = Compute(resume_guests_state_on_host_boot=resumes).start()
    for name in (*ROWS, *BUSY):
        compute.boot(name)
    for name in ROWS[1:]:
        compute.conductor.change(name, vm_state=VmState(name), power_state=RUNNING)
    for number, (name, action) in enumerate(BUSY.items(), 1):
        compute.conductor.commit_action(name, action, number)
    for name, (node, domain) in compute.hypervisor._domains.items():
        compute.hypervisor._domains[name] = (node, msgspec.structs.replace(domain, power_state=PowerState.SHUTDOWN))
    return compute


def running(compute: Compute) -> set[str]:
    return {name for name, state in compute.domains().items() if state is RUNNING}


@pytest.mark.parametrize("resumes", [True, False])
def test_guests_that_a_reboot_of_the_host_switched_off_run_again_if_configured(resumes: bool) -> None:
    compute = after_a_power_cut(resumes=resumes)
    compute.restart()
    compute.run()
    compute.manager.report_changes()
    assert running(compute) == (RUN_AGAIN if resumes else set())
    assert compute.conductor.instances["ran"].vm_state is (VmState.ACTIVE if resumes else VmState.STOPPED)


def test_rescued_guest_runs_again_from_its_rescue_disk() -> None:
    compute = after_a_power_cut(resumes=True)
    compute.restart().run()
    assert compute.hypervisor.calls.count("rescue") == 1
    assert compute.conductor.instances["rescued"].vm_state is VmState.RESCUED


def test_start_of_the_service_does_not_wait_for_the_guests_and_reports_none_of_them_as_off() -> None:
    compute = after_a_power_cut(resumes=True)
    compute.restart()
    # The service is up: an audit, a comparison of power states and a heartbeat come before the first guest.
    assert running(compute) == set()
    compute.manager.heartbeat()
    compute.manager.update_available_resource()
    compute.manager.report_changes()
    for name in RUN_AGAIN:
        assert compute.conductor.instances[name].vm_state is (VmState.RESCUED if name == "rescued" else VmState.ACTIVE)
    compute.run()
    compute.manager.report_changes()
    assert running(compute) == RUN_AGAIN
    assert compute.conductor.instances["ran"].power_state is RUNNING


@pytest.mark.parametrize("error", [errors.DiskFull("no space"), OSError(5, "Input/output error", "disk")])
def test_a_guest_that_does_not_start_again_keeps_no_other_from_starting(error: Exception) -> None:
    compute = Compute(resume_guests_state_on_host_boot=True).start()
    for name in ("i", "j"):
        compute.boot(name)
        compute.hypervisor.turn(name, PowerState.SHUTDOWN)
    with compute.hypervisor_fails("start", error=error, times=1):
        compute.restart()
        compute.run()
    compute.manager.report_changes()
    assert compute.domains() == {"i": PowerState.SHUTDOWN, "j": RUNNING}
    assert compute.conductor.instances["i"].vm_state is VmState.STOPPED
    assert compute.conductor.instances["j"].vm_state is VmState.ACTIVE


def test_a_half_built_domain_is_undone_first(compute: Compute) -> None:
    killed_in(compute, "power_on")
    assert compute.domains() == {}
    compute.run()
    assert compute.domains() == {"i": RUNNING}


def test_the_domain_of_an_older_attempt_is_undone(compute: Compute) -> None:
    compute.hypervisor.add_domain("i", NODE, 1024, attempt=1)
    compute.conductor.commit_build("i", "other", NODE, FLAVOR)
    compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.restart()
    assert compute.domains() == {}
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE


def test_a_domain_whose_instance_was_deleted_meanwhile_is_destroyed(compute: Compute) -> None:
    compute.boot("i")
    compute.conductor.begin_delete("i")
    compute.conductor.instance_deleted(CTX, instance_uuid="i", host=HOST)
    compute.restart().run()
    assert compute.domains() == {}
    assert compute.used() == (0, 0, 0)


def test_a_domain_that_was_never_minovas_is_left_alone_and_counts(compute: Compute) -> None:
    compute.hypervisor.add_domain("somebodys", NODE, 300, ours=False)
    compute.restart().run()
    assert "somebodys" in compute.domains()
    assert compute.used() == (300, 0, 0)


def test_a_guest_that_shut_down_while_the_compute_was_away_is_reported(compute: Compute) -> None:
    compute.boot("i")
    compute.hypervisor.turn("i", PowerState.SHUTDOWN)
    compute.restart().manager.report_changes()
    assert compute.conductor.instances["i"].power_state is PowerState.SHUTDOWN


class Waits:
    """In place of an Event: notes each wait, and ends the trouble after some."""

    def __init__(self, waits: int, end: object) -> None:
        self.left = waits
        self.end = end

    def set(self) -> None:
        """No service stops here."""

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        if self.left == 0:
            self.end()  # type: ignore[operator]
        return False


def manager_that_waits(compute: Compute, waits: Waits) -> ComputeManager:
    return make_compute_manager(
        compute.conf,
        compute.hypervisor,
        compute.conductor,  # type: ignore[arg-type]
        host=HOST,
        images=compute.images,
        spawn=compute.queue.append,
        stopping=waits,  # type: ignore[arg-type]
    )


def test_while_the_hypervisor_is_away_at_the_start_the_service_says_so_and_waits() -> None:
    compute = Compute()
    seen = []

    def back() -> None:
        seen.append(compute.conductor.services[HOST, "minova-compute"].down_reason)
        compute.hypervisor.on_call = lambda operation: None

    with compute.hypervisor_fails(error=GONE):
        manager = manager_that_waits(compute, Waits(2, back))
        manager.init_host()
    assert seen == [str(GONE)]
    assert compute.conductor.services[HOST, "minova-compute"].down_reason is None


def test_without_a_conductor_at_the_start_it_waits_for_one() -> None:
    compute = Compute()
    with compute.conductor_loses("register_service", times=3):
        manager_that_waits(compute, Waits(9, lambda: None)).init_host()
    assert (HOST, "minova-compute") in compute.conductor.services


def test_settings_that_cannot_work_stop_the_start() -> None:
    compute = Compute()
    wrong = errors.InvalidConfiguration("vcpu_pin_set names CPU 99")
    with compute.hypervisor_fails("init_host", error=wrong), pytest.raises(errors.InvalidConfiguration):
        compute.start()


# -- from time to time -------------------------------------------------------------------------------------------------


def test_the_heartbeat_follows_the_conductors_interval(compute: Compute) -> None:
    compute.conductor.heartbeat_interval = 25.0
    assert compute.manager.heartbeat() == 25.0


def test_audits_follow_the_conductors_interval_where_it_is_longer_than_the_configured_one(compute: Compute) -> None:
    assert compute.manager.update_available_resource() == 60.0
    for told, followed in ((100.0, 100.0), (20.0, 60.0)):
        compute.conductor.audit_interval = told
        compute.manager.heartbeat()
        assert compute.manager.update_available_resource() == followed


def test_a_service_that_the_conductor_does_not_know_registers_again(compute: Compute) -> None:
    compute.conductor.services.clear()
    compute.manager.heartbeat()
    assert (HOST, "minova-compute") in compute.conductor.services


def test_a_hypervisor_that_goes_away_is_reported_and_audited_when_it_is_back(compute: Compute) -> None:
    def service() -> Service:
        return compute.conductor.services[HOST, "minova-compute"]

    with compute.hypervisor_fails(error=GONE):
        compute.manager.heartbeat()
    assert service().down_reason == str(GONE)
    compute.conductor.calls.clear()
    compute.manager.heartbeat()
    assert service().down_reason is None
    assert compute.conductor.calls == ["heartbeat", "begin_audit", "finish_audit"]
    compute.manager.heartbeat()
    assert compute.conductor.calls[3:] == ["heartbeat"]


INTERVALS = [(0, 60.0), (15, 15.0), (-1, None)]


@pytest.mark.parametrize(("option", "interval"), INTERVALS)
def test_the_interval_of_audits(option: int, interval: float | None) -> None:
    compute = Compute(update_resources_interval=option)
    tasks = {task.name: task.interval for task in compute.manager.periodic_tasks()}
    assert tasks.get("update_available_resource") == interval


def test_an_audit_that_fails_is_logged_with_its_node_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    compute = Compute(hypervisor=Hypervisor("a", "b")).start()
    broken = iter([RuntimeError("odd")])

    def fail_once(operation: str) -> None:
        if operation == "host_view":
            for error in broken:
                raise error

    compute.hypervisor.on_call = fail_once
    compute.conductor.calls.clear()
    compute.manager.update_available_resource()
    assert "Error updating resources for node a" in caplog.text
    assert compute.conductor.calls == ["begin_audit", "finish_audit"]
    compute.manager.update_available_resource()
    assert compute.conductor.calls == ["begin_audit", "finish_audit"] * 3


def test_bug_an_audit_that_fails_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """In an outage of the database each compute wrote a line at each audit."""
    compute = Compute(hypervisor=Hypervisor("a")).start()
    failing = True

    def fail(operation: str) -> None:
        if operation == "host_view" and failing:
            raise errors.HypervisorUnavailable("away")

    compute.hypervisor.on_call = fail
    caplog.set_level(logging.INFO)
    caplog.clear()
    for _ in range(100):
        compute.manager.update_available_resource()
    failing = False
    compute.manager.update_available_resource()
    compute.manager.update_available_resource()
    lines = [record.getMessage() for record in caplog.records if "node a" in record.getMessage()]
    assert len(lines) == 2, lines
    assert lines[0] == "Error updating resources for node a: away"
    assert lines[1].startswith("The audit of node a works again after")
    assert lines[1].endswith("and 100 failures")


def test_an_audit_records_the_hardware_of_guests_without_a_record(compute: Compute) -> None:
    chosen = ChosenHardware(machine_type="pc-q35-7.2", uefi=True)
    compute.boot("i")  # by an earlier release
    assert compute.conductor.instances["i"].system_metadata == {}
    compute.hypervisor.hardware = {"i": chosen, "other": chosen}
    for _ in range(2):
        compute.manager.update_available_resource()
    assert compute.conductor.instances["i"].system_metadata == chosen.recorded
    assert compute.conductor.calls.count("record_hardware") == 1


def test_bug_hardware_was_unknown_until_the_first_audit(compute: Compute) -> None:
    """A move in the first minute gave the guest another machine."""
    chosen = ChosenHardware(machine_type="pc-q35-7.2", uefi=True)
    compute.hypervisor.hardware = {"i": chosen}
    compute.boot("i")
    assert compute.conductor.instances["i"].system_metadata == chosen.recorded
    compute.manager.update_available_resource()
    assert "record_hardware" not in compute.conductor.calls


def test_an_older_conductor_takes_no_hardware(compute: Compute) -> None:
    served = compute.conductor.build_succeeded

    def without_hardware(*words: Any, **named: Any) -> None:
        if named.pop("hardware") is not None:
            raise errors.PeerTooOld("build_succeeded(hardware) needs conductor 1.9")
        served(*words, **named)

    compute.conductor.build_succeeded = without_hardware  # type: ignore[method-assign]
    compute.hypervisor.hardware = {"i": ChosenHardware(machine_type="pc-q35-7.2")}
    compute.boot("i")
    assert compute.conductor.instances["i"].vm_state == "active"
    assert compute.conductor.instances["i"].system_metadata == {}


def test_nodes_that_the_driver_no_longer_reports_are_deleted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    compute = Compute(hypervisor=Hypervisor("a", "b")).start()
    assert len(compute.conductor.inventories) == 2
    assert "delete_compute_nodes" not in compute.conductor.calls
    compute.hypervisor.nodes = ("b",)
    compute.manager.update_available_resource()
    assert "Deleting orphan compute node a" in caplog.text
    assert list(compute.conductor.nodes) == [(HOST, "b")]
    assert len(compute.conductor.inventories) == 1
    compute.boot("i", node="a")
    assert the_failure(compute)[0] == "Node a is not one of host host-1"


def test_rows_of_nodes_that_vanished_before_the_start_are_deleted_too() -> None:
    compute = Compute(hypervisor=Hypervisor("a", "b")).start()
    compute.hypervisor.nodes = ("a",)
    compute.restart()
    assert list(compute.conductor.nodes) == [(HOST, "a")]


def test_many_changes_of_power_state_go_in_one_message(compute: Compute) -> None:
    for uuid in ("i", "j"):
        compute.boot(uuid)
    for state in (PowerState.PAUSED, PowerState.SHUTDOWN):
        compute.hypervisor.turn("i", state)
    compute.hypervisor.turn("j", PowerState.CRASHED)
    compute.conductor.calls.clear()
    with compute.conductor_loses("report_power_states", times=1), pytest.raises(errors.ServiceUnavailable):
        compute.manager.report_changes()
    compute.manager.report_changes()
    compute.manager.report_changes()
    # The first was lost; the second was answered that these instances would change, so that their states were read again.
    assert compute.conductor.calls.count("report_power_states") == 3
    assert compute.conductor.instances["i"].power_state is PowerState.SHUTDOWN
    assert compute.conductor.instances["j"].power_state is PowerState.CRASHED


def test_when_nothing_changed_nothing_is_sent(compute: Compute) -> None:
    compute.boot("i")
    compute.manager.report_changes()
    compute.conductor.calls.clear()
    compute.manager.report_changes()
    assert compute.conductor.calls == []


def test_an_unexpected_domain_found_before_a_later_attempt_began_here_is_left_alone(compute: Compute) -> None:
    compute.boot("i")
    compute.manager.collaborators.builder.domains.records.forget("i")  # its success was not accepted
    row = compute.conductor.instances["i"]
    compute.conductor.instances["i"] = msgspec.structs.replace(row, host=None, node=None, vm_state=VmState.BUILDING)
    compute.manager.update_available_resource()
    message = compute.conductor.commit_build("i", HOST, NODE, FLAVOR)
    compute.manager.build_and_run_instance(CTX, message)
    compute.queue.reverse()  # the build first, then the removal of what the audit found
    compute.run()
    assert compute.conductor.instances["i"].vm_state is VmState.ACTIVE
    assert compute.domains() == {"i": RUNNING}


def test_an_instance_in_a_task_is_not_compared_with_its_domain(compute: Compute) -> None:
    compute.boot("i")
    compute.conductor.begin_delete("i")
    compute.hypervisor.destroy("i")
    compute.manager.update_available_resource()
    compute.manager.report_changes()
    assert "report_power_states" not in compute.conductor.calls


# -- an audit that people ask for ----------------------------------------------------------------------------------------


def test_an_audit_asked_for_answers_what_it_corrected_and_tells_the_conductor(compute: Compute) -> None:
    compute.boot("i")
    assert compute.manager.audit_node(CTX, NODE) == NodeAudit()
    compute.hypervisor.add_domain("stranger", NODE, 256, ours=False)
    audit_node = compute.manager.audit_node(CTX, NODE)
    assert [str(drift) for drift in audit_node.corrected] == ["memory_mb_used from 1536 to 1792"]
    assert audit_node.orphans == {"stranger": 256}
    assert list(compute.conductor.audits.values()) == [audit_node]


def test_node_of_another_host_is_not_audited() -> None:
    compute = Compute().start()
    with pytest.raises(errors.NotFound, match="Node elsewhere is not one of host host-1"):
        compute.manager.audit_node(CTX, "elsewhere")


# -- a configuration that is read again ----------------------------------------------------------------------------------


def reread(compute: Compute, path: Path, text: str) -> None:
    path.write_text(f"[DEFAULT]\n{text}\n")
    compute.conf.mutate_config_files()
    compute.manager.update_available_resource()


@pytest.fixture
def with_file(tmp_path: Path) -> tuple[Compute, Path]:
    path = tmp_path / "minova.conf"
    path.write_text("[DEFAULT]\nreserved_host_memory_mb = 512\n")
    compute = Compute()
    compute.conf = configuration.load([], "test", files=[str(path)])
    return compute.restart(), path


def test_reserved_amounts_and_ratios_change_with_the_next_audit(with_file: tuple[Compute, Path]) -> None:
    compute, path = with_file
    compute.boot("i")
    reread(compute, path, "reserved_host_memory_mb = 1024\nreserved_host_cpus = 2\ncpu_allocation_ratio = 2.5")
    assert (compute.row.memory_mb_used, compute.row.vcpus_used) == (1024 + 1024, 2 + 2)
    by_class = {inventory.resource_class: inventory for inventory in compute.conductor.inventories[compute.row.uuid]}
    assert (by_class["VCPU"].reserved, by_class["VCPU"].allocation_ratio) == (2, 2.5)
    assert by_class["MEMORY_MB"].reserved == 1024
    assert [audit.corrected for audit in compute.conductor.audits.values() if audit] == [()]


def test_more_reserved_than_there_is_stays_as_it_was(
    with_file: tuple[Compute, Path], caplog: pytest.LogCaptureFixture
) -> None:
    compute, path = with_file
    reread(compute, path, "reserved_host_memory_mb = 99999")
    assert compute.row.memory_mb_used == 512
    assert "Reserved amounts and ratios stay as they were: [DEFAULT] reserved_host_memory_mb = 99999" in caplog.text


def test_what_becomes_of_domains_of_deleted_instances_may_change(with_file: tuple[Compute, Path]) -> None:
    compute, path = with_file
    path.write_text("[DEFAULT]\nrunning_deleted_instance_action = log\n")
    compute.conf.mutate_config_files()
    compute.boot("i")
    compute.conductor.begin_delete("i")
    compute.conductor.instance_deleted(CTX, instance_uuid="i", host=HOST)
    compute.manager.update_available_resource()
    compute.run()
    assert compute.domains() == {"i": RUNNING}


def test_hardware_that_a_host_never_offered_is_no_fault_of_it() -> None:
    assert not failed(errors.HardwareNotOffered("this host has no such machine")).fault_of_host
    assert not failed(errors.SecretsNotConfigured("the conductor has no key")).fault_of_host
    assert failed(GONE).fault_of_host


@pytest.mark.parametrize("error", [errors.ImageUnacceptable("x"), errors.GuestDataUnacceptable("x")])
def test_what_a_request_has_caused_is_no_fault_of_its_host(error: errors.MinovaError) -> None:
    """Else a user could keep other users' servers away from every host by bad user data."""
    outcome = failed(error)
    assert (outcome.fault_of_host, outcome.retriable) == (False, False)


def test_bad_input_does_not_count_as_failed_builds(compute: Compute) -> None:
    with compute.hypervisor_fails("prepare", error=errors.GuestDataUnacceptable("too large")):
        compute.boot("i")
    compute.manager.report_changes()
    assert compute.row.stats.get("failed_builds", "0") == "0"
