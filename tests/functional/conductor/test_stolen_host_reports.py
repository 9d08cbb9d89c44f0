"""What a stolen host reports of guests that it does not have: it gains no image, no port and no server of others."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select, update

from minova import errors
from minova.conductor.unexpected import doubts
from minova.conductor.unexpected.adoption import Adoption
from minova.conductor.unexpected.checks import MAX_ATTEMPT
from minova.conductor.unexpected.removal import remove
from minova.db import models
from minova.db.catalogue import flavors, images
from minova.db.recovery import unexpected
from minova.objects.network.vif import Vif
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import VmState
from minova.objects.unexpected.guest_record import EndedAction, GuestMark, GuestRecord, GuestsAnswer
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, IMAGE, ConductorHarness
from tests.functional.conductor.network_cases import network, port, subnet
from tests.functional.conductor.quota_cases import limit
from tests.functional.scheduler.cloud import named

OWN = Instance(
    uuid=named("forged"), display_name="x", flavor=FLAVOR, project_id="demo", user_id="alice", image_ref=IMAGE.id
)


def claim(harness: ConductorHarness, uuid: str, host: str, attempt: int = 1, **more: Any) -> GuestsAnswer:
    """The host reports the guest, and sends this record of it in any case."""
    record = GuestRecord(instance=msgspec.structs.replace(OWN, uuid=uuid, **more), attempt=attempt, node=f"{host}-node")
    guest_mark = GuestMark(uuid=uuid, attempt=attempt, power_state=1, has_record=True)
    answer = harness.conductor.report_guests(CTX, host=host, guests=(guest_mark,))
    harness.conductor.report_guest_records(CTX, host=host, records=(record,))
    return answer


def requested(harness: ConductorHarness, **more: Any) -> str:
    """A build for which there is no host yet."""
    harness.scheduler.mood = errors.ServiceUnavailable("no scheduler yet")
    (uuid,) = harness.create(**more)
    return uuid


def adopt(harness: ConductorHarness, uuid: str, *take_from: str) -> None:
    worker = harness.conductor.worker

    def work(session: Any) -> None:
        (guest,) = unexpected.guests(session, uuid)
        Adoption().adopt(session, guest, worker.at(), worker.now(), take_from=take_from)

    worker.run(work)


def private_image(harness: ConductorHarness) -> str:
    image = msgspec.structs.replace(IMAGE, id=named("victim's image"), owner="victim", visibility="private")
    with harness.db.write() as session:
        images.add(session, image, harness.conductor.worker.at())
    return image.id


def test_a_forged_record_gives_no_image(harness: ConductorHarness) -> None:
    uuid, image_id = requested(harness), private_image(harness)
    image = msgspec.structs.replace(IMAGE, id=image_id)
    claim(harness, uuid, "b", image=image, image_ref=image_id)
    assert harness.state(uuid) == "building/scheduling on None"
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.image_token(CTX, instance_uuid=uuid, image_id=image_id, host="b")


def test_what_the_record_adds_to_the_request_is_not_taken(harness: ConductorHarness) -> None:
    """The image lies beside the image's id in the record, and other properties in its metadata."""
    uuid, image_id = requested(harness), private_image(harness)
    image = msgspec.structs.replace(IMAGE, id=image_id)
    claim(harness, uuid, "b", image=image, system_metadata={"forged": "yes"}, availability_zone="forged")
    assert harness.state(uuid) == "active/None on b"
    row = harness.instance(uuid)
    assert (row.image, row.image_ref, row.flavor) == (None, IMAGE.id, FLAVOR)
    assert "forged" not in row.system_metadata
    assert row.availability_zone != "forged"
    with pytest.raises(errors.StaleAttempt):
        harness.conductor.image_token(CTX, instance_uuid=uuid, image_id=image_id, host="b")


@pytest.mark.parametrize(
    "forged",
    [{"project_id": "evil"}, {"flavor": msgspec.structs.replace(FLAVOR, memory_mb=1)}],
    ids=["project", "flavor"],
)
def test_another_guest_than_the_requested_one_is_left_to_an_operator(
    harness: ConductorHarness, forged: dict[str, Any]
) -> None:
    uuid = requested(harness)
    claim(harness, uuid, "b", **forged)
    assert harness.state(uuid) == "building/scheduling on None"
    with harness.db.read() as session:
        assert [guest.host for guest in unexpected.guests(session, uuid)] == ["b"]


