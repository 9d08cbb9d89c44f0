"""Filters that compare numbers, and what aggregates set in their place."""

from minova.scheduler.filters.all_hosts import AllHostsFilter
from minova.scheduler.filters.core import AggregateCoreFilter, CoreFilter
from minova.scheduler.filters.disk import AggregateDiskFilter, DiskFilter, LocalDiskFilter
from minova.scheduler.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from minova.scheduler.filters.num_instances import AggregateNumInstancesFilter, NumInstancesFilter
from minova.scheduler.filters.ram import AggregateRamFilter, RamFilter
from minova.scheduler.filters.vgpu import VGPUFilter
from tests.unit.scheduler.filters.cases import Case, check, each, error_of
from tests.unit.scheduler.hosts import inventory, record, table_of
from tests.unit.scheduler.requests import aggregates, options

FULL = {"memory_mb": 4096, "memory_mb_used": 4096}
RATIO = {"aggregates": aggregates({"ram_allocation_ratio": "1.5"})}

RATIOS = [
    Case(AllHostsFilter, "any host", None, {"memory_mb": 0}),
    Case(
        AggregateRamFilter,
        "without aggregates the host's own ratio counts",
        "free memory 0 MB < requested 2048 MB (limit 4096 MB, used 4096 MB)",
        FULL,
    ),
    Case(AggregateRamFilter, "the aggregate lends memory", None, FULL | RATIO),
    Case(
        RamFilter,
        "the plain filter does not look at aggregates",
        "free memory 0 MB < requested 2048 MB (limit 4096 MB, used 4096 MB)",
        FULL | RATIO,
    ),
    Case(
        AggregateRamFilter,
        "the least of several ratios",
        "free memory 1638.4 MB < requested 2048 MB (limit 5734.4 MB, used 4096 MB)",
        FULL | {"aggregates": aggregates({"ram_allocation_ratio": "2"}, {"ram_allocation_ratio": "1.4"})},
    ),
    Case(
        AggregateRamFilter,
        "one that is no number discards them all",
        "free memory 0 MB < requested 2048 MB (limit 4096 MB, used 4096 MB)",
        FULL | {"aggregates": aggregates({"ram_allocation_ratio": "2"}, {"ram_allocation_ratio": "lots"})},
    ),
    Case(
        AggregateRamFilter,
        "numbers are not split at commas",
        "free memory 0 MB < requested 2048 MB (limit 4096 MB, used 4096 MB)",
        FULL | {"aggregates": aggregates({"ram_allocation_ratio": "2,3"})},
    ),
    Case(
        AggregateRamFilter,
        "an instance larger than the host is refused all the same",
        "memory 1024 MB < requested 2048 MB",
        {"memory_mb": 1024, "aggregates": aggregates({"ram_allocation_ratio": "16"})},
    ),
    Case(
        AggregateDiskFilter,
        "the aggregate lends disk",
        None,
        {"local_gb": 100, "free_disk_mb": 0, "aggregates": aggregates({"disk_allocation_ratio": "1.2"})},
    ),
    Case(
        AggregateDiskFilter,
        "the aggregate takes disk away",
        "free disk 0 MB < requested 10240 MB (limit 51200 MB, used 51200 MB)",
        {"local_gb": 100, "free_disk_mb": 51200, "aggregates": aggregates({"disk_allocation_ratio": "0.5"})},
    ),
    Case(DiskFilter, "the plain filter does not", None, {"local_gb": 100, "free_disk_mb": 51200}),
    Case(
        AggregateCoreFilter,
        "the aggregate lends vcpus",
        None,
        {"vcpus": 2, "vcpus_used": 8, "aggregates": aggregates({"cpu_allocation_ratio": "16"})},
    ),
    Case(
        AggregateCoreFilter,
        "a ratio of 0 leaves none",
        "free vcpus 0 < requested 1 (limit 0, used 0)",
        {"vcpus": 2, "aggregates": aggregates({"cpu_allocation_ratio": "0"})},
    ),
    Case(
        CoreFilter,
        "the plain filter does not look at aggregates",
        "free vcpus 0 < requested 1 (limit 8, used 8)",
        {"vcpus": 2, "vcpus_used": 8, "aggregates": aggregates({"cpu_allocation_ratio": "16"})},
    ),
]
COUNTS = [
    Case(IoOpsFilter, "one below the limit", None, {"num_io_ops": 7}),
    Case(IoOpsFilter, "at the limit", "I/O operations 8 >= limit 8", {"num_io_ops": 8}),
    Case(IoOpsFilter, "the option", "I/O operations 0 >= limit 0", options={"max_io_ops_per_host": 0}),
    Case(
        AggregateIoOpsFilter,
        "the aggregate forbids",
        "I/O operations 3 >= limit 3",
        {"num_io_ops": 3, "aggregates": aggregates({"max_io_ops_per_host": " 3 "})},
    ),
    Case(
        AggregateIoOpsFilter,
        "the aggregate allows",
        None,
        {"num_io_ops": 8, "aggregates": aggregates({"max_io_ops_per_host": "9"})},
    ),
    Case(
        AggregateIoOpsFilter,
        "a limit that is no whole number is none",
        "I/O operations 8 >= limit 8",
        {"num_io_ops": 8, "aggregates": aggregates({"max_io_ops_per_host": "9.5"})},
    ),
    Case(
        AggregateIoOpsFilter,
        "an empty limit is none",
        None,
        {"num_io_ops": 7, "aggregates": aggregates({"max_io_ops_per_host": ""})},
    ),
    Case(NumInstancesFilter, "one below the limit", None, {"num_instances": 49}),
    Case(NumInstancesFilter, "at the limit", "instances 50 >= limit 50", {"num_instances": 50}),
    Case(
        NumInstancesFilter,
        "the option",
        "instances 4 >= limit 4",
        {"num_instances": 4},
        options={"max_instances_per_host": 4},
    ),
    Case(
        AggregateNumInstancesFilter,
        "the least of several limits",
        "instances 5 >= limit 5",
        {
            "num_instances": 5,
            "aggregates": aggregates({"max_instances_per_host": "20"}, {"max_instances_per_host": "5"}),
        },
    ),
    Case(
        AggregateNumInstancesFilter,
        "the aggregate allows",
        None,
        {"num_instances": 60, "aggregates": aggregates({"max_instances_per_host": "61"})},
    ),
    Case(LocalDiskFilter, "what fits", None, {"free_disk_mb": 10 * 1024}),
    Case(
        LocalDiskFilter,
        "no ratio lends local disk, and swap counts",
        "free local disk 10240 MB < requested 10241 MB",
        {"free_disk_mb": 10 * 1024, "disk_allocation_ratio": 16.0},
        {"swap": 1},
    ),
    Case(VGPUFilter, "a flavor without vGPUs", None),
    Case(
        VGPUFilter,
        "room for them",
        None,
        {"inventories": {"VGPU": inventory(4, 2)}},
        {"extra_specs": {"resources:VGPU": "2"}},
    ),
    Case(
        VGPUFilter,
        "too few left",
        "free VGPU 1 < requested 2 (limit 4, used 3)",
        {"inventories": {"VGPU": inventory(4, 3)}},
        {"extra_specs": {"resources:VGPU": "2"}},
    ),
    Case(
        VGPUFilter,
        "a host without",
        "free VGPU 0 < requested 1 (limit 0, used 0)",
        asked={"extra_specs": {"resources:VGPU": "1"}},
    ),
]


