"""Laws of the table, for any hosts: one spelling and two shapes agree; decisions never pass a limit."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from minova.hardware.numa_counts import counts_of, needs_of
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology, NUMATopologyLimits
from minova.scheduler.built_in import FILTERS, WEIGHERS
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import best_first, decide
from minova.scheduler.filters import Filter
from minova.scheduler.filters.availability_zone import AvailabilityZoneFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.core import CoreFilter
from minova.scheduler.filters.disk import DiskFilter
from minova.scheduler.filters.image_properties import ImagePropertiesFilter
from minova.scheduler.filters.numa_topology import limits_of, misfit
from minova.scheduler.filters.ram import RamFilter
from minova.scheduler.hosts.numa_columns import NumaColumns
from minova.scheduler.hosts.record import CLASS_COLUMNS, FLOAT_COLUMNS, WHOLE_COLUMNS, HostRecord
from minova.scheduler.weights import Weigher
from minova.scheduler.weights.cpu import CPUWeigher
from minova.scheduler.weights.disk import DiskWeigher
from minova.scheduler.weights.ram import RAMWeigher
from tests.unit.hardware import guests
from tests.unit.scheduler.hosts import CONF, record, record_lists, spec_of, specs, table_of, uuids
from tests.unit.scheduler.requests import options

OPTIONS = options(
    isolated_hosts=["host1"],
    isolated_images=["i"],
    metrics__weight_setting=["cpu.percent=2.0"],
    metrics__required=False,
    image_props_weight_multiplier=1.0,
)
EVERY_FILTER: list[Filter] = [filter_class(OPTIONS) for filter_class in FILTERS.values()]
EVERY_WEIGHER: list[Weigher] = [weigher(OPTIONS) for weigher in WEIGHERS.values()]
RULES = Rules(
    filters=[
        cls(CONF)
        for cls in (AvailabilityZoneFilter, ComputeFilter, RamFilter, DiskFilter, CoreFilter, ImagePropertiesFilter)
    ],
    weighers=[cls(CONF) for cls in (RAMWeigher, CPUWeigher, DiskWeigher)],
    host_subset_size=1,
    shuffle_best_same_weighed_hosts=False,
    max_placement_results=1000,
    draw=lambda n: 0,
)
sized = st.builds(
    spec_of,
    memory_mb=st.sampled_from([512, 1024, 3000]),
    vcpus=st.integers(1, 3),
    root_gb=st.integers(0, 20),
    swap=st.sampled_from([0, 100]),
    availability_zone=st.sampled_from([None, "z1", "nova"]),
    properties=st.sampled_from([{}, {"hw_architecture": "x86_64"}, {"img_hv_type": "kvm"}]),
)
silences = st.dictionaries(st.integers(1, 3), st.floats(0, 1e9), max_size=2)


@settings(max_examples=40)
@given(records=record_lists(), spec=specs(), silent=silences)
def test_table_and_host_agree(records: list[HostRecord], spec: Any, silent: dict[int, float]) -> None:
    """Of every registered filter."""
    table = table_of(*records, silent=silent)
    for host_filter in EVERY_FILTER:
        reasons = [
            answered(lambda row=row, host_filter=host_filter: host_filter.refusal_reason(table.host(row), spec))
            for row in range(len(table))
        ]
        verdict = answered(
            lambda host_filter=host_filter: host_filter.filter_table(table, np.ones(len(table), bool), spec)
        )
        if isinstance(verdict, Exception):
            assert type(verdict) in {type(other_reason) for other_reason in reasons}
            continue
        for row, reason in enumerate(reasons):
            assert bool(verdict.passed[row]) == (reason is None), host_filter.name
            assert reason is None or verdict.reason(row) == reason


def answered(ask: Any) -> Any:
    """What came of it, or the error."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001  - whatever it is, both shapes must meet it
        return error


@settings(max_examples=40)
@given(records=record_lists(), spec=specs())
def test_weighers_agree(records: list[HostRecord], spec: Any) -> None:
    """Of every registered weigher."""
    table = table_of(*records)
    rows = np.arange(len(table))
    for weigher in EVERY_WEIGHER:
        column = np.broadcast_to(weigher.column(table, rows, spec), len(rows)).tolist()
        assert column == [float(weigher.weigh(table.host(row), spec)) for row in rows.tolist()], weigher.name


