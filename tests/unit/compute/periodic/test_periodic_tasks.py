"""What a compute does from time to time so that nothing is left behind."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova import errors
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import GuestsAnswer
from minova.virt.driver.disks import LeftDisks
from tests.fakes.computes import CTX, NODE, Compute
from tests.fakes.hypervisor import Hypervisor

RUNNING = PowerState.RUNNING
ALWAYS = [
    "heartbeat",
    "report_changes",
    "update_available_resource",
    "bound_console_logs",
    "refresh_interfaces",
    "end_snapshots",
    "report_guests",
    "watch_guests_in_trouble",
    "attach_broken_disks",
]


def work(compute: Compute, name: str) -> None:
    """One round of a periodic task, and what comes of it."""
    (task,) = [task for task in compute.manager.periodic_tasks() if task.name == name]
    task.work()
    compute.run()


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {},
            {"sync_power_states": 600, "cleanup_running_deleted_instances": 1800, "run_image_cache_manager": 2400},
        ),
        (
            {"sync_power_state_interval": 0, "image_cache.manager_interval": 0},
            {
                "sync_power_states": 60,
                "cleanup_running_deleted_instances": 1800,
                "run_image_cache_manager": 60,
            },
        ),
        (
            {
                "sync_power_state_interval": -1,
                "running_deleted_instance_poll_interval": 0,
                "image_cache.manager_interval": -1,
            },
            {},
        ),
    ],
)
def test_intervals_are_those_of_novas_options(options: dict[str, Any], wanted: dict[str, float]) -> None:
    compute = Compute(**{name: value for name, value in options.items() if "." not in name})
    for name, value in options.items():
        if "." in name:
            compute.conf.set_override(name.partition(".")[2], value, group=name.partition(".")[0])
    tasks = {task.name: task.interval for task in compute.restart().manager.periodic_tasks()}
    assert {name: every for name, every in tasks.items() if name not in ALWAYS} == wanted


# -- power states ------------------------------------------------------------------------------------------------------


def test_unreported_power_states_reach_their_rows(caplog: pytest.LogCaptureFixture) -> None:
    compute = Compute().start()
    for uuid in ("shut", "killed", "same"):
        compute.boot(uuid)
    compute.hypervisor.watch(lambda uuid, state: None)
    compute.hypervisor.turn("shut", PowerState.SHUTDOWN)
    compute.hypervisor.destroy("killed")
    work(compute, "sync_power_states")
    compute.manager.report_changes()
    states = {uuid: instance.power_state for uuid, instance in compute.conductor.instances.items()}
    assert states == {"shut": PowerState.SHUTDOWN, "killed": PowerState.NOSTATE, "same": RUNNING}
    assert "found 3 instances in the database and 2 instances on the hypervisor" in caplog.text


def test_power_state_that_changed_back_is_not_reported() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.hypervisor.watch(lambda uuid, state: None)
    compute.hypervisor.turn("i", PowerState.PAUSED)

    def back(operation: str) -> None:
        if operation == "power_state":
            compute.hypervisor.turn("i", RUNNING)

    compute.hypervisor.on_call = back
    work(compute, "sync_power_states")
    compute.manager.report_changes()
    assert "report_power_states" not in compute.conductor.calls


# -- domains of deleted instances --------------------------------------------------------------------------------------


def compute_with_outlived_domain(action: str, **options: Any) -> Compute:
    """An instance was deleted while its host could not be asked; beside it is a domain that is not minova's."""
    compute = Compute(running_deleted_instance_action=action, **options).start()
    compute.boot("i")
    compute.conductor.begin_delete("i")
    compute.conductor.instance_deleted(CTX, instance_uuid="i", host="host-1")
    compute.hypervisor.add_domain("stranger", NODE, 256, ours=False)
    return compute


