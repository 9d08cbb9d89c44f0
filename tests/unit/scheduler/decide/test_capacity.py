"""capacity_of: so many as one decision after the other finds, on any cloud; and what it says of those that are full."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from minova.objects.catalogue.instance_group import AFFINITY, ANTI_AFFINITY, InstanceGroup
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology
from minova.objects.requests.capacity import Capacity
from minova.scheduler.decide.capacity import capacity_of
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import decide, with_group_member
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.extensions import load_filters
from minova.scheduler.hosts.consumption import after_instance
from minova.scheduler.hosts.numa_equivalence import equivalence_key
from minova.scheduler.hosts.record import HostRecord, ServiceFacts
from tests.unit.hardware import guests
from tests.unit.scheduler.hosts import inventory, record, record_lists, spec_of, specs, table_of, zone
from tests.unit.scheduler.requests import options

FILTERS = [
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "ImagePropertiesFilter",
    "RamFilter",
    "AggregateCoreFilter",
    "DiskFilter",
    "AggregateNumInstancesFilter",
    "NUMATopologyFilter",
    "PciPassthroughFilter",
    "DifferentHostFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]
LIMIT = 60


def rules(*filters: str) -> Rules:
    return Rules(
        filters=load_filters(
            options(enabled_filters=list(filters), available_filters=["nova.scheduler.filters.all_filters"])
        ),
        weighers=[],
        host_subset_size=1,
        shuffle_best_same_weighed_hosts=False,
        max_placement_results=2,
        draw=lambda n: 0,
    )


RULES = rules(*FILTERS)
PLAIN = rules("ComputeFilter")


def one_by_one(records: list[HostRecord], spec: Any) -> dict[str, int]:
    """Each host's, from decision after decision."""
    table, counts = table_of(*records), {record.host: 0 for record in records}
    for number in range(LIMIT * len(records)):
        decision = decide(table, spec, (f"new-{number}",), 0, RULES)
        if decision.error is not None:
            return counts
        host = decision.selections[0][0].host
        counts[host] += 1
        spec = with_group_member(spec, host, f"new-{number}")
    return {}


def by_host(capacity: Capacity) -> dict[str, int]:
    return {host.host: host.count for host in capacity.hosts}


@settings(max_examples=60)
@given(records=record_lists(), spec=specs())
def test_as_many_as_one_decision_after_the_other_finds(records: list[HostRecord], spec: Any) -> None:
    table = table_of(*records)
    try:
        expected = one_by_one(records, spec)
    except Exception as error:  # noqa: BLE001  - whatever a filter says of a malformed request
        with pytest.raises(type(error)):
            capacity_of(WhatIfTable(table), spec, RULES, LIMIT)
        return
    before = [table.host(row).free_disk_mb for row in range(len(table))]
    capacity = capacity_of(WhatIfTable(table), spec, RULES, LIMIT)
    assert [table.host(row).free_disk_mb for row in range(len(table))] == before
    if spec.instance_group is not None and spec.instance_group.policy == AFFINITY:
        # Decisions go to the first host that they like, and then nowhere else.
        assert all(count in (0, by_host(capacity)[host]) for host, count in expected.items())
        assert capacity.total == max(by_host(capacity).values())
        return
    assert by_host(capacity) == expected
    assert capacity.complete
    assert capacity.total == sum(expected.values())
    assert all(host.step and host.reason is not None for host in capacity.hosts)


