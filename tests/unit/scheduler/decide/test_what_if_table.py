"""Many hosts take an instance at once: each as if it were the only one, but for the I/O of the build."""

from typing import Any

import numpy as np
from hypothesis import given, settings

from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import limits_at
from minova.scheduler.decide.preselection import resources_at
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.filters.numa_topology import NUMATopologyFilter
from minova.scheduler.hosts.numa_equivalence import equivalence_key
from minova.scheduler.hosts.record import WHOLE_COLUMNS, HostRecord
from minova.scheduler.hosts.table import HostTable
from tests.unit.hardware import guests
from tests.unit.scheduler.hosts import CONF, record, record_lists, spec_of, specs, table_of

RULES = Rules(
    filters=[NUMATopologyFilter(CONF)],
    weighers=[],
    host_subset_size=1,
    shuffle_best_same_weighed_hosts=False,
    max_placement_results=0,
    draw=lambda n: 0,
)


def taken(table: HostTable, row: int) -> Any:
    """All that an instance takes of a host, but for what a build takes only while it lasts."""
    topology = table.value(row, "numa_topology")
    return (
        [table.value(row, name) for name in WHOLE_COLUMNS if name not in {"num_io_ops", "local_gb_used"}],
        [table.inventory_of(row, name) for name in ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "VGPU")],
        topology and equivalence_key(topology),
        table.numa.counts(row),
        table.value(row, "pci_pools"),
    )


@settings(max_examples=60)
@given(records=record_lists(), spec=specs())
def test_each_host_takes_what_it_takes_alone(records: list[HostRecord], spec: Any) -> None:
    table, what_if = table_of(*records), WhatIfTable(table_of(*records))
    rows = np.arange(len(records))[::2]
    for uuid in ("first", "second"):
        what_if.consume_each(rows, spec, uuid, RULES)
        for row in rows.tolist():
            host = table.host(row)
            limits = limits_at(host, spec, RULES).numa_topology
            table.consume(row, spec, uuid, resources=dict(resources_at(host, spec)), limits=limits)
        assert [taken(what_if, row) for row in range(len(records))] == [
            taken(table, row) for row in range(len(records))
        ]
        assert what_if.instances_among([uuid]).tolist() == table.instances_among([uuid]).tolist()
    untouched = table_of(*records)
    assert what_if.num_io_ops.tolist() == untouched.num_io_ops.tolist()
    disk_gb = spec.flavor.root_gb + spec.flavor.ephemeral_gb
    expected = [number + 2 * disk_gb * (row in rows) for row, number in enumerate(untouched.local_gb_used.tolist())]
    assert what_if.local_gb_used.tolist() == expected


def test_instances_are_counted_with_those_that_were_there() -> None:
    what_if = WhatIfTable(table_of(record(1, instances=("a",)), record(2)))
    what_if.consume_each(np.array([0]), spec_of(), "new", RULES)
    assert what_if.instances_among(["a", "new", "none"]).tolist() == [2, 0]
    assert [what_if.instances_among_row(row, ["a", "new"]) for row in range(2)] == [2, 0]


def test_hosts_whose_cells_are_alike_take_the_same_and_others_their_own() -> None:
    """Each of two guests in a row, on two kinds of cells and two kinds of ratios."""
    plain, taken_cell = guests.host(guests.cell()), guests.host(guests.cell(pinned_cpus=guests.cpus(0, 1)))
    records = [
        record(number, numa_topology=topology, cpu_allocation_ratio=ratio)
        for number, (topology, ratio) in enumerate(
            [(plain, 4.0), (taken_cell, 4.0), (plain, 4.0), (plain, 1.0), (None, 4.0)], start=1
        )
    ]
    what_if = WhatIfTable(table_of(*records))
    spec = spec_of(numa_topology=guests.guest(guests.pinned(3)))
    for free in ([5, 3, 5, 5], [2, 0, 2, 2], [2, 0, 2, 2]):
        what_if.consume_each(np.arange(5), spec, f"{free}", RULES)
        assert [what_if.numa.counts(row)[0].free_pcpus for row in range(4)] == free
        assert what_if.numa.counts(4) == ()
