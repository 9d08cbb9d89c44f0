"""A stolen host reports guests that it does not have: it takes no more addresses than its guests could have, frees none
that another host's guest has, and breaks no list.
"""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import func, select

from minova import errors
from minova.conductor.unexpected import checks, listing
from minova.db import models
from minova.db.networks import held_ports
from minova.db.recovery import unexpected
from minova.objects.catalogue.image import Image, StoredImage
from minova.objects.network.network import MAX_ADDRESSES, Subnet
from minova.objects.network.vif import MAX_NICS, Vif, VifAddress
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.guest_record import EndedAction, GuestMark, GuestRecord
from tests.functional.conductor.conductor_harness import CTX, FLAVOR, ConductorHarness
from tests.functional.conductor.network_cases import addresses_of, network, port, subnet
from tests.functional.conductor.test_unexpected_guests import adopt, forget, mark, reasons, record_of, report


def id_of(number: int) -> str:
    return str(UUID(int=number))


def forged(number: int, *vifs: Vif, **changes: Any) -> GuestRecord:
    instance = Instance(
        uuid=id_of(number), display_name="x", flavor=FLAVOR, project_id="p", user_id="u", network_info=vifs
    )
    return GuestRecord(instance=msgspec.structs.replace(instance, **changes), attempt=1, node="a-node")


def vif(of: Subnet, number: int, *addresses: str, **changes: Any) -> Vif:
    vif = Vif(
        port_id=id_of(0xF000000 + number),
        network_id=of.network_id,
        mac_address=f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        addresses=tuple(VifAddress(subnet_id=of.id, ip_address=address) for address in addresses),
    )
    return msgspec.structs.replace(vif, **changes)


def held(harness: ConductorHarness) -> int:
    """Returns the number of addresses that are held."""
    query = select(func.count()).select_from(models.IpAllocation)
    query = query.join(models.Port, models.Port.id == models.IpAllocation.port_id)
    with harness.db.read() as session:
        return session.scalar(query.where(models.Port.device_owner == held_ports.OWNER)) or 0


def listed(harness: ConductorHarness) -> list[listing.UnexpectedItem]:
    with harness.db.read() as session:
        return listing.listed(session)


BAD_MARKS: dict[str, dict[str, Any]] = {
    "no uuid": {"uuid": "x\n2026-01-01 CRITICAL minova forged"},
    "a uuid that is not in its column's form": {"uuid": id_of(1).upper().replace("0", "A")},
    "a name of two lines": {"name": "a\nb"},
    "a long name": {"name": "x" * 256},
    "a node with a control character": {"node": "\x1b[2J"},
    "a request id with a space": {"request_id": "req a"},
    "an unknown power state": {"power_state": 99},
    "an attempt beyond all builds": {"attempt": 2**31 - 1},
    "a negative attempt": {"attempt": -1},
    "an action beyond its column": {"action_id": 2**31},
    "memory beyond its column": {"memory_mb": 2**31},
}


@pytest.mark.parametrize("changes", BAD_MARKS.values(), ids=BAD_MARKS.keys())
def test_a_mark_that_is_not_valid_is_refused(harness: ConductorHarness, changes: dict[str, Any]) -> None:
    bad = msgspec.structs.replace(mark(id_of(1)), **changes)
    with pytest.raises(errors.BadRequest) as refused:
        harness.conductor.report_guests(CTX, host="a", guests=(mark(id_of(2)), bad))
    assert str(refused.value).isprintable()
    assert reasons(harness) == {}


def test_reports_have_a_bound(harness: ConductorHarness) -> None:
    many = tuple(GuestMark(uuid=id_of(number)) for number in range(checks.MAX_GUESTS + 1))
    for guests in (many, (mark(id_of(1)), mark(id_of(1)))):
        with pytest.raises(errors.BadRequest):
            harness.conductor.report_guests(CTX, host="a", guests=guests)
    assert reasons(harness) == {}