def test_each_host_says_what_stopped_it_and_what_most_lack_comes_first() -> None:
    records = [
        record(
            1,
            memory_mb_used=20480,
            inventories={"VCPU": inventory(64), "MEMORY_MB": inventory(32768, 20480), "DISK_GB": inventory(500)},
        ),
        record(2, inventories={"VCPU": inventory(2), "MEMORY_MB": inventory(32768), "DISK_GB": inventory(500)}),
        record(3, inventories={"VCPU": inventory(64), "MEMORY_MB": inventory(32768), "DISK_GB": inventory(5)}),
        record(4, inventories={"VCPU": inventory(64), "MEMORY_MB": inventory(1024), "DISK_GB": inventory(5)}),
        record(5, inventories={"VCPU": inventory(64), "MEMORY_MB": inventory(4096), "DISK_GB": inventory(500)}),
    ]
    capacity = capacity_of(WhatIfTable(table_of(*records)), spec_of(memory_mb=2048), PLAIN, 100)
    assert (capacity.total, capacity.complete) == (10, True)
    assert [(host.host, host.count) for host in capacity.hosts] == [
        ("host1", 6),
        ("host2", 2),
        ("host5", 2),
        ("host3", 0),
        ("host4", 0),
    ]
    assert capacity.hosts[0].step == "placement"
    assert capacity.hosts[0].reason == "free MEMORY_MB 0 < requested 2048 (capacity 32768, used 32768)"
    assert [(stop.what, stop.hosts, stop.full) for stop in capacity.stopped] == [
        ("free MEMORY_MB", 2, 2),
        ("free VCPU", 1, 1),
        ("free DISK_GB, max_unit of DISK_GB", 1, 0),
        ("free MEMORY_MB, max_unit of MEMORY_MB, free DISK_GB, max_unit of DISK_GB", 1, 0),
    ]


def test_what_takes_nothing_ends_at_the_limit() -> None:
    nothing = spec_of(memory_mb=0, vcpus=0, root_gb=0)
    capacity = capacity_of(WhatIfTable(table_of(record(1), record(2))), nothing, PLAIN, 7)
    assert (capacity.total, capacity.complete, capacity.limit) == (14, False, 7)
    assert {(host.step, host.reason) for host in capacity.hosts} == {(None, None)}
    assert capacity.stopped == ()


def test_a_cloud_without_hosts() -> None:
    assert capacity_of(WhatIfTable(table_of()), spec_of(), RULES, 9) == Capacity(total=0, limit=9)


@pytest.mark.parametrize(
    ("policy", "most", "total"), [(ANTI_AFFINITY, 1, 3), (ANTI_AFFINITY, 2, 6), (AFFINITY, None, 16)]
)
def test_a_group_counts(policy: str, most: int | None, total: int) -> None:
    group = InstanceGroup(uuid="g", policy=policy, max_server_per_host=most)
    capacity = capacity_of(WhatIfTable(table_of(*map(record, (1, 2, 3)))), spec_of(instance_group=group), RULES, 100)
    assert (capacity.total, capacity.one_host) == (total, policy == AFFINITY)


@pytest.mark.parametrize(
    ("policy", "most", "total"), [(ANTI_AFFINITY, 1, 2), (ANTI_AFFINITY, 3, 6), (AFFINITY, None, 32)]
)
def test_nodes_of_one_host_share_what_its_group_may_have_there(policy: str, most: int | None, total: int) -> None:
    nodes = [msgspec.structs.replace(record(number), host=host) for number, host in ((1, "a"), (2, "a"), (3, "b"))]
    table = table_of(*nodes, share_instances=True)
    group = InstanceGroup(uuid="g", policy=policy, max_server_per_host=most)
    capacity = capacity_of(WhatIfTable(table), spec_of(instance_group=group), RULES, 100)
    assert (capacity.total, capacity.one_host) == (total, policy == AFFINITY)


def test_a_group_counts_the_members_that_it_has() -> None:
    group = InstanceGroup(uuid="g", policy=ANTI_AFFINITY, members=("a", "b", "c"), max_server_per_host=3)
    table = table_of(record(1, instances=("a", "b")), record(2, instances=("c",)), record(3))
    capacity = capacity_of(WhatIfTable(table), spec_of(instance_group=group), RULES, 100)
    assert by_host(capacity) == {"host1": 1, "host2": 2, "host3": 3}


def test_nodes_of_one_host_share_what_its_members_leave() -> None:
    nodes = [record(1, host="a", instances=("x",)), record(2, host="a"), record(3, host="b", instances=("y",))]
    group = InstanceGroup(uuid="g", policy=ANTI_AFFINITY, members=("x", "y"), max_server_per_host=3)
    table = WhatIfTable(table_of(*nodes, share_instances=True))
    assert capacity_of(table, spec_of(instance_group=group), RULES, 100).total == 2 + 2