@given(st.lists(st.none() | guests.hosts(), min_size=1, max_size=5), guests.guests(), st.sampled_from([None, 1.0, 4.0]))
def test_counting_cells_and_fitting_them_agree(
    topologies: list[NUMATopology | None], wanted: InstanceNUMATopology, ratio: float | None
) -> None:
    limits = None if ratio is None else NUMATopologyLimits(cpu_allocation_ratio=ratio, ram_allocation_ratio=ratio)
    columns, count = NumaColumns(), len(topologies)
    columns.reshape(np.zeros(0, bool), count, np.arange(count))
    for row, topology in enumerate(topologies):
        columns.write(row, topology)
    passed, exact = columns.fitting(needs_of(wanted), limits)
    assert exact
    spec = spec_of(numa_topology=wanted)
    fits = [topology is not None and misfit(topology, spec, limits, ()) is None for topology in topologies]
    assert passed.tolist() == fits


@settings(max_examples=30)
@given(records=record_lists(), spec=specs())
def test_nothing_is_half_consumed(records: list[HostRecord], spec: Any) -> None:
    """Memory, disk, vcpus and counts are taken also where cells or devices do not fit; and what fits is taken."""
    table, name = table_of(*records), ("memory_mb_used", "vcpus_used", "num_io_ops", "num_instances", "free_disk_mb")
    host, flavor = table.host(0), spec.flavor
    before, old = [getattr(host, attribute) for attribute in name], (host.numa_topology, host.pci_pools)
    fits = spec.numa_topology and old[0] and misfit(old[0], spec, limits_of(host), old[1]) is None
    table.consume(0, spec, "new", limits=limits_of(host))
    taken = [flavor.memory_mb, flavor.vcpus, 1, 1, -flavor.root_gb * 1024]
    assert [getattr(host, attribute) for attribute in name] == [
        have + more for have, more in zip(before, taken, strict=True)
    ]
    assert host.instances_among(["new"]) == 1
    assert (host.numa_topology != old[0]) == bool(fits)
    assert [(cell, cell.pages) for cell in table.numa.counts(0)] == [
        (cell, cell.pages) for cell in counts_of(host.numa_topology or NUMATopology())
    ]
    assert spec.pci_requests or host.pci_pools == old[1]
    table.restore()
    assert (host.numa_topology, host.pci_pools) == old


@given(records=record_lists(), spec=sized, count=st.integers(1, 6), alternates=st.integers(0, 3))
def test_decisions_never_pass_a_limit(records: list[HostRecord], spec: Any, count: int, alternates: int) -> None:
    table = table_of(*records)
    decision = decide(table, spec, uuids(count), alternates, RULES)
    assert (decision.error is None) == (len(decision.selections) == count)
    by_uuid = {record.uuid: record for record in records}
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
            assert host.inventories[name].used + times * amount <= host.inventories[name].capacity


@given(records=record_lists(), spec=sized, count=st.integers(1, 4))
def test_restoring_forgets_what_was_decided(records: list[HostRecord], spec: Any, count: int) -> None:
    table, untouched = table_of(*records), table_of(*records)
    decision = decide(table, spec, uuids(count), 0, RULES)
    touched = {record.id for record in records if record.uuid in {s[0].provider_uuid for s in decision.selections}}
    assert table.restore() == touched
    assert comparable(table) == comparable(untouched)


@given(record_lists(), st.data())
def test_a_table_changed_bit_by_bit_is_the_table_built_at_once(records: list[HostRecord], data: Any) -> None:
    table = table_of()
    order = data.draw(st.permutations(records))
    gone = data.draw(st.sets(st.sampled_from([record.id for record in records])))
    for host in order:
        table.apply({host.id: record(host.id, memory_mb=1)})
        table.apply({host.id: host})
    table.apply(dict.fromkeys(gone))
    assert comparable(table) == comparable(table_of(*(record for record in records if record.id not in gone)))


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), min_size=1), st.integers(1, 12))
def test_the_best_first_are_those_of_a_stable_sort(totals: list[float], most: int) -> None:
    best_rows = list(best_first(np.array(totals), most))
    whole = sorted(range(len(totals)), key=lambda i: -totals[i])
    assert best_rows == whole[:most]


def comparable(table: Any) -> list[Any]:
    """Every value of every row."""
    shown = []
    for row in range(len(table)):
        host = table.host(row)
        columns = (*WHOLE_COLUMNS, *FLOAT_COLUMNS, *CLASS_COLUMNS)
        shown.append(
            (
                table.records[row],
                {name: getattr(host, name) for name in columns},
                {name: host.inventory(name) for name in ("VCPU", "MEMORY_MB", "DISK_GB", "VGPU")},
                [(cell, sorted(cell.pages.items())) for cell in table.numa.counts(row)],
                table.instances_among(table.records[row].instances).tolist(),
            )
        )
    return shown