def test_an_unknown_power_state_in_a_row_breaks_neither_list_nor_adoption(harness: ConductorHarness) -> None:
    """A later release may have written it."""
    report(harness, forged(1))
    with harness.db.write() as session:
        (row,) = unexpected.guests(session)
        row.mark = msgspec.structs.replace(row.mark, power_state=99)
    assert [guest_view.power_state for guest_view in listed(harness)] == ["nostate"]
    adopt(harness, id_of(1))
    assert harness.instance(id_of(1)).vm_state == "stopped"


def test_another_host_does_not_free_the_addresses_of_a_guest(harness: ConductorHarness) -> None:
    blue = network(harness)
    subnet(harness, blue, "10.0.0.0/29")
    uuid = harness.active(requested_networks=(RequestedNic(network_id=blue.id),))
    record = record_of(harness, uuid)
    (interface,) = record.instance.network_info
    forget(harness)
    report(harness, record)
    harness.conductor.report_guests(CTX, host="b", guests=(mark(uuid),))
    harness.conductor.report_guests(CTX, host="b", guests=())
    others = addresses_of([port(harness, blue) for _ in range(4)])
    assert interface.addresses[0].ip_address not in others
    with pytest.raises(errors.IpAddressGenerationFailure):
        port(harness, blue)
    harness.conductor.report_guests(CTX, host="a", guests=())
    assert addresses_of([port(harness, blue)]) == [interface.addresses[0].ip_address]


def test_a_record_with_more_than_a_guest_can_have_is_left_out(
    harness: ConductorHarness, caplog: pytest.LogCaptureFixture
) -> None:
    front = subnet(harness, network(harness), "10.0.0.0/24")
    everything = vif(front, 1, *(f"10.0.0.{number}" for number in range(2, 3 + MAX_ADDRESSES)))
    bad = {
        "addresses": forged(1, everything),
        "interfaces": forged(2, *(vif(front, number) for number in range(MAX_NICS + 1))),
        "bytes": forged(3, user_data="x" * checks.MAX_RECORD),
        "port": forged(4, vif(front, 2, port_id="x" * 300)),
        "mac": forged(5, vif(front, 3, mac_address="\n")),
        "attempt": msgspec.structs.replace(forged(6), attempt=2**31 - 1),
    }
    good = forged(7, vif(front, 7, "10.0.0.7"))
    records = (*bad.values(), good)
    guests = tuple(mark(record.instance.uuid, record) for record in records)
    for _ in range(2):
        answer = harness.conductor.report_guests(CTX, host="a", guests=guests)
        harness.conductor.report_guest_records(CTX, host="a", records=records)
    assert set(answer.wanted) == {record.instance.uuid for record in bad.values()}
    assert [guest_view.id for guest_view in listed(harness) if guest_view.can_be_adopted] == [good.instance.uuid]
    assert held(harness) == 1
    assert [record.levelno for record in caplog.records if "left out" in record.message] == [logging.ERROR]


def test_addresses_outside_of_their_subnets_are_not_held(harness: ConductorHarness) -> None:
    front = subnet(harness, network(harness), "10.0.0.0/24")
    other = subnet(harness, network(harness), "10.0.1.0/24")
    foreign = VifAddress(subnet_id=other.id, ip_address="10.0.1.9")
    interface = vif(front, 1, "10.0.1.8", "no address", "10.0.0.9", "10.0.0.9")
    record = forged(1, msgspec.structs.replace(interface, addresses=(*interface.addresses, foreign)))
    report(harness, record)
    assert held(harness) == 1


def of_many(front: Subnet, count: int) -> Callable[[int], GuestRecord]:
    """Returns a maker of records with so many addresses each."""

    def made(number: int) -> GuestRecord:
        first = number * count
        return forged(number, vif(front, number, *(f"10.0.{n // 256}.{n % 256}" for n in range(first, first + count))))

    return made