def test_a_host_keeps_the_reason_for_which_it_took_no_more() -> None:
    records = [record(1, inventories={"VCPU": inventory(1)}), record(2, inventories={"VCPU": inventory(2)}), record(3)]
    records[2] = msgspec.structs.replace(records[2], service=ServiceFacts(disabled=True))
    capacity = capacity_of(WhatIfTable(table_of(*records)), spec_of(memory_mb=0, root_gb=0), PLAIN, 100)
    assert [(host.host, host.count, host.step, host.reason) for host in capacity.hosts] == [
        ("host2", 2, "placement", "free VCPU 0 < requested 1 (capacity 2, used 2)"),
        ("host1", 1, "placement", "free VCPU 0 < requested 1 (capacity 1, used 1)"),
        ("host3", 0, "ComputeFilter", "service disabled: no reason given"),
    ]
    assert [(stop.step, stop.what, stop.hosts, stop.full) for stop in capacity.stopped] == [
        ("placement", "free VCPU", 2, 2),
        ("ComputeFilter", "service disabled: no reason given", 1, 0),
    ]


@pytest.mark.parametrize(("limit", "complete"), [(2, True), (1, False), (0, False)])
def test_a_count_is_complete_once_the_next_was_refused_everywhere(limit: int, complete: bool) -> None:
    capacity = capacity_of(WhatIfTable(table_of(record(1))), spec_of(memory_mb=16384), PLAIN, limit)
    assert (capacity.total, capacity.complete) == (limit, complete)


def test_nodes_of_a_host_take_what_is_left_of_its_share_in_their_order() -> None:
    nodes = [msgspec.structs.replace(record(number), host="a") for number in (1, 2, 3)]
    small = {"VCPU": inventory(2), "MEMORY_MB": inventory(32768), "DISK_GB": inventory(500)}
    nodes[0] = msgspec.structs.replace(nodes[0], inventories=small)
    group = InstanceGroup(uuid="g", policy=ANTI_AFFINITY, max_server_per_host=3)
    capacity = capacity_of(
        WhatIfTable(table_of(*nodes, share_instances=True)), spec_of(instance_group=group), RULES, 100
    )
    assert {host.node: host.count for host in capacity.hosts} == {"node1": 2, "node2": 1, "node3": 0}
    assert capacity.total == 3


def test_only_hosts_of_the_zone() -> None:
    records = [record(1, aggregates=(zone("a"),)), record(2, aggregates=(zone("b"),))]
    capacity = capacity_of(WhatIfTable(table_of(*records)), spec_of(availability_zone="b"), RULES, 100)
    assert by_host(capacity) == {"host1": 0, "host2": 16}


def test_builds_under_way_come_to_an_end_and_so_stop_no_request() -> None:
    capacity = capacity_of(WhatIfTable(table_of(record(1))), spec_of(), rules("IoOpsFilter"), 100)
    assert capacity.total == 16


@settings(max_examples=60)
@given(host=guests.hosts(most=2), other=guests.hosts(most=2), wanted=guests.guests(most=2), then=guests.guests(most=2))
def test_cells_that_are_alike_take_the_same_guests(
    host: NUMATopology, other: NUMATopology, wanted: InstanceNUMATopology, then: InstanceNUMATopology
) -> None:
    """One after the other, whatever they are; and a cell is like itself with its CPUs in use renumbered."""
    for other_host in (other, renumbered(host)):
        if equivalence_key(other_host) == equivalence_key(host):
            assert after(other_host, wanted) == after(host, wanted)
            assert after(other_host, wanted, then, wanted) == after(host, wanted, then, wanted)
    assert equivalence_key(renumbered(renumbered(host))) == equivalence_key(host)


def renumbered(host: NUMATopology) -> NUMATopology:
    """Cores in the same order, with the CPUs that are in use and those that are not each turned round in a core."""
    cells = []
    for cell in host.cells:
        places = {
            cpu: other for core in cell.siblings for cpu, other in zip(sorted(core), sorted(core)[::-1], strict=True)
        }
        pinned = frozenset(places.get(cpu, cpu) for cpu in cell.pinned_cpus)
        cells.append(msgspec.structs.replace(cell, pinned_cpus=pinned))
    return NUMATopology(tuple(cells))


def after(host: NUMATopology, *wanted: InstanceNUMATopology) -> Any:
    """What it is like with these on it, as far as they fit."""
    for guest in wanted:
        host = after_instance(host, (), guest, ())[0] or host
    return equivalence_key(host)
