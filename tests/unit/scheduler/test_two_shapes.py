"""Laws of the table, for any hosts: one spelling and two shapes agree; decisions never pass a limit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.scheduler.decision import Rules, best_first, decide
from minova.scheduler.filters import Filter
from minova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.core import CoreFilter
from minova.scheduler.filters.disk import DiskFilter
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from minova.scheduler.filters.ram import RamFilter
from minova.scheduler.host_record import HostRecord, ImageSupport, ServiceFacts
from minova.scheduler.weights import Weigher
from minova.scheduler.weights.cpu import CPUWeigher
from minova.scheduler.weights.disk import DiskWeigher
from minova.scheduler.weights.ram import RAMWeigher
from tests.unit.scheduler.hosts import CONF, QEMU, record, room, spec_of, table_of, uuids, zone

FILTERS = [AvailabilityZoneFilter, ComputeFilter, RamFilter, DiskFilter, CoreFilter, ImagePropertiesFilter]
WEIGHERS = [RAMWeigher, CPUWeigher, DiskWeigher]
RULES = Rules(
    filters=[cls(CONF) for cls in FILTERS],
    weighers=[cls(CONF) for cls in WEIGHERS],
    host_subset_size=1,
    shuffle_best_same_weighed_hosts=False,
    max_placement_results=1000,
    draw=lambda n: 0,
)

services = st.builds(
    ServiceFacts,
    disabled=st.booleans(),
    disabled_reason=st.sampled_from([None, "why"]),
    forced_down=st.booleans(),
    down_reason=st.sampled_from([None, "gone"]),
)
supports = st.sampled_from([QEMU, ImageSupport(), ImageSupport(supported_instances=(("aarch64", "kvm", "hvm"),))])
ratios = st.sampled_from([0.5, 1.0, 1.5, 4.0])


@st.composite
def facts(draw: Any) -> dict[str, Any]:
    sizes = {
        "memory_mb": draw(st.integers(0, 8)) * 1024,
        "memory_mb_used": draw(st.integers(0, 9)) * 1024,
        "vcpus": draw(st.integers(0, 4)),
        "vcpus_used": draw(st.integers(0, 9)),
        "local_gb": draw(st.integers(0, 40)),
        "free_disk_mb": draw(st.integers(-10, 40)) * 1024,
    }
    rooms = {
        name: room(draw(st.integers(0, 40)) * scale, draw(st.integers(0, 40)) * scale, min_unit=draw(st.integers(1, 2)))
        for name, scale in (("VCPU", 1), ("MEMORY_MB", 1024), ("DISK_GB", 1))
        if draw(st.booleans())
    }
    return {
        **sizes,
        "rooms": rooms,
        "ram_allocation_ratio": draw(ratios),
        "cpu_allocation_ratio": draw(ratios),
        "disk_allocation_ratio": draw(ratios),
        "service_id": draw(st.integers(1, 3)),
        "service": draw(services),
        "aggregates": draw(st.sampled_from([(), (zone("z1"),), (zone("z1,z2"),)])),
        "image_support": draw(supports),
    }


@st.composite
def record_lists(draw: Any) -> list[HostRecord]:
    many = draw(st.lists(facts(), min_size=1, max_size=6))
    return [record(number, **one) for number, one in enumerate(many, start=1)]


specs = st.builds(
    spec_of,
    memory_mb=st.sampled_from([512, 1024, 3000]),
    vcpus=st.integers(1, 3),
    root_gb=st.integers(0, 20),
    swap=st.sampled_from([0, 100]),
    availability_zone=st.sampled_from([None, "z1", "nova"]),
    properties=st.sampled_from([{}, {"hw_architecture": "x86_64"}, {"img_hv_type": "kvm"}]),
)


@pytest.mark.parametrize("cls", FILTERS)
@given(records=record_lists(), spec=specs, silent=st.dictionaries(st.integers(1, 3), st.floats(0, 1e9)))
def test_table_and_host_agree(
    cls: type[Filter], records: list[HostRecord], spec: Any, silent: dict[int, float]
) -> None:
    table, sieve = table_of(*records, silent=silent), cls(CONF)
    verdict = sieve.sieve(table, np.ones(len(table), bool), spec)
    for row in range(len(table)):
        reason = sieve.refusal(table.host(row), spec)
        assert bool(verdict.passed[row]) == (reason is None)
        assert reason is None or verdict.reason(row) == reason


@pytest.mark.parametrize("cls", WEIGHERS)
@given(records=record_lists(), spec=specs)
def test_weighers_agree(cls: type[Weigher], records: list[HostRecord], spec: Any) -> None:
    table, weigher = table_of(*records), cls(CONF)
    rows = np.arange(len(table))
    assert np.broadcast_to(weigher.column(table, rows, spec), len(rows)).tolist() == [weigher.weigh(table.host(row), spec) for row in rows.tolist()]


@given(records=record_lists(), spec=specs, count=st.integers(1, 6), alternates=st.integers(0, 3))
def test_decisions_never_pass_a_limit(records: list[HostRecord], spec: Any, count: int, alternates: int) -> None:
    table = table_of(*records)
    decision = decide(table, spec, uuids(count), alternates, RULES)
    assert (decision.error is None) == (len(decision.selections) == count)
    by_uuid = {one.uuid: one for one in records}
    taken: dict[str, int] = {}
    for selections in decision.selections:
        assert len(selections) <= 1 + alternates
        assert len({s.provider_uuid for s in selections}) == len(selections)
        taken[selections[0].provider_uuid] = taken.get(selections[0].provider_uuid, 0) + 1
    for uuid, times in taken.items():
        host = by_uuid[uuid]
        assert host.memory_mb_used + times * spec.flavor.memory_mb <= host.memory_mb * host.ram_allocation_ratio
        if host.vcpus:
            assert host.vcpus_used + times * spec.flavor.vcpus <= host.vcpus * host.cpu_allocation_ratio
        for name, amount in spec.resources.items():
            assert host.rooms[name].used + times * amount <= host.rooms[name].capacity


@given(records=record_lists(), spec=specs, count=st.integers(1, 4))
def test_restoring_forgets_what_was_decided(records: list[HostRecord], spec: Any, count: int) -> None:
    table, untouched = table_of(*records), table_of(*records)
    decision = decide(table, spec, uuids(count), 0, RULES)
    touched = {one.id for one in records if one.uuid in {s[0].provider_uuid for s in decision.selections}}
    assert table.restore() == touched
    assert picture(table) == picture(untouched)


@given(record_lists(), st.data())
def test_a_table_changed_bit_by_bit_is_the_table_built_at_once(records: list[HostRecord], data: Any) -> None:
    table = table_of()
    order = data.draw(st.permutations(records))
    gone = data.draw(st.sets(st.sampled_from([one.id for one in records])))
    for one in order:
        table.apply({one.id: record(one.id, memory_mb=1)})
        table.apply({one.id: one})
    table.apply(dict.fromkeys(gone))
    assert picture(table) == picture(table_of(*(one for one in records if one.id not in gone)))


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), min_size=1), st.integers(1, 12))
def test_the_best_first_are_those_of_a_stable_sort(totals: list[float], most: int) -> None:
    found = list(best_first(np.array(totals), most))
    whole = sorted(range(len(totals)), key=lambda i: -totals[i])
    assert found[:most] == whole[:most]


def picture(table: Any) -> list[Any]:
    """Every value of every row."""
    shown = []
    for row in range(len(table)):
        host = table.host(row)
        shown.append(
            (
                table.records[row],
                host.service,
                host.aggregates,
                host.image_support,
                [getattr(host, name) for name in ("memory_mb_used", "vcpus_used", "free_disk_mb", "num_instances")],
                [host.room(name) for name in ("VCPU", "MEMORY_MB", "DISK_GB")],
            )
        )
    return shown