@pytest.mark.parametrize("count", [1, MAX_ADDRESSES])
def test_a_host_holds_no_more_than_its_nodes_can_have(
    harness: ConductorHarness, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    front = subnet(harness, network(harness), "10.0.0.0/16")
    with harness.db.read() as session:
        most = held_ports.most_guests(session, "a")
    assert 0 < most < 100
    records = tuple(map(of_many(front, count), range(1, most + 10)))
    guests = tuple(mark(record.instance.uuid, record) for record in records)
    harness.conductor.report_guests(CTX, host="a", guests=guests)
    for _ in range(2):
        harness.conductor.report_guest_records(CTX, host="a", records=records)
    assert len(listed(harness)) == len(records), "all of them are listed"
    assert 0 < held(harness) <= most * held_ports.ADDRESSES_OF_GUEST
    assert harness.count(models.Port) <= most
    assert sum(guest_view.can_be_adopted for guest_view in listed(harness)) <= most
    assert [record.levelno for record in caplog.records if "more unexpected guests" in record.message] == [
        logging.ERROR
    ]
    # Another host is not affected.
    report(harness, forged(1000, vif(front, 1000, "10.0.99.1")), host="b")
    assert [
        guest_view.where for guest_view in listed(harness) if guest_view.id == id_of(1000) and guest_view.can_be_adopted
    ] == ["b"]


def test_a_long_report_is_one_line_of_the_log(harness: ConductorHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.conductor.report_guests(CTX, host="a", guests=tuple(mark(id_of(number)) for number in range(1, 300)))
    (line,) = [record.message for record in caplog.records if "not as expected" in record.message]
    assert "and 279 more" in line


def test_nothing_new_is_stored_on_a_full_disk(harness: ConductorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    record = forged(1)
    report(harness, record)
    monkeypatch.setattr(harness.db, "hold_ballast", lambda: False)
    with pytest.raises(errors.DiskFull):
        harness.conductor.report_guests(CTX, host="a", guests=(mark(id_of(2)),))
    with pytest.raises(errors.DiskFull):
        harness.conductor.report_guest_records(CTX, host="a", records=(record,))
    with pytest.raises(errors.DiskFull):
        harness.conductor.report_images(CTX, store="s", images=(StoredImage(id=id_of(3), size=1),))
    assert reasons(harness) == {id_of(1): "no_row"}
    harness.conductor.report_guests(CTX, host="a", guests=())
    assert reasons(harness) == {}, "what is gone is always removed"


def test_images_that_are_not_valid_are_left_out(harness: ConductorHarness) -> None:
    images = (
        StoredImage(id="lost\nfound", size=1),
        StoredImage(id="x" * 300, size=1),
        StoredImage(id=id_of(1), size=2**63),
        StoredImage(id=id_of(2), size=1, image=Image(id=id_of(9), name="of another image")),
        StoredImage(id=id_of(3), size=1, image=Image(id=id_of(3), name="x" * checks.MAX_RECORD)),
        StoredImage(id=id_of(4), size=1, image=Image(id=id_of(4), name="golden")),
    )
    harness.conductor.report_images(CTX, store="s", images=images)
    assert {(guest_view.id, guest_view.can_be_adopted) for guest_view in listed(harness)} == {
        (id_of(2), False),
        (id_of(3), False),
        (id_of(4), True),
    }
    for store, many in (("s\n", images), ("s", images[-1:] * (checks.MAX_IMAGES + 1))):
        with pytest.raises(errors.BadRequest):
            harness.conductor.report_images(CTX, store=store, images=many)


def test_a_record_of_another_action_than_its_mark_is_left_out(harness: ConductorHarness) -> None:
    ended = EndedAction(id=9, request_id="req-9", kind="start")
    newer = msgspec.structs.replace(forged(1, display_name="newer"), actions=(ended,))
    report(harness, newer)
    for late in (forged(1), msgspec.structs.replace(newer, attempt=2)):
        harness.conductor.report_guest_records(CTX, host="a", records=(late,))
    with harness.db.read() as session:
        (row,) = unexpected.guests(session)
        assert row.record == newer
