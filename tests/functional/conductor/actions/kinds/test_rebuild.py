"""Rebuilds: the server's image and attributes, before and after its guest is changed; and the scheduler's "no"."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.db.servers import instances
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import GuestFile
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, ChosenHardware
from minova.objects.servers.states import VmState
from tests.functional.conductor.actions.engine.test_requests import report, succeed
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request

NEW, KERNEL = "6d0c8a5e-0000-4000-8000-00000000000b", "6d0c8a5e-0000-4000-8000-00000000000c"
AFTER = (NEW, KERNEL, "renamed", {"k": "v"})


def ask(harness: ConductorHarness, uuid: str, **more: Any) -> int:
    image = {"id": NEW, "name": "new", "disk_format": "raw", "properties": {"kernel_id": KERNEL}}
    arguments = {"image": image, "changes": {"display_name": "renamed", "metadata_": {"k": "v"}}, **more}
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="rebuild", arguments=arguments)
    return harness.action_id(uuid)


def shown(harness: ConductorHarness, uuid: str) -> tuple[str, str, str, dict[str, Any]]:
    row = harness.instance(uuid)
    return row.image_ref, row.kernel_id, row.display_name, row.metadata_


@pytest.mark.parametrize("before", [VmState.ACTIVE, VmState.STOPPED, VmState.ERROR])
def test_a_rebuild_goes_through_novas_states(harness: ConductorHarness, before: VmState) -> None:
    uuid = harness.active()
    harness.bring_to(uuid, before)
    held = harness.allocated()
    files = [{"path": "/a", "contents": "YQ=="}]
    report_fields = report(harness, uuid, ask(harness, uuid, files=files, admin_password="p"))
    assert harness.state(uuid) == f"{before}/rebuilding on a"
    assert shown(harness, uuid) == AFTER
    sent, received = harness.hosts["a"].instances[-1], harness.hosts["a"].arguments[-1]
    assert (sent.image and sent.image.name, sent.display_name) == ("new", "renamed")
    assert (received.admin_password, [*received.injected_files]) == ("p", [GuestFile(path="/a", contents="YQ==")])
    harness.conductor.begin_action(CTX, **report_fields)
    assert harness.state(uuid) == f"{before}/rebuild_block_device_mapping on a"
    for _ in range(2):
        harness.conductor.begin_action(CTX, **report_fields, again=True)
        assert harness.state(uuid) == f"{before}/rebuild_spawning on a"
    launched = harness.instance(uuid).launched_at
    harness.now += 5
    succeed(harness, uuid, report_fields["action_id"], power_state=1)
    after = VmState.STOPPED if before is VmState.STOPPED else VmState.ACTIVE
    assert harness.state(uuid) == f"{after}/None on a"
    assert harness.instance(uuid).launched_at > launched  # type: ignore[operator]
    assert shown(harness, uuid) == AFTER
    assert harness.allocated() == held
    # Files and password were in the task alone.
    assert harness.task(uuid) is None
    assert harness.actions(uuid)[-1] == ("rebuild", "Success")


@pytest.mark.parametrize("how", ["report", "forced down", "too old"])
def test_before_the_disks_are_touched_a_failure_leaves_all_as_before(harness: ConductorHarness, how: str) -> None:
    uuid = harness.active()
    before = shown(harness, uuid)
    harness.hosts["a"].old = how == "too old"
    harness.conductor.start_action(
        new_request(),
        instance_uuid=uuid,
        action="rebuild",
        arguments={"image": {"id": NEW}, "changes": {"display_name": "x"}},
    )
    if how != "too old":
        report_fields = report(harness, uuid, harness.action_id(uuid))
        harness.conductor.begin_action(CTX, **report_fields)
        fail(harness, report_fields, how)
    assert harness.state(uuid) == "active/None on a"
    assert shown(harness, uuid) == before
    assert harness.fault(uuid)


@pytest.mark.parametrize("how", ["report", "forced down"])
def test_once_the_disks_are_touched_a_failure_is_an_error(harness: ConductorHarness, how: str) -> None:
    """A report and a host that was forced down are alike, also where the host has begun again: its old disk may be gone."""
    uuid = harness.active()
    report_fields = report(harness, uuid, ask(harness, uuid))
    for again in (False, True, False):
        harness.conductor.begin_action(CTX, **report_fields, again=again)
    fail(harness, report_fields, how)
    assert harness.state(uuid) == "error/None on a"
    assert shown(harness, uuid) == AFTER
    assert harness.fault(uuid)
    if how == "report":
        succeed(harness, uuid, ask(harness, uuid), power_state=1)
        assert harness.state(uuid) == "active/None on a"


@pytest.mark.parametrize("vm_state", ["active", "error"])
@pytest.mark.parametrize("changed", [False, True])
def test_a_reset_puts_the_old_image_back_while_the_disks_are_as_before(
    harness: ConductorHarness, vm_state: str, changed: bool
) -> None:
    uuid = harness.active()
    before = shown(harness, uuid)
    report_fields = report(harness, uuid, ask(harness, uuid))
    harness.conductor.begin_action(CTX, **report_fields)
    if changed:
        harness.conductor.begin_action(CTX, **report_fields, again=True)
    harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state=vm_state)
    assert harness.state(uuid) == f"{vm_state}/None on a"
    assert shown(harness, uuid) == (AFTER if changed else before)
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report_fields, again=True)


@pytest.mark.parametrize("kind", ["rebuild", "reboot_soft"])
def test_a_host_that_goes_on_after_a_wait_gets_its_whole_time_again(harness: ConductorHarness, kind: str) -> None:
    """A host that begins anew, after each of its crashes perhaps, does not."""
    uuid = harness.active()
    report_fields = report(harness, uuid, ask(harness, uuid) if kind == "rebuild" else harness.act(uuid, kind))
    deadlines = []
    for again in (False, False, True):
        harness.now += 50
        harness.conductor.begin_action(CTX, **report_fields, again=again)
        task = harness.task(uuid)
        assert task is not None
        deadlines.append(task.deadline)
    first, second, after = deadlines
    assert (second - first, after - second) == (0, 150)


@pytest.mark.parametrize("end", ["done", "before the disks change", "afterwards"])
def test_a_rebuilt_guest_chooses_its_hardware_anew(harness: ConductorHarness, end: str) -> None:
    uuid, chosen = harness.active(), ChosenHardware(machine_type="pc-q35-7.2")
    harness.conductor.record_hardware(CTX, host="a", chosen={uuid: chosen})
    report_fields = report(harness, uuid, ask(harness, uuid))
    harness.conductor.begin_action(CTX, **report_fields)
    if end != "before the disks change":
        harness.conductor.begin_action(CTX, **report_fields, again=True)
    if end == "done":
        succeed(harness, uuid, report_fields["action_id"], power_state=1)
    else:
        fail(harness, report_fields, "report")
    kept = chosen.recorded.items() <= harness.instance(uuid).system_metadata.items()
    assert kept == (end == "before the disks change")
    assert (MACHINE_TYPE in harness.instance(uuid).system_metadata) == kept


def test_bug_hardware_of_a_rebuilt_guest_was_unknown_until_the_next_audit(harness: ConductorHarness) -> None:
    """A move in that minute gave the guest another machine."""
    uuid = harness.active()
    former, chosen = ChosenHardware(machine_type="pc-q35-7.2"), ChosenHardware(machine_type="pc-i440fx-7.2", uefi=True)
    harness.conductor.record_hardware(CTX, host="a", chosen={uuid: former})
    report_fields = report(harness, uuid, ask(harness, uuid))
    harness.conductor.begin_action(CTX, **report_fields)
    harness.conductor.action_succeeded(CTX, **report_fields, power_state=1, hardware=chosen)
    assert chosen.recorded.items() <= harness.instance(uuid).system_metadata.items()
    # Of an action that chooses none.
    report_fields = report(harness, uuid, harness.act(uuid, "reboot_hard"))
    harness.conductor.action_succeeded(CTX, **report_fields, power_state=1, hardware=former)
    assert chosen.recorded.items() <= harness.instance(uuid).system_metadata.items()


def fail(harness: ConductorHarness, asked: dict[str, Any], how: str) -> None:
    if how == "report":
        harness.conductor.action_failed(CTX, **asked, reason="no image", untouched=True, power_state=4)
    else:
        harness.force_down("a")


def test_a_repeated_message_is_the_same(harness: ConductorHarness) -> None:
    uuid = harness.active()
    ask(harness, uuid, admin_password="p")
    harness.now += 20
    harness.beat()
    assert harness.hosts["a"].arguments == [HostArguments(admin_password="p")] * 2
    first, second = harness.hosts["a"].instances
    assert first.image == second.image


def test_a_host_that_does_not_serve_the_image_is_a_no_with_its_reason_before_anything_happens(
    harness: ConductorHarness,
) -> None:
    uuid = harness.active()
    before = shown(harness, uuid)
    harness.scheduler.refuses_previews = "ImagePropertiesFilter removed 1"
    with pytest.raises(errors.BadRequest, match=r"No valid host was found.*ImagePropertiesFilter removed 1"):
        ask(harness, uuid)
    assert (harness.state(uuid), shown(harness, uuid)) == ("active/None on a", before)
    assert harness.actions(uuid) == [("create", "Success")]
    spec = harness.scheduler.specs[-1]
    assert (spec.force_hosts, spec.is_rebuild, spec.resources, spec.image and spec.image.id) == (("a",), True, {}, NEW)


def test_the_own_image_asks_no_scheduler(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.scheduler.refuses_previews = "no"
    with harness.db.read() as session:
        image = msgspec.to_builtins(instances.by_uuids(session, [uuid])[uuid].image)
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="rebuild", arguments={"image": image})
    assert harness.state(uuid) == "active/rebuilding on a"


def test_bug_changed_properties_of_the_own_image_asked_no_scheduler(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.scheduler.refuses_previews = "COMPUTE_SOUND_MODEL_ICH9 is missing"
    image = {"id": harness.instance(uuid).image_ref, "properties": {"hw_sound_model": "ich9"}}
    with pytest.raises(errors.BadRequest, match="COMPUTE_SOUND_MODEL_ICH9 is missing"):
        harness.conductor.start_action(new_request(), instance_uuid=uuid, action="rebuild", arguments={"image": image})


def test_a_wrong_state_is_said_before_the_scheduler_is_asked(harness: ConductorHarness) -> None:
    uuid = harness.active()
    harness.acted(uuid, "pause")
    harness.scheduler.refuses_previews = "no"
    with pytest.raises(errors.Conflict, match=r"Cannot 'rebuild' instance .* while it is in vm_state paused"):
        ask(harness, uuid)


@pytest.mark.parametrize("changes", [{"host": "b"}, {"vm_state": "active"}, {"project_id": "p"}])
def test_what_is_not_a_users_to_change_is_refused(harness: ConductorHarness, changes: dict[str, str]) -> None:
    uuid = harness.active()
    with pytest.raises(errors.BadRequest, match="cannot be changed"):
        ask(harness, uuid, changes=changes)


def test_too_much_metadata_is_forbidden(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with pytest.raises(errors.Forbidden, match="metadata"):
        ask(harness, uuid, changes={"metadata_": {str(number): "" for number in range(129)}})
    assert harness.state(uuid) == "active/None on a"


def test_the_host_gets_a_token_for_the_new_image_alone(harness: ConductorHarness) -> None:
    uuid = harness.active()
    old = harness.instance(uuid).image_ref
    ask(harness, uuid)
    assert harness.conductor.image_token(CTX, instance_uuid=uuid, image_id=NEW, host="a")
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.image_token(CTX, instance_uuid=uuid, image_id=old, host="a")


def test_a_second_rebuild_that_fails_puts_the_first_ones_image_back(harness: ConductorHarness) -> None:
    uuid = harness.active()
    succeed(harness, uuid, ask(harness, uuid), power_state=1)
    other = {"id": "6d0c8a5e-0000-4000-8000-00000000000c"}
    second = ask(harness, uuid, image=other)
    harness.conductor.action_failed(CTX, **report(harness, uuid, second), reason="no", untouched=True)
    row = harness.instance(uuid)
    assert (row.image_ref, row.image) == (
        NEW,
        Image(id=NEW, name="new", disk_format="raw", properties={"kernel_id": KERNEL}),
    )


def test_bug_a_rebuild_did_not_ask_whether_the_host_has_the_new_devices(harness: ConductorHarness) -> None:
    uuid = harness.active()
    properties = {"hw_sound_model": "pcspk", "hw_vif_model": "igb"}
    ask(harness, uuid, image={"id": NEW, "name": "new", "disk_format": "raw", "properties": properties})
    required = harness.scheduler.specs[-1].placement.required_traits
    assert required == ("COMPUTE_NET_VIF_MODEL_IGB", "COMPUTE_SOUND_MODEL_PCSPK")
