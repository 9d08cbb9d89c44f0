"""Shelved servers: their images, how they leave their hosts and get new ones, and recovery at every step."""

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from minova import errors
from minova.db import models, quotas
from minova.db.networks import ports
from minova.objects.actions.shelving import SHELVE
from minova.objects.catalogue.image import Image
from minova.objects.requests.request_spec import Destination
from minova.objects.servers.states import VmState
from tests.fakes.action_arguments import sent_with
from tests.functional.conductor.actions.engine.test_requests import report, succeed
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness, new_request
from tests.functional.conductor.hosts.test_bug_old_migration_proves_removal import moved


@pytest.fixture
def harness(harness: ConductorHarness) -> ConductorHarness:
    """Servers leave their hosts at once, as by default."""
    harness.options["shelved_offload_time"] = 0
    harness.conductor = harness.start("one")
    return harness


def image_id(harness: ConductorHarness, uuid: str) -> str:
    shelved_image_id = harness.instance(uuid).shelved_image_id
    assert shelved_image_id is not None
    return shelved_image_id


def images(harness: ConductorHarness) -> set[str]:
    with harness.db.read() as session:
        return set(session.scalars(select(models.Image.id)))


def upload(harness: ConductorHarness, image: Image) -> None:
    """All bytes have come."""
    whole = msgspec.structs.replace(image, status="active", size=3 << 20, disk_format="qcow2")
    with harness.db.write() as session:
        row = session.get(models.Image, image.id)
        assert row is not None
        row.status, row.value = "active", whole


def shelve(harness: ConductorHarness, uuid: str, host: str = "a") -> int:
    """Up to where the offload begins, or to the end where there is none; answers the id of the offload's record, or of the shelve's."""
    action_id = harness.act(uuid, "shelve")
    report_fields = report(harness, uuid, action_id, host)
    harness.conductor.begin_action(CTX, **report_fields)
    harness.conductor.action_progressed(CTX, **report_fields, task_state="shelving_image_pending_upload")
    harness.conductor.action_progressed(CTX, **report_fields, task_state="shelving_image_uploading")
    with harness.db.read() as session:
        task = session.scalar(select(models.Task).where(models.Task.instance_uuid == uuid))
        assert task is not None
        image = msgspec.convert(task.payload["arguments"]["image"], Image, strict=False)
    upload(harness, image)
    succeed(harness, uuid, action_id, host=host)
    return harness.action_id(uuid)


def offload(harness: ConductorHarness, uuid: str, host: str = "a") -> None:
    succeed(harness, uuid, shelve(harness, uuid, host), host=host)
    assert harness.state(uuid) == "shelved_offloaded/None on None"


def unshelve(harness: ConductorHarness, uuid: str, **arguments: Any) -> None:
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="unshelve", arguments=arguments)
    harness.settle()


def left_over(harness: ConductorHarness, uuid: str) -> tuple[Any, ...]:
    """What no shelved or unshelved server has: a task, a second request."""
    return harness.task(uuid), harness.count(models.RequestSpecRow)


def servers_counted(harness: ConductorHarness) -> dict[str, int]:
    """What quotas count of the project's servers."""
    with harness.db.read() as session:
        return quotas.counted(session, CTX.project_id, ("instances", "cores", "ram"))


def binding(harness: ConductorHarness, uuid: str) -> tuple[str, str]:
    """What a port of the server shows: its host, and whether it is up."""
    with harness.db.read() as session:
        shown = ports._servers(session, [uuid])[uuid]
    return shown["host"], shown["status"]


@pytest.mark.parametrize("again", [False, True])
def test_bug_offload_that_has_waited_removes_the_disk_of_a_server_without_an_image(
    harness: ConductorHarness, again: bool
) -> None:
    """Its host was down, or had begun and was about to remove the disk, when the owner deleted the image."""
    uuid = harness.active()
    report_fields = report(harness, uuid, shelve(harness, uuid), "a")
    assert harness.state(uuid) == "shelved/shelving_offloading on a"
    if again:
        harness.conductor.begin_action(CTX, **report_fields)
    delete_image(harness, image_id(harness, uuid))
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report_fields, again=again)
    assert (harness.state(uuid), harness.task(uuid)) == ("shelved/None on a", None)
    assert harness.actions(uuid)[-1] == ("shelveOffload", "Error")
    assert "cannot be found" in harness.fault(uuid) or "deleted" in harness.fault(uuid)


