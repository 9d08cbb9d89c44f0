"""Records of guests, which outlive the process."""

from pathlib import Path

import msgspec
import pytest

from minova.compute.guest_records import GuestRecords
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.guest_record import GuestRecord
from tests.fakes.computes import FLAVOR

GUEST = Instance(uuid="guest", display_name="guest", flavor=FLAVOR)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    GuestRecords(tmp_path).keep(GuestRecord(instance=GUEST, attempt=1, node="node"))
    return tmp_path


def accepted(folder: Path) -> bool:
    record = GuestRecords(folder).of(GUEST.uuid)
    assert record is not None
    return record.accepted


def test_a_record_outlives_the_process(folder: Path) -> None:
    assert GuestRecords(folder).of(GUEST.uuid) == GuestRecord(instance=GUEST, attempt=1, node="node")


def test_an_acceptance_outlives_the_process(folder: Path) -> None:
    assert not accepted(folder)
    GuestRecords(folder).accepted(GUEST.uuid, 1)
    assert accepted(folder)


def test_an_acceptance_does_not_hold_for_another_attempt(folder: Path) -> None:
    records = GuestRecords(folder)
    records.accepted(GUEST.uuid, 2)
    assert not accepted(folder)
    records.accepted(GUEST.uuid, 1)
    records.keep(GuestRecord(instance=GUEST, attempt=2, node="node"))
    assert not accepted(folder)


def test_a_half_written_acceptance_is_none(folder: Path) -> None:
    (folder / f"{GUEST.uuid}.accepted").touch()
    assert not accepted(folder)


def test_a_forgotten_guest_leaves_no_file(folder: Path) -> None:
    records = GuestRecords(folder)
    records.accepted(GUEST.uuid, 1)
    records.forget(GUEST.uuid)
    assert list(folder.iterdir()) == []


def test_a_broken_record_does_not_hide_the_others(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = msgspec.structs.replace(GUEST, uuid="other")
    GuestRecords(folder).keep(GuestRecord(instance=other, attempt=1, node="node"))
    (folder / f"{GUEST.uuid}.json").write_text("{")
    assert list(GuestRecords(folder).all()) == ["other"]
    assert f"{GUEST.uuid}.json is left out" in caplog.text
