"""Guests that the database does not know, or that are newer than their rows: reported, held, adopted, removed."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import delete, select, update

from minova import errors
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.removal import remove
from minova.db import models
from minova.db.recovery import unexpected
from minova.db.servers import guest_secrets
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState, VmState
from minova.objects.unexpected.guest_record import EndedAction, GuestMark, GuestRecord, GuestsAnswer
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness
from tests.functional.conductor.hosts.test_bug_old_migration_proves_removal import set_row
from tests.functional.conductor.network_cases import addresses_of, network, port, subnet

TABLES = (
    models.Instance,
    models.InstanceAction,
    models.Task,
    models.RequestSpecRow,
    models.Allocation,
    models.Consumer,
)
NEW = EndedAction(id=1000, request_id="req-after-the-backup", kind="start")


def mark(uuid: str, record: GuestRecord | None = None, power_state: int = 1, attempt: int = 1) -> GuestMark:
    last = record.actions[-1] if record is not None and record.actions else None
    return GuestMark(
        uuid=uuid,
        name="vm",
        node="a-node",
        memory_mb=512,
        vcpus=1,
        power_state=power_state,
        attempt=attempt,
        action_id=None if last is None else last.id,
        request_id=None if last is None else last.request_id,
        has_record=record is not None,
    )


def record_of(harness: ConductorHarness, uuid: str, *actions: EndedAction, attempt: int = 1) -> GuestRecord:
    """As host a keeps it of a guest that it has built."""
    instances = harness.conductor.instances_of_host(CTX, host="a").instances
    instance = next(instance for instance in instances if instance.uuid == uuid)
    spec = RequestSpec(flavor=FLAVOR, image=IMAGE)
    return GuestRecord(instance=instance, attempt=attempt, node="a-node", request_spec=spec, actions=actions)


def report(harness: ConductorHarness, record: GuestRecord, host: str = "a", **more: Any) -> GuestsAnswer:
    """The host reports the guest, and sends its record if the conductor wants it."""
    guest_mark = mark(record.instance.uuid, record, attempt=record.attempt, **more)
    answer = harness.conductor.report_guests(CTX, host=host, guests=(guest_mark,))
    if record.instance.uuid in answer.wanted:
        harness.conductor.report_guest_records(CTX, host=host, records=(record,))
    return answer


def forget(harness: ConductorHarness) -> None:
    """The database is as it was before the servers."""
    with harness.db.write() as session:
        session.execute(delete(models.PortSecurityGroup))
        session.execute(delete(models.IpAllocation))
        session.execute(delete(models.Port))
        for table in TABLES:
            session.execute(delete(table))


def reasons(harness: ConductorHarness) -> dict[str, str]:
    with harness.db.read() as session:
        return {guest.uuid: guest.reason for guest in unexpected.guests(session)}


def adopt(harness: ConductorHarness, uuid: str) -> None:
    worker = harness.conductor.worker

    def work(session: Any) -> None:
        (guest,) = unexpected.guests(session, uuid)
        Adoption().adopt(session, guest, worker.at(), worker.now())

    worker.run(work)


def test_guests_that_rows_expect_are_not_listed(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid)
    assert report(harness, record) == GuestsAnswer()
    assert reasons(harness) == {}


def test_a_guest_without_a_row_is_listed_until_it_is_gone(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid)
    forget(harness)
    assert report(harness, record).wanted == (uuid,)
    assert reasons(harness) == {uuid: "no_row"}
    assert report(harness, record).wanted == (), "its record is known"
    with harness.db.read() as session:
        assert not unexpected.is_empty(session)
        assert unexpected.is_empty(session, "b")
    harness.conductor.report_guests(CTX, host="a", guests=())
    assert reasons(harness) == {}


def test_a_guest_with_an_unknown_action_is_newer(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid, NEW)
    assert report(harness, record).newer == (uuid,)
    view = harness.view("a", uuid)
    inputs = harness.conductor.begin_audit(CTX, host="a", view=view)
    assert (inputs.newer, inputs.unexpected_domains) == ((uuid,), ())


def test_a_known_action_makes_no_guest_newer(harness: ConductorHarness) -> None:
    uuid = harness.active()
    with harness.db.read() as session:
        instance_action = session.scalars(
            select(models.InstanceAction).where(models.InstanceAction.instance_uuid == uuid)
        ).one()
    ended = EndedAction(id=instance_action.id, request_id=instance_action.request_id, kind="build")
    assert report(harness, record_of(harness, uuid, ended)).newer == ()
    # A number that the restored database gave to another action.
    other = EndedAction(id=instance_action.id, request_id="req-other", kind="start")
    assert report(harness, record_of(harness, uuid, other)).newer == (uuid,)


def test_an_action_that_was_purged_makes_no_guest_newer(harness: ConductorHarness) -> None:
    uuid = harness.active()
    old = EndedAction(id=0, request_id="req-old", kind="start")
    assert report(harness, record_of(harness, uuid, old)).newer == ()


def test_the_addresses_of_a_guest_without_a_row_are_not_given_away(harness: ConductorHarness) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.0.0.0/29")
    uuid = harness.active(requested_networks=(RequestedNic(network_id=blue.id),))
    record = record_of(harness, uuid)
    (vif,) = record.instance.network_info
    address = vif.addresses[0].ip_address
    forget(harness)
    report(harness, record)
    others = [port(harness, blue) for _ in range(4)]
    assert address not in addresses_of(others)
    with pytest.raises(errors.IpAddressGenerationFailure):
        port(harness, blue)
    with pytest.raises(errors.IpAddressAlreadyAllocated):
        port(harness, blue, address)
    with pytest.raises(errors.MacAddressInUse):
        port(harness, network(harness), mac_address=vif.mac_address)
    harness.conductor.report_guests(CTX, host="a", guests=())
    assert addresses_of([port(harness, blue)]) == [address]


def test_an_adopted_guest_is_a_server_again(harness: ConductorHarness) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.0.0.0/29")
    uuid = harness.active(requested_networks=(RequestedNic(network_id=blue.id),))
    record, allocated = record_of(harness, uuid), harness.allocated()
    image = msgspec.structs.replace(IMAGE, properties={"kernel_id": "k", "ramdisk_id": "r" * 300})
    before = msgspec.structs.replace(record, instance=msgspec.structs.replace(record.instance, image=image))
    forget(harness)
    report(harness, before)
    adopt(harness, uuid)
    assert harness.state(uuid) == "active/None on a"
    row = harness.instance(uuid)
    assert (row.kernel_id, row.ramdisk_id) == ("k", "r" * 255), "as long as a column may be"
    assert harness.allocated() == allocated
    assert reasons(harness) == {}
    after = record_of(harness, uuid).instance
    for field in ("display_name", "project_id", "user_id", "flavor", "image", "metadata", "network_info"):
        assert getattr(after, field) == getattr(before.instance, field), field
    assert report(harness, before) == GuestsAnswer(), "the next report finds nothing amiss"
    harness.delete(uuid)
    harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    assert (harness.state(uuid), harness.allocated()) == ("deleted/None on a", {})
    assert harness.count(models.Port) == 0


def test_adoption_takes_a_newer_guest_over_its_row(harness: ConductorHarness) -> None:
    """It was stopped at the time of the backup, and started since."""
    uuid = harness.active()
    record = record_of(harness, uuid, NEW)
    with harness.db.write() as session:
        values = {"vm_state": "stopped", "power_state": int(PowerState.SHUTDOWN)}
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(values))
    assert report(harness, record).newer == (uuid,)
    adopt(harness, uuid)
    assert harness.state(uuid) == "active/None on a"
    assert report(harness, record).newer == (), "its last action is known now"


def test_a_guest_that_is_off_is_adopted_as_it_is(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid)
    forget(harness)
    report(harness, record, power_state=int(PowerState.SHUTDOWN))
    adopt(harness, uuid)
    assert harness.instance(uuid).vm_state == VmState.STOPPED.value


def test_bug_adopted_guest_that_sleeps_is_suspended_without_saved_memory(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid)
    forget(harness)
    report(harness, record, power_state=int(PowerState.SUSPENDED))
    adopt(harness, uuid)
    assert harness.state(uuid) == "active/None on a"


def test_bug_an_adopted_soft_deleted_server_was_removed_by_its_former_deletion(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid, NEW)
    record = msgspec.structs.replace(
        record, instance=msgspec.structs.replace(record.instance, vm_state=VmState.SOFT_DELETED)
    )
    set_row(harness, uuid, vm_state=VmState.SOFT_DELETED.value, soft_deleted_since=1.0)
    report(harness, record, power_state=int(PowerState.SHUTDOWN))
    adopt(harness, uuid)
    after = harness.instance(uuid)
    assert (after.vm_state, after.soft_deleted_since) == (VmState.SOFT_DELETED.value, None)


@pytest.mark.parametrize("row", ["lost", "of a running server", "of an earlier shelving"])
def test_bug_adopted_guest_is_shelved_without_its_image(harness: ConductorHarness, row: str) -> None:
    """The database has lost the image of its shelving, or names an older one: an offload would have removed the only disk."""
    uuid = harness.active()
    record = record_of(harness, uuid, NEW)
    record = msgspec.structs.replace(
        record, instance=msgspec.structs.replace(record.instance, vm_state=VmState.SHELVED)
    )
    if row == "lost":
        forget(harness)
    elif row == "of an earlier shelving":
        at = harness.conductor.worker.at()
        set_row(harness, uuid, vm_state=VmState.SHELVED.value, shelved_image_id=IMAGE.id, shelved_at=at)
        with harness.db.write() as session:
            guest_secrets.write(session, uuid, {guest_secrets.TPM_STATE: "an older state"}, at)
    report(harness, record, power_state=int(PowerState.SHUTDOWN))
    adopt(harness, uuid)
    after = harness.instance(uuid)
    assert after.vm_state == VmState.STOPPED.value
    with harness.db.read() as session:
        assert guest_secrets.of_instance(session, uuid) == {}


def test_a_build_that_an_older_database_requests_again_adopts_its_guest(harness: ConductorHarness) -> None:
    harness.scheduler.mood = errors.ServiceUnavailable("no scheduler yet")
    (uuid,) = harness.create()
    instance = msgspec.structs.replace(
        Instance(uuid=uuid, display_name="vm", flavor=FLAVOR, project_id="demo", user_id="alice"),
        image_ref=IMAGE.id,
        reservation_id=harness.instance(uuid).reservation_id,
    )
    report(harness, GuestRecord(instance=instance, attempt=1, node="a-node"))
    assert harness.state(uuid) == "active/None on a"
    assert harness.count(models.Task) == 0
    assert harness.actions(uuid)[0] == ("create", "Error")
    assert harness.allocated() != {}


def test_a_guest_that_an_operator_removes_is_asked_for_until_it_is_gone(harness: ConductorHarness) -> None:
    uuid = harness.active()
    record = record_of(harness, uuid)
    forget(harness)
    report(harness, record)
    worker = harness.conductor.worker
    assert worker.run(lambda session: remove(session, uuid, None, worker.at())) == ["a"]
    for _ in range(2):
        assert report(harness, record).remove == (uuid,)
    assert harness.count(models.PurgedInstance) == 1
    harness.conductor.report_guests(CTX, host="a", guests=())
    assert reasons(harness) == {}


def test_bug_guest_is_to_be_removed_although_its_server_has_come_to_its_host(harness: ConductorHarness) -> None:
    """The operator's decision was about what an earlier attempt had left there."""
    uuid = harness.active("a")
    left = record_of(harness, uuid)
    report(harness, left, "b")
    worker = harness.conductor.worker
    assert worker.run(lambda session: remove(session, uuid, "b", worker.at())) == ["b"]
    assert report(harness, left, "b").remove == (uuid,)
    set_row(harness, uuid, host="b", attempt=2)
    assert report(harness, msgspec.structs.replace(left, attempt=2), "b").remove == ()
    set_row(harness, uuid, host="a", attempt=3)
    assert report(harness, msgspec.structs.replace(left, attempt=2), "b").remove == (), "the decision is over"