def test_the_host_of_an_offload_may_ask_for_the_image(harness: ConductorHarness) -> None:
    uuid = harness.active()
    token_request = {"instance_uuid": uuid, "image_id": "", "host": "a"}
    shelve(harness, uuid)
    token_request["image_id"] = image_id(harness, uuid)
    assert harness.conductor.image_token(CTX, **token_request)
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.image_token(CTX, **token_request | {"host": "b"})


def test_a_shelved_server_leaves_its_host_and_gets_another_one(harness: ConductorHarness) -> None:
    uuid = harness.active()
    taken, counted = harness.used("a"), servers_counted(harness)
    assert counted["instances"] == 1
    assert binding(harness, uuid) == ("a", "ACTIVE")
    shelve_id = harness.act(uuid, "shelve")
    assert harness.state(uuid) == "active/shelving on a"
    for step in ("shelving_image_pending_upload", "shelving_image_uploading"):
        harness.conductor.action_progressed(CTX, **report(harness, uuid, shelve_id), task_state=step)
        assert harness.state(uuid) == f"active/{step} on a"
    harness.upload(uuid)
    succeed(harness, uuid, shelve_id)
    # At once, and by the same request: no moment in which it is idle on its host.
    assert harness.state(uuid) == "shelved/shelving_offloading on a"
    later = harness.action_id(uuid)
    harness.settle()
    assert harness.hosts["a"].actions[-1] == ("shelve_offload", uuid, later)
    with harness.db.read() as session:
        first, row = (session.get_one(models.InstanceAction, number) for number in (shelve_id, later))
        assert (row.action, row.request_id) == ("shelveOffload", first.request_id)
        assert (row.user_id, row.project_id) == ("alice", "demo")
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.begin_action(CTX, **report(harness, uuid, shelve_id))
    succeed(harness, uuid, later)
    assert harness.state(uuid) == "shelved_offloaded/None on None"
    assert (harness.allocated(), harness.instance(uuid).node, harness.instance(uuid).power_state) == ({}, None, 4)
    assert harness.used("a") == dict.fromkeys(taken, 0)
    assert servers_counted(harness) == counted
    assert binding(harness, uuid) == ("", "DOWN")
    shelved = image_id(harness, uuid)
    upload(harness, msgspec.convert(_record(harness, shelved), Image))

    harness.scheduler.order = ["b", "c"]
    unshelve(harness, uuid)
    assert harness.state(uuid) == "shelved_offloaded/unshelving on None"
    (build,) = harness.hosts["b"].builds
    assert (build.instance.image and build.instance.image.id, build.attempt) == (shelved, 2)
    assert build.admin_password is None
    assert harness.conductor.image_token(CTX, instance_uuid=uuid, image_id=shelved, host="b")
    harness.claim("b", uuid, attempt=2)
    assert harness.state(uuid) == "shelved_offloaded/unshelving on b"
    harness.conductor.begin_attempt(CTX, instance_uuid=uuid, attempt=2, host="b", step="spawning")
    assert harness.state(uuid) == "shelved_offloaded/spawning on b"
    assert [instance.uuid for instance in harness.conductor.instances_of_host(CTX, host="b").instances] == [uuid]
    assert shelved in images(harness)
    harness.succeed("b", uuid, attempt=2)
    assert harness.state(uuid) == "active/None on b"
    assert harness.allocated() == {uuid: "b"}
    assert shelved not in images(harness)
    assert (harness.instance(uuid).shelved_image_id, harness.instance(uuid).shelved_at) == (None, None)
    assert left_over(harness, uuid) == (None, 1)
    assert servers_counted(harness) == counted
    assert binding(harness, uuid) == ("b", "ACTIVE")
    assert harness.actions(uuid)[1:] == [("shelve", "Success"), ("shelveOffload", "Success"), ("unshelve", "Success")]
    assert harness.events(harness.action_id(uuid)) == [("compute_unshelve_instance", "b", "Success")]
    # Its next build, too, is told apart from all before.
    offload(harness, uuid, host="b")
    unshelve(harness, uuid)
    assert harness.hosts["b"].builds[-1].attempt == 3