@pytest.mark.parametrize(
    ("action", "options", "left", "said"),
    [
        ("reap", {}, {}, "instance-i is still here: reap"),
        ("reap", {"running_deleted_instance_timeout": 61}, {"i": RUNNING}, None),
        ("reap", {"running_deleted_instance_timeout": 60}, {}, "is still here: reap"),
        ("shutdown", {}, {"i": PowerState.SHUTDOWN}, "is still here: shutdown"),
        ("log", {}, {"i": RUNNING}, "is still here: log"),
        ("noop", {}, {"i": RUNNING}, None),
    ],
)
def test_a_domain_that_outlived_its_instance(
    action: str, options: dict[str, Any], left: dict[str, int], said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    compute = compute_with_outlived_domain(action, **options)
    compute.conductor.deleted_for = 60.0
    work(compute, "cleanup_running_deleted_instances")
    assert compute.domains() == {**left, "stranger": RUNNING}
    assert ("is still here" in caplog.text) == (said is not None)


@pytest.mark.parametrize(("action", "left"), [("reap", {}), ("log", {"i": RUNNING})])
def test_an_audit_does_not_remove_what_the_clean_up_leaves(action: str, left: dict[str, int]) -> None:
    compute = compute_with_outlived_domain(action)
    compute.manager.update_available_resource()
    compute.run()
    assert compute.domains() == {**left, "stranger": RUNNING}


def test_outlived_domain_of_a_removed_node_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    compute = compute_with_outlived_domain("log")
    compute.conductor.deleted_for = 60.0
    work(compute, "cleanup_running_deleted_instances")
    compute.hypervisor.nodes = ("another",)
    caplog.clear()
    work(compute, "cleanup_running_deleted_instances")
    assert "is still here" not in caplog.text


@pytest.mark.parametrize("name", ["cleanup_running_deleted_instances", "refresh_interfaces"])
def test_what_may_have_changed_while_the_service_was_away_is_done_at_its_start(name: str) -> None:
    (task,) = [periodic_task for periodic_task in Compute().manager.periodic_tasks() if periodic_task.name == name]
    assert task.at_once


# -- the image cache ---------------------------------------------------------------------------------------------------


def old_base(instances_path: Path) -> Path:
    """A base image in the cache that nothing has used for more than a day."""
    path = instances_path / "_base" / ("ab" * 32)
    path.parent.mkdir()
    path.write_bytes(b"image")
    old = time.time() - 90000
    os.utime(path, (old, old))
    return path


@pytest.mark.parametrize(
    ("wanted", "in_use", "left"),
    [(True, frozenset(), False), (True, frozenset({"ab" * 32}), True), (False, frozenset(), True)],
)
def test_old_bases_that_no_disk_stands_on_are_removed(
    tmp_path: Path, wanted: bool, in_use: frozenset[str], left: bool
) -> None:
    compute = Compute(instances_path=str(tmp_path))
    compute.conf.set_override("remove_unused_base_images", wanted, group="image_cache")
    compute.hypervisor.bases = in_use
    path = old_base(tmp_path)
    work(compute, "run_image_cache_manager")
    assert path.exists() == left


def test_no_base_is_removed_while_a_disk_of_unknown_format_may_stand_on_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bases_in_use() -> frozenset[str]:
        raise errors.UnknownDiskFormat("No format is written down for /i/x/disk")

    compute = Compute(instances_path=str(tmp_path))
    monkeypatch.setattr(compute.hypervisor, "bases_in_use", bases_in_use)
    path = old_base(tmp_path)
    work(compute, "run_image_cache_manager")
    assert path.exists()
    assert "No base image is removed from the cache: No format is written down for /i/x/disk" in caplog.text


# -- rescues -----------------------------------------------------------------------------------------------------------


def test_rescued_guests_get_their_disks_when_their_systems_have_booted() -> None:
    compute = Compute().start()
    work(compute, "attach_broken_disks")
    compute.hypervisor.broken = {"a": False, "b": True}
    work(compute, "attach_broken_disks")
    assert compute.hypervisor.broken == {"a": False}
    compute.hypervisor.broken["a"] = True
    work(compute, "attach_broken_disks")
    assert compute.hypervisor.broken == {}


# -- console logs ------------------------------------------------------------------------------------------------------


def test_console_logs_are_bounded_every_ten_seconds() -> None:
    compute = Compute()
    (task,) = [
        periodic_task
        for periodic_task in compute.manager.periodic_tasks()
        if periodic_task.name == "bound_console_logs"
    ]
    assert task.interval == 10
    work(compute, "bound_console_logs")
    assert compute.hypervisor.calls[-1] == "bound_console_logs"


# -- bridges -----------------------------------------------------------------------------------------------------------


def test_a_bridge_that_goes_away_is_audited_at_once_and_again_until_the_conductor_knows() -> None:
    hypervisor = Hypervisor(NODE)
    hypervisor.present_bridges = {"dc1": "br0"}
    compute = Compute(hypervisor=hypervisor)
    compute.conf.set_override("bridge_mappings", {"dc1": "br0"}, group="networks")
    compute = compute.restart().start()

    def audits() -> int:
        return hypervisor.calls.count("host_view")

    before = audits()
    work(compute, "watch_bridges")
    assert audits() == before
    hypervisor.present_bridges = {}

    def unreachable(operation: str) -> None:
        if operation == "available_nodes":
            raise errors.HypervisorUnavailable("away")

    hypervisor.on_call = unreachable
    work(compute, "watch_bridges")
    hypervisor.on_call = lambda operation: None
    work(compute, "watch_bridges")
    work(compute, "watch_bridges")
    assert audits() == before + 1


def test_a_bridge_that_flaps_is_told_as_it_is_at_the_end() -> None:
    """The audit looks itself: what it has sent is not what was seen before it."""
    hypervisor = Hypervisor(NODE)
    hypervisor.present_bridges = {"dc1": "br0"}
    compute = Compute(hypervisor=hypervisor)
    compute.conf.set_override("bridge_mappings", {"dc1": "br0"}, group="networks")
    compute = compute.restart().start()
    hypervisor.present_bridges = {}

    def flap(operation: str) -> None:
        if operation == "host_view":
            hypervisor.present_bridges = {"dc1": "br0"}

    hypervisor.on_call = flap
    work(compute, "watch_bridges")
    hypervisor.on_call = lambda operation: None
    (told,) = [node.bridges for node in compute.conductor.nodes.values()]
    hypervisor.present_bridges = {}
    work(compute, "watch_bridges")
    (last,) = [node.bridges for node in compute.conductor.nodes.values()]
    assert (told, last) == ({"dc1": "br0"}, {})


# -- reports of guests -------------------------------------------------------------------------------------------------


def test_a_report_has_all_guests_and_sends_the_records_that_are_wanted() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.hypervisor.disks_left.append(LeftDisks(uuid="lost", attempt=2, disk_gb=3))
    compute.conductor.guests_answer = GuestsAnswer(wanted=("i",))
    compute.manager.collaborators.periodic_tasks.report_guests()
    marks = {mark.uuid: mark for mark in compute.conductor.guests}
    assert (marks["i"].attempt, marks["i"].has_domain, marks["i"].has_record) == (1, True, True)
    assert (marks["lost"].attempt, marks["lost"].has_domain, marks["lost"].disk_gb) == (2, False, 3)
    assert [record.instance.uuid for record in compute.conductor.guest_records] == ["i"]


def test_a_guest_that_is_newer_than_its_row_is_not_stopped() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.instances["i"] = msgspec.structs.replace(
        compute.conductor.instances["i"], vm_state=VmState.STOPPED, power_state=PowerState.SHUTDOWN
    )
    compute.conductor.guests_answer = GuestsAnswer(newer=("i",))
    compute.manager.collaborators.periodic_tasks.report_guests()
    compute.manager.collaborators.periodic_tasks.sync_power_states()
    compute.run()
    assert compute.domains() == {"i": PowerState.RUNNING}


def test_a_guest_that_an_operator_removes_goes() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.guests_answer = GuestsAnswer(remove=("i", "unknown"))
    compute.manager.collaborators.periodic_tasks.report_guests()
    compute.run()
    assert compute.domains() == {}


def test_reports_are_numbered_in_their_order() -> None:
    compute = Compute().start()
    compute.boot("i")
    compute.conductor.guests_answer = GuestsAnswer(wanted=("i",))
    for _ in range(3):
        compute.manager.collaborators.periodic_tasks.report_guests()
    numbers = compute.conductor.report_numbers
    assert len(numbers) >= 6, "marks and records"
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


def test_a_name_of_several_lines_is_one_line_in_a_report() -> None:
    compute = Compute().start()
    compute.boot("i")
    records = compute.manager.collaborators.builder.domains.records
    record = records.of("i")
    assert record is not None
    named = msgspec.structs.replace(record.instance, display_name="a\nb\x1b\u2028" + "c" * 300)
    records.keep(msgspec.structs.replace(record, instance=named))
    compute.manager.collaborators.periodic_tasks.report_guests()
    assert [mark.name for mark in compute.conductor.guests] == ["ab" + "c" * 253]