def test_a_server_that_exists_is_not_removed_here(harness: ConductorHarness) -> None:
    uuid = harness.active()
    report(harness, record_of(harness, uuid, NEW))
    worker = harness.conductor.worker
    with pytest.raises(errors.Conflict, match="adopt the guest"):
        worker.run(lambda session: remove(session, uuid, None, worker.at()))
    with pytest.raises(errors.NotFound):
        worker.run(lambda session: remove(session, "unknown", None, worker.at()))


@pytest.mark.parametrize("state", [PowerState.PAUSED, PowerState.SHUTDOWN, PowerState.RUNNING])
def test_bug_guest_that_was_arriving_could_be_neither_adopted_nor_removed(
    harness: ConductorHarness, state: PowerState
) -> None:
    """Host b was its destination when the database went back in time: it keeps no record of it before it has arrived."""
    uuid = harness.active()
    arriving = mark(uuid, power_state=int(state), attempt=2)
    harness.conductor.report_guests(CTX, host="b", guests=(arriving,))
    assert reasons(harness) == {uuid: "newer"}
    with pytest.raises(errors.Conflict, match="no record"):
        adopt(harness, uuid)
    worker = harness.conductor.worker
    if state is PowerState.RUNNING:
        with pytest.raises(errors.Conflict, match="adopt the guest"):
            worker.run(lambda session: remove(session, uuid, "b", worker.at()))
        return
    assert worker.run(lambda session: remove(session, uuid, "b", worker.at())) == ["b"]
    assert harness.conductor.report_guests(CTX, host="b", guests=(arriving,)).remove == (uuid,)


def test_more_removals_than_the_option_allows_wait_for_an_operator(harness: ConductorHarness) -> None:
    harness.options["conductor__max_automatic_removals"] = 2
    conductor = harness.start("two")
    uuids = [harness.active() for _ in range(4)]
    for uuid in uuids:
        harness.delete(uuid)
        harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host="a")
    inputs = conductor.begin_audit(CTX, host="a", view=harness.view("a", *uuids))
    assert inputs.unexpected_domains == ()
    assert f"minova-manage unexpected remove {uuids[0]}" in " ".join(inputs.conflicts)
    conductor.report_guests(CTX, host="a", guests=tuple(mark(uuid) for uuid in uuids))
    assert set(reasons(harness).values()) == {"remove"}
    inputs = conductor.begin_audit(CTX, host="a", view=harness.view("a", *uuids[:2]))
    assert set(inputs.unexpected_domains) == set(uuids[:2])