def _record(harness: ConductorHarness, image: str) -> Any:
    with harness.db.read() as session:
        return msgspec.to_builtins(session.get_one(models.Image, image).value)


@pytest.mark.parametrize("before", [VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED])
def test_a_server_that_stays_on_its_host_starts_there_again(harness: ConductorHarness, before: VmState) -> None:
    harness.options["shelved_offload_time"] = -1
    harness.conductor = harness.start("one")
    uuid = harness.active()
    harness.bring_to(uuid, before)
    held = harness.allocated()
    shelve(harness, uuid)
    assert harness.state(uuid) == "shelved/None on a"
    assert harness.allocated() == held
    shelved = image_id(harness, uuid)
    for kind in ("snapshot", "backup", "rescue", "rebuild", "stop"):
        with pytest.raises(errors.Conflict, match="while it is in vm_state shelved"):
            harness.act(uuid, kind)
    for named in ({"availability_zone": "nova"}, {"host": "b"}):
        with pytest.raises(errors.Conflict, match="only supported while it is in vm_state shelved_offloaded"):
            unshelve(harness, uuid, **named)
    unshelve(harness, uuid)
    assert harness.state(uuid) == "shelved/unshelving on a"
    succeed(harness, uuid, harness.action_id(uuid), power_state=1)
    assert harness.state(uuid) == "active/None on a"
    assert shelved not in images(harness)
    assert (harness.instance(uuid).shelved_image_id, harness.allocated()) == (None, held)


def delete_image(harness: ConductorHarness, image: str) -> None:
    with harness.db.write() as session:
        session.delete(session.get_one(models.Image, image))


def test_a_server_whose_image_is_gone_keeps_the_disk_on_its_host(harness: ConductorHarness) -> None:
    """Its owner may delete the image. The disk is then the only one."""
    harness.options["shelved_offload_time"] = 600
    harness.conductor = harness.start("one")
    uuid = harness.active()
    shelve(harness, uuid)
    delete_image(harness, image_id(harness, uuid))
    with pytest.raises(errors.Conflict, match=r"its image .* cannot be found"):
        harness.act(uuid, "shelve_offload")
    for _ in range(70):
        harness.now += 10
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    harness.beat("a")
    assert harness.state(uuid) == "shelved/None on a"
    unshelve(harness, uuid)
    succeed(harness, uuid, harness.action_id(uuid), power_state=1)
    assert harness.state(uuid) == "active/None on a"


def test_an_image_that_goes_before_the_shelve_ends_keeps_the_disk_on_its_host(harness: ConductorHarness) -> None:
    uuid = harness.active()
    action_id = harness.act(uuid, "shelve")
    harness.conductor.begin_action(CTX, **report(harness, uuid, action_id, "a"))
    harness.upload(uuid)
    (image,) = images(harness)
    delete_image(harness, image)
    succeed(harness, uuid, action_id)
    assert (harness.state(uuid), harness.task(uuid)) == ("shelved/None on a", None)


def test_servers_leave_their_hosts_once_their_time_is_over(harness: ConductorHarness) -> None:
    harness.options["shelved_offload_time"] = 600
    harness.conductor = harness.start("one")
    uuid = harness.active()
    shelve(harness, uuid)
    harness.tick(harness.conductor)
    assert harness.state(uuid) == "shelved/None on a"
    for _ in range(61):
        harness.now += 10
        harness.conductor.heartbeat(CTX, host="a", binary="minova-compute")
    harness.tick(harness.conductor)
    assert harness.state(uuid) == "shelved/shelving_offloading on a"
    succeed(harness, uuid, harness.action_id(uuid))
    assert harness.state(uuid) == "shelved_offloaded/None on None"


