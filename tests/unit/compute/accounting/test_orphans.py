"""What guests use that no row expects."""

from typing import Any

import msgspec
import pytest

from minova.compute.accounting.orphans import orphans_of, with_records
from minova.compute.accounting.usage import Usage
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.instance import Instance
from minova.objects.unexpected.guest_record import GuestRecord

FLAVOR = Flavor(flavorid="f", name="f", vcpus=9, memory_mb=900, root_gb=7)
RECORD = GuestRecord(instance=Instance(uuid="i", display_name="vm", flavor=FLAVOR, project_id="p"), attempt=2, node="n")


def domain(**changes: Any) -> DomainView:
    given = {"uuid": "i", "name": "i", "power_state": 1, "memory_mb": 100, "vcpus": 3, "ours": True, "attempt": 2}
    return DomainView(**{**given, **changes})


@pytest.mark.parametrize(
    ("guest", "record", "used"),
    [
        (domain(), RECORD, Usage(memory_mb=100, disk_gb=7, vcpus=3)),
        (domain(), None, Usage(memory_mb=100, disk_gb=0, vcpus=3)),
        (domain(attempt=1), RECORD, Usage(memory_mb=100, disk_gb=0, vcpus=3)),
        (domain(ours=False), RECORD, Usage(memory_mb=100, disk_gb=0, vcpus=0)),
    ],
)
def test_disks_count_if_the_record_is_of_the_same_attempt(
    guest: DomainView, record: GuestRecord | None, used: Usage
) -> None:
    assert orphans_of([guest], (), {"i": record} if record else {}, {}) == {"i": used}


def test_what_a_row_expects_is_no_orphan_and_disks_without_a_domain_are() -> None:
    left = {"i": 50, "j": 60, "k": 70}
    orphans = orphans_of([domain(), domain(uuid="x")], {"j", "x"}, {}, left)
    assert orphans == {
        "i": Usage(memory_mb=100, disk_gb=0, vcpus=3),
        "k": Usage(memory_mb=0, disk_gb=70, vcpus=0),
    }


@pytest.mark.parametrize(
    ("changes", "record", "accepted"),
    [
        ({}, {"accepted": True}, True),
        ({}, {"accepted": False}, False),
        ({"attempt": 1}, {"accepted": True}, False),
        ({"uuid": "j"}, {"accepted": True}, False),
    ],
)
def test_a_record_of_the_same_attempt_accepts_its_domain(
    changes: dict[str, Any], record: dict[str, bool], accepted: bool
) -> None:
    (orphan,) = with_records([domain(accepted=False, **changes)], {"i": msgspec.structs.replace(RECORD, **record)})
    assert orphan.accepted is accepted