@each([*RATIOS, *COUNTS])
def test_room(case: Case) -> None:
    check(case)


def test_a_number_of_vgpus_that_is_none_is_named() -> None:
    error = error_of(Case(VGPUFilter, "", "", asked={"extra_specs": {"resources:VGPU": "many"}}))
    assert str(error) == "Extra spec resources:VGPU: 'many' is no number."


def test_limits_of_aggregates_go_to_the_compute() -> None:
    facts = {"ram_allocation_ratio": "1.5", "disk_allocation_ratio": "2", "cpu_allocation_ratio": "1"}
    host = table_of(record(aggregates=aggregates(facts))).host(0)
    limits: dict[str, float] = {}
    for cls in (AggregateRamFilter, AggregateDiskFilter, AggregateCoreFilter):
        limits.update(cls(options()).limits(host))
    assert limits == {"memory_mb": 49152.0, "disk_gb": 1000.0, "vcpu": 16.0}


def test_what_aggregates_say_is_read_anew_when_it_changes() -> None:
    table, host_filter = table_of(record(num_io_ops=3)), AggregateIoOpsFilter(options())
    assert host_filter.limit(table) == 8
    for limit in ("3", "4", "none"):
        changed = record(num_io_ops=3, aggregates=aggregates({"max_io_ops_per_host": limit}))
        table.apply({changed.id: changed})
        assert list(host_filter.limit(table)) == [8 if limit == "none" else int(limit)]
