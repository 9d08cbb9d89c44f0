"""Reports of guests that arrive late or twice change nothing: what a later one said stays."""

import msgspec
import pytest

from minova import errors
from minova.db import models
from minova.db.recovery import unexpected
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.unexpected.guest_record import GuestRecord
from tests.fakes.identified import Machine
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, subnet
from tests.functional.conductor.test_unexpected_guests import forget, mark, reasons, record_of

OF_PROCESS = msgspec.structs.replace(CTX, process="11111111-0000-4000-8000-000000000001")
OF_NEXT = msgspec.structs.replace(CTX, process="11111111-0000-4000-8000-000000000002")


@pytest.fixture
def record(harness: ConductorHarness) -> GuestRecord:
    """Of a guest that has an address, and no row any more."""
    blue = network(harness)
    subnet(harness, blue, "10.0.0.0/29")
    uuid = harness.active(requested_networks=(RequestedNic(network_id=blue.id),))
    guest_record = record_of(harness, uuid)
    forget(harness)
    return guest_record


def test_a_late_report_frees_no_addresses(harness: ConductorHarness, record: GuestRecord) -> None:
    uuid, conductor = record.instance.uuid, harness.conductor
    guests = (mark(uuid, record),)
    conductor.report_guests(OF_PROCESS, host="a", guests=guests, number=7)
    conductor.report_guest_records(OF_PROCESS, host="a", records=(record,), number=8)
    for late in (6, 7, 8):
        answer = conductor.report_guests(OF_PROCESS, host="a", guests=(), number=late)
        assert answer.wanted == ()
        assert (reasons(harness), harness.count(models.Port)) == ({uuid: "no_row"}, 1), late
    conductor.report_guests(OF_PROCESS, host="a", guests=(), number=9)
    assert (reasons(harness), harness.count(models.Port)) == ({}, 0)


def test_a_late_report_takes_back_no_decision(harness: ConductorHarness, record: GuestRecord) -> None:
    uuid, conductor = record.instance.uuid, harness.conductor
    guests = (mark(uuid, record),)
    conductor.report_guests(OF_PROCESS, host="a", guests=guests, number=2)
    with harness.db.write() as session:
        unexpected.mark_for_removal(session, uuid, "a", harness.conductor.worker.at())
    conductor.report_guests(OF_PROCESS, host="a", guests=(), number=1)
    assert conductor.report_guests(OF_PROCESS, host="a", guests=guests, number=3).remove == (uuid,)


def test_another_conductor_knows_the_order_too(harness: ConductorHarness, record: GuestRecord) -> None:
    guests = (mark(record.instance.uuid, record),)
    harness.conductor.report_guests(OF_PROCESS, host="a", guests=guests, number=2)
    harness.start("two").report_guests(OF_PROCESS, host="a", guests=(), number=1)
    assert reasons(harness) != {}


def test_late_records_are_ignored(harness: ConductorHarness, record: GuestRecord) -> None:
    """Even if nothing has ended on the host between the two, and so only their numbers differ."""
    named = msgspec.structs.replace(record, instance=msgspec.structs.replace(record.instance, display_name="new"))
    conductor = harness.conductor
    conductor.report_guests(OF_PROCESS, host="a", guests=(mark(record.instance.uuid, record),), number=1)
    conductor.report_guest_records(OF_PROCESS, host="a", records=(named,), number=3)
    conductor.report_guest_records(OF_PROCESS, host="a", records=(record,), number=2)
    with harness.db.read() as session:
        (row,) = unexpected.guests(session)
        assert row.record == named


def test_the_next_process_begins_anew(harness: ConductorHarness, record: GuestRecord) -> None:
    guests = (mark(record.instance.uuid, record),)
    harness.conductor.report_guests(OF_PROCESS, host="a", guests=guests, number=100)
    harness.conductor.report_guests(OF_NEXT, host="a", guests=(), number=1)
    assert reasons(harness) == {}


def test_a_superseded_process_reports_nothing(
    harness: ConductorHarness, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also not to a conductor that has heard nothing of the process that took over."""
    machine = Machine(tmp_path_factory.mktemp("machine"), harness.conductor)
    first = machine.boot("hv")
    of_first = msgspec.structs.replace(CTX, process=first.identity.process)
    other = harness.start("two")
    uuid = "22222222-0000-4000-8000-000000000001"
    other.report_guests(of_first, host="hv", guests=(mark(uuid),), number=100)
    first.die()
    second = machine.boot("hv")
    of_second = msgspec.structs.replace(CTX, process=second.identity.process)
    # Its own first report, at its start, was about no guests.
    harness.conductor.report_guests(of_second, host="hv", guests=(mark(uuid),), number=100)
    with pytest.raises(errors.Superseded):
        other.report_guests(of_first, host="hv", guests=(), number=101)
    with pytest.raises(errors.Superseded):
        other.report_guest_records(of_first, host="hv", records=(), number=102)
    assert reasons(harness) == {uuid: "no_row"}