def test_bug_offloads_that_fail_made_a_record_each_minute(
    harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the image service is away no host removes the disk of a shelved server."""
    harness.options["shelved_poll_interval"] = 60
    harness.conductor = harness.start("one")
    uuid, now = harness.active(), 0.0
    shelving = harness.conductor.collaborators.shelving
    monkeypatch.setattr(shelving, "_ticks", lambda: now)
    later, begun = shelve(harness, uuid), []
    for minute in range(8 * 60):
        if harness.state(uuid) == "shelved/shelving_offloading on a":
            later = harness.action_id(uuid)
            harness.conductor.action_failed(CTX, **report(harness, uuid, later), reason="Glance is away")
            begun.append(minute)
        now = 60.0 * minute
        shelving.offload_due()
    assert begun[:7] == [0, 1, 2, 4, 8, 16, 32]
    assert max(after - before for before, after in pairwise(begun)) == 60


def test_an_offload_that_fails_is_tried_again(harness: ConductorHarness) -> None:
    uuid = harness.active()
    later = shelve(harness, uuid)
    harness.conductor.action_failed(CTX, **report(harness, uuid, later), reason="the disk is busy")
    assert harness.state(uuid) == "shelved/None on a"
    assert "the disk is busy" in harness.fault(uuid)
    assert harness.allocated() == {uuid: "a"}
    harness.tick(harness.conductor)
    assert harness.state(uuid) == "shelved/shelving_offloading on a"
    succeed(harness, uuid, harness.action_id(uuid))
    assert harness.state(uuid) == "shelved_offloaded/None on None"


@pytest.mark.parametrize("how", ["report", "delete", "reset"])
def test_the_image_of_a_shelve_that_fails_goes_even_if_it_is_whole(harness: ConductorHarness, how: str) -> None:
    uuid = harness.active()
    image = msgspec.convert(sent_with(SHELVE)["image"], Image)
    arguments = {"image": msgspec.to_builtins(image)}
    harness.conductor.start_action(new_request(), instance_uuid=uuid, action="shelve", arguments=arguments)
    upload(harness, image)
    if how == "report":
        harness.conductor.action_failed(CTX, **report(harness, uuid, harness.action_id(uuid)), reason="no")
        assert harness.state(uuid) == "active/None on a"
    elif how == "reset":
        harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state="active")
    else:
        harness.delete(uuid)
    assert image.id not in images(harness)
    assert harness.instance(uuid).shelved_image_id is None


@pytest.mark.parametrize("when", ["shelved", "offloading", "offloaded", "unshelving", "built"])
def test_a_deleted_server_takes_its_image_with_it(harness: ConductorHarness, when: str) -> None:
    uuid = harness.active()
    later = shelve(harness, uuid)
    shelved = image_id(harness, uuid)
    if when == "shelved":
        harness.conductor.action_failed(CTX, **report(harness, uuid, later), reason="no")
    elif when != "offloading":
        succeed(harness, uuid, later)
    if when in {"unshelving", "built"}:
        harness.scheduler.order = ["b"]
        unshelve(harness, uuid)
    if when == "built":
        harness.claim("b", uuid, attempt=2)
    host = "b" if when in {"unshelving", "built"} else "a"
    harness.delete(uuid)
    if when != "offloaded":
        assert harness.hosts[host].terminated == [uuid]
        with pytest.raises(errors.StaleAttempt):
            harness.succeed("b", uuid, attempt=2)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=host)
    assert harness.state(uuid).startswith("deleted/None")
    assert (harness.allocated(), shelved in images(harness)) == ({}, False)
    assert left_over(harness, uuid) == (None, 1)


def test_a_protected_image_outlives_its_shelved_server(harness: ConductorHarness) -> None:
    uuid = harness.active()
    offload(harness, uuid)
    shelved = image_id(harness, uuid)
    with harness.db.write() as session:
        row = session.get_one(models.Image, shelved)
        row.value = msgspec.structs.replace(row.value, protected=True)
    harness.delete(uuid)
    assert harness.state(uuid).startswith("deleted/None")
    assert shelved in images(harness)


@pytest.mark.parametrize("how", ["no host", "every attempt", "its only host", "too slow", "image is gone"])
def test_a_server_that_cannot_be_unshelved_is_shelved_as_before(harness: ConductorHarness, how: str) -> None:
    uuid = harness.active()
    offload(harness, uuid)
    shelved = image_id(harness, uuid)
    harness.scheduler.order = [] if how == "no host" else ["b"] if how == "its only host" else ["a", "b", "c"]
    unshelve(harness, uuid)
    if how == "every attempt":
        for number, host in enumerate("abc"):
            harness.claim(host, uuid, attempt=2 + number)
            harness.fail(host, uuid, attempt=2 + number)
            harness.settle()
    elif how == "its only host":
        harness.fail("b", uuid, attempt=2)
    elif how == "image is gone":
        harness.fail("a", uuid, attempt=2, reason="image is gone", kind="ImageUnacceptable")
    elif how == "too slow":
        for _ in range(6):
            harness.now += 2000
            harness.beat()
    assert harness.state(uuid) == "shelved_offloaded/None on None"
    assert (harness.allocated(), left_over(harness, uuid)) == ({}, (None, 1))
    assert shelved in images(harness)
    assert harness.fault(uuid)
    assert harness.actions(uuid)[-1] == ("unshelve", "Error")
    harness.scheduler.order = ["c"]
    unshelve(harness, uuid)
    harness.build("c", uuid, attempt=harness.hosts["c"].builds[-1].attempt)
    assert harness.state(uuid) == "active/None on c"


def test_what_is_in_the_way_of_an_unshelve_is_said(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with pytest.raises(errors.Conflict, match="while it is in vm_state active"):
        unshelve(harness, uuid)
    with pytest.raises(errors.NotFound):
        unshelve(harness, "6d0c8a5e-0000-4000-8000-0000000000ff")
    offload(harness, uuid)
    for kind in ("stop", "start", "rescue", "reboot_hard", "snapshot", "rebuild", "shelve", "shelve_offload"):
        with pytest.raises(errors.Conflict, match="while it is in vm_state shelved_offloaded"):
            harness.act(uuid, kind)
    for state in ("active", "error"):
        with pytest.raises(errors.Conflict, match="it is shelved, and can be unshelved"):
            harness.conductor.reset_server_state(CTX, instance_uuid=uuid, vm_state=state)
    harness.scheduler.mood = errors.ServiceUnavailable("away")
    unshelve(harness, uuid)
    with pytest.raises(errors.Conflict, match="while it is in task_state unshelving"):
        unshelve(harness, uuid)


def test_an_image_that_its_owner_has_deleted_cannot_be_unshelved_from(harness: ConductorHarness) -> None:
    uuid = harness.active()
    offload(harness, uuid)
    harness.conductor.delete_image(CTX, image_id=image_id(harness, uuid))
    with pytest.raises(errors.Conflict, match="cannot be found"):
        unshelve(harness, uuid)
    assert harness.state(uuid) == "shelved_offloaded/None on None"
    harness.delete(uuid)
    assert harness.state(uuid).startswith("deleted/None")


def test_where_an_unshelved_server_goes(harness: ConductorHarness) -> None:
    """As in Nova: to a zone, and to stay there; to a host; where it was forced to at first does not count."""
    (uuid,) = harness.create(force_host="a", availability_zone="west")
    harness.build("a", uuid)
    harness.scheduler.order = []
    for arguments, zone, host in (
        ({}, "west", None),
        ({"availability_zone": "east"}, "east", None),
        ({"host": "c"}, "east", "c"),
        ({"availability_zone": None, "host": "b"}, None, "b"),
    ):
        if harness.instance(uuid).host is not None:
            offload(harness, uuid)
        unshelve(harness, uuid, **arguments)
        spec = harness.scheduler.specs[-1]
        destination = None if host is None else Destination(host=host)
        assert (spec.availability_zone, spec.requested_destination) == (zone, destination)
        assert (spec.force_hosts, spec.num_instances) == ((), 1)
        assert spec.image is not None
        assert spec.image.id == image_id(harness, uuid)
        assert harness.instance(uuid).availability_zone == zone


def test_another_conductor_goes_on_with_an_unshelve(harness: ConductorHarness) -> None:
    """The first one has died before it asked the scheduler, or between its answer and the message to the host."""
    for dies in ("before", "after"):
        uuid = harness.active()
        offload(harness, uuid)
        harness.conductor.start_action(new_request(), instance_uuid=uuid, action="unshelve", arguments={})
        if dies == "after":
            harness.hosts["a"].deaf = True
            harness.settle()
            harness.hosts["a"].deaf = False
        harness.kill("one")
        harness.conductor = harness.start("one")
        harness.settle()
        build = harness.hosts["a"].builds[-1]
        assert build.instance.uuid == uuid
        harness.build("a", uuid, attempt=build.attempt)
        assert harness.state(uuid) == "active/None on a"
        assert (harness.allocated()[uuid], left_over(harness, uuid)[0]) == ("a", None)
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")


def test_servers_of_one_request_are_unshelved_each_by_itself(harness: ConductorHarness) -> None:
    first, second = harness.create(2)
    for uuid in (first, second):
        harness.build("a", uuid)
        offload(harness, uuid)
    harness.scheduler.order = ["b"]
    for uuid in (first, second):
        harness.conductor.start_action(new_request(), instance_uuid=uuid, action="unshelve", arguments={})
    harness.settle()
    for uuid in (first, second):
        assert harness.state(uuid) == "shelved_offloaded/unshelving on None"
        harness.build("b", uuid, attempt=2)
        assert harness.state(uuid) == "active/None on b"
    assert left_over(harness, first) == (None, 1)


def test_a_late_report_of_the_old_host_changes_nothing(harness: ConductorHarness) -> None:
    uuid = harness.active()
    offload(harness, uuid)
    unshelve(harness, uuid)
    with pytest.raises(errors.StaleAttempt):
        harness.succeed("a", uuid, attempt=1)
    with pytest.raises(errors.StaleAttempt):
        harness.claim("a", uuid, attempt=1)
    harness.fail("a", uuid, attempt=1)
    assert harness.state(uuid) == "shelved_offloaded/unshelving on None"


def test_a_soft_deleted_shelved_server_keeps_its_image_until_it_is_restored(harness: ConductorHarness) -> None:
    harness.options |= {"shelved_offload_time": -1, "reclaim_instance_interval": 600}
    harness.conductor = harness.start("one")
    uuid = harness.active()
    shelve(harness, uuid)
    shelved = image_id(harness, uuid)
    harness.delete(uuid)
    succeed(harness, uuid, harness.action_id(uuid))
    assert (harness.state(uuid), shelved in images(harness)) == ("soft-delete/None on a", True)
    harness.acted(uuid, "restore")
    assert (harness.state(uuid), shelved in images(harness)) == ("active/None on a", False)


def test_one_whose_disks_are_being_removed_is_deleted_for_good(harness: ConductorHarness) -> None:
    harness.options["reclaim_instance_interval"] = 600
    harness.conductor = harness.start("one")
    uuid = harness.active()
    shelve(harness, uuid)
    harness.delete(uuid)
    assert harness.state(uuid) == "shelved/deleting on a"


def test_bug_unshelve_chooses_a_host_that_has_still_to_remove_an_old_copy(harness: ConductorHarness) -> None:
    """The host removed the new guest, when it was asked again to remove what a move had left there."""
    uuid = harness.active("a")
    offload(harness, uuid)
    moved(harness, uuid, "b", "a", attempt=1, cleanup_host="b")
    moved(harness, uuid, "a", "c", attempt=5, status="error", cleanup_host="c")
    unshelve(harness, uuid)
    assert harness.scheduler.specs[-1].ignore_hosts == ("b", "c")
    task = harness.task(uuid)
    assert task is not None
    assert task.attempt > 5, "the failed move has used this number on c"