def test_a_forged_record_gives_no_port(harness: ConductorHarness) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.0.0.0/29")
    of_victim = port(harness, blue)
    with harness.db.write() as session:
        session.execute(update(models.Port).values(project_id="victim"))
    uuid = requested(harness)
    vif = Vif(port_id=of_victim.id, network_id=blue.id, mac_address=of_victim.mac_address)
    claim(harness, uuid, "b", network_info=(vif,))
    assert harness.state(uuid) == "building/scheduling on None"
    with pytest.raises(errors.Conflict, match="another project"):
        adopt(harness, uuid)
    with harness.db.read() as session:
        assert session.scalars(select(models.Port.instance_uuid)).all() == [None]


@pytest.mark.parametrize("attempt", [3, MAX_ATTEMPT])
def test_an_attempt_to_which_no_build_has_come_is_not_taken(harness: ConductorHarness, attempt: int) -> None:
    uuid = requested(harness)
    claim(harness, uuid, "b", attempt=attempt)
    assert harness.state(uuid) == "building/scheduling on None"


def test_a_build_on_another_host_stays_there(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    harness.settle()
    task = harness.task(uuid)
    assert task is not None
    other = {"a": "b", "b": "a"}[str(task.host)]
    claim(harness, uuid, other, attempt=2)
    after = harness.task(uuid)
    assert after is not None
    assert (after.host, after.attempt) == (task.host, 1)
    with pytest.raises(errors.Conflict, match=f"--take-from {task.host}"):
        adopt(harness, uuid)


def test_a_living_server_stays_on_its_host(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    claim(harness, uuid, "b", attempt=999)
    with pytest.raises(errors.Conflict, match="--take-from a"):
        adopt(harness, uuid)
    assert harness.state(uuid) == "active/None on a"
    adopt(harness, uuid, "a")
    assert (harness.state(uuid), harness.instance(uuid).attempt) == ("active/None on b", 999)


def test_bug_guest_of_a_third_host_is_adopted_although_row_and_task_name_two_others(harness: ConductorHarness) -> None:
    """`--take-from` took one of them, and the other one refused."""
    uuid = harness.active("a")
    harness.act(uuid, "stop")
    with harness.db.write() as session:
        session.execute(update(models.Instance).where(models.Instance.uuid == uuid).values(host="c"))
    claim(harness, uuid, "b", attempt=999)
    for one in ("a", "c"):
        with pytest.raises(errors.Conflict, match="--take-from a --take-from c"):
            adopt(harness, uuid, one)
    adopt(harness, uuid, "a", "c")
    assert harness.state(uuid) == "active/None on b"


def test_another_host_does_not_keep_a_server_from_its_end(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    claim(harness, uuid, "b", attempt=999)
    with harness.db.read() as session:
        assert unexpected.newer_among(session, [uuid]) == {}
        assert [guest.host for guest in unexpected.guests(session, uuid)] == ["b"]


def test_its_own_host_keeps_a_server_from_its_end(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    later = EndedAction(id=1000, request_id="req-later", kind="restore")
    guest_mark = GuestMark(uuid=uuid, attempt=1, power_state=1, action_id=later.id, request_id=later.request_id)
    harness.conductor.report_guests(CTX, host="a", guests=(guest_mark,))
    with harness.db.read() as session:
        assert unexpected.newer_among(session, [uuid]) == {uuid: "a"}


def test_every_host_may_have_unshelved_a_server_since_the_backup(harness: ConductorHarness) -> None:
    uuid = harness.active("a")
    harness.bring_to(uuid, VmState.SHELVED_OFFLOADED)
    claim(harness, uuid, "b", attempt=2)
    with harness.db.read() as session:
        assert unexpected.newer_among(session, [uuid]) == {uuid: "b"}


def removed(harness: ConductorHarness, uuid: str, host: str | None) -> list[str]:
    worker = harness.conductor.worker
    return worker.run(lambda session: remove(session, uuid, host, worker.at()))


def purged(harness: ConductorHarness, uuid: str, host: str) -> tuple[str, ...]:
    return harness.conductor.begin_audit(CTX, host=host, view=harness.view(host, uuid)).purged


def test_the_removal_from_one_host_leaves_the_guest_of_another(harness: ConductorHarness) -> None:
    for host in ("a", "b"):
        claim(harness, OWN.uuid, host)
    assert removed(harness, OWN.uuid, "b") == ["b"]
    assert purged(harness, OWN.uuid, "a") == ()
    assert claim(harness, OWN.uuid, "a").remove == ()
    assert claim(harness, OWN.uuid, "b").remove == (OWN.uuid,)


def test_the_removal_leaves_a_guest_whose_host_reports_later(harness: ConductorHarness) -> None:
    claim(harness, OWN.uuid, "b")
    assert removed(harness, OWN.uuid, None) == ["b"]
    assert purged(harness, OWN.uuid, "b") == (OWN.uuid,)
    assert claim(harness, OWN.uuid, "a").remove == ()
    assert purged(harness, OWN.uuid, "a") == ()


def test_a_guest_adopted_after_a_removal_elsewhere_is_deleted_and_purged(harness: ConductorHarness) -> None:
    claim(harness, OWN.uuid, "b")
    removed(harness, OWN.uuid, "b")
    harness.conductor.report_guests(CTX, host="b", guests=())
    claim(harness, OWN.uuid, "a")
    adopt(harness, OWN.uuid)
    assert harness.count(models.PurgedInstance) == 0, "the purge of its row writes one itself"
    assert harness.state(OWN.uuid) == "active/None on a"


def why_alone(harness: ConductorHarness, host: str = "b") -> list[str]:
    with harness.db.read() as session:
        (guest,) = [guest for guest in unexpected.guests(session) if guest.host == host]
        return doubts.of(session, harness.conf(), guest)


def stock(harness: ConductorHarness, **image: Any) -> None:
    """The catalogue has the flavor and the image of the guests here."""
    with harness.db.write() as session:
        flavors.add(session, FLAVOR, harness.conductor.worker.at())
        images.add(session, msgspec.structs.replace(IMAGE, **image), harness.conductor.worker.at())


def test_a_guest_like_the_catalogue_is_adopted_with_others(harness: ConductorHarness) -> None:
    stock(harness, owner="demo", visibility="private")
    claim(harness, OWN.uuid, "b", image=IMAGE)
    assert why_alone(harness) == []


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"flavor": msgspec.structs.replace(FLAVOR, vcpus=4000)}, "no such flavor m1, or it has changed"),
        ({"project_id": "other"}, "project other does not see image"),
        ({"image": msgspec.structs.replace(IMAGE, properties={"os_type": "other"})}, "has changed"),
        ({"image_ref": named("no image")}, "there is no image"),
    ],
    ids=["flavor", "project", "properties", "image"],
)
def test_a_guest_unlike_the_catalogue_is_adopted_by_itself(
    harness: ConductorHarness, forged: dict[str, Any], why: str
) -> None:
    stock(harness, owner="demo", visibility="private")
    claim(harness, OWN.uuid, "b", **forged)
    assert why in "; ".join(why_alone(harness))


def test_a_guest_on_a_network_of_others_is_adopted_by_itself(harness: ConductorHarness) -> None:
    stock(harness, visibility="public")
    blue = network(harness)
    vif = Vif(port_id=named("port"), network_id=blue.id, mac_address="02:00:00:00:00:01")
    claim(harness, OWN.uuid, "b", project_id="evil", network_info=(vif,))
    assert why_alone(harness) == [f"network {blue.id} belongs to another project"]


def test_a_guest_of_two_hosts_is_adopted_by_itself(harness: ConductorHarness) -> None:
    stock(harness, visibility="public")
    for host in ("a", "b"):
        claim(harness, OWN.uuid, host)
    assert why_alone(harness) == ["host a has it, too"]


def test_a_guest_beyond_the_quota_is_adopted_by_itself(harness: ConductorHarness) -> None:
    stock(harness, visibility="public")
    limit(harness, instances=0)
    claim(harness, OWN.uuid, "b")
    assert why_alone(harness) == ["the quota of project demo is too small: instances"]
