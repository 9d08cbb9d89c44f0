"""Pages, filters that are asked once, hosts that are named, and what one instance leaves for the next of its request."""

from typing import Any

import pytest

from minova import errors
from minova.objects.catalogue.instance_group import AFFINITY, ANTI_AFFINITY, InstanceGroup
from minova.objects.hosts.numa import InstanceNUMACell, InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool
from minova.objects.requests.request_spec import Destination, PlacementFilter
from minova.scheduler.decide.chain import ChainRun, Rules
from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.filters import BaseHostFilter, PerHostFilter
from minova.scheduler.filters.affinity import ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.numa_topology import NUMATopologyFilter
from minova.scheduler.filters.pci_passthrough import PciPassthroughFilter
from minova.scheduler.filters.ram import RamFilter
from minova.scheduler.hosts.record import ServiceFacts
from minova.scheduler.weights.ram import RAMWeigher
from minova.simulate.bench_cloud import topology
from tests.unit.scheduler.hosts import inventory, record, spec_of, table_of, uuids
from tests.unit.scheduler.requests import options

OPTIONS = options()
ROOMY = {name: inventory(10**9) for name in ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")}
DOWN = ServiceFacts(forced_down=True)


def rules(*filters: Any, **more: Any) -> Rules:
    values: dict[str, Any] = {
        "filters": [
            PerHostFilter(filter_class) if isinstance(filter_class, BaseHostFilter) else filter_class(OPTIONS)
            for filter_class in filters
        ],
        "weighers": [RAMWeigher(OPTIONS)],
        "host_subset_size": 1,
        "shuffle_best_same_weighed_hosts": False,
        "max_placement_results": 0,
        "draw": lambda n: 0,
        **more,
    }
    return Rules(**values)


def chosen(decision: Decision) -> list[str]:
    return [selections[0].host for selections in decision.selections]


def counts(decision: Decision) -> dict[str, tuple[int, int]]:
    return {step.name: (step.before, step.after) for step in decision.steps}


# -- pages -------------------------------------------------------------------------------------------------------------


def down_but(*up: int, hosts: int = 7) -> Any:
    return table_of(
        *(record(n, service=ServiceFacts() if n in up else DOWN, memory_mb_used=1000 - n) for n in range(1, hosts + 1))
    )


@pytest.mark.parametrize(
    ("sentence", "up", "page", "found"),
    [
        ("the first page has the best of its own", (1, 2, 7), 2, "host2"),
        ("no host of the first page passes, so the next is looked at", (3, 4, 7), 2, "host4"),
        ("the last page is looked at too", (7,), 2, "host7"),
        ("0 is no limit", (1, 2, 7), 0, "host7"),
        ("so is less", (1, 2, 7), -1, "host7"),
        ("a page as large as the cloud", (1, 7), 7, "host7"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_candidates_are_looked_at_in_pages(sentence: str, up: tuple[int, ...], page: int, found: str) -> None:
    decision = decide(down_but(*up), spec_of(), uuids(1), 0, rules(ComputeFilter, max_placement_results=page))
    assert chosen(decision) == [found]


def test_a_no_has_looked_at_every_page_and_counts_each_host_once() -> None:
    decision = decide(down_but(), spec_of(), uuids(1), 0, rules(ComputeFilter, RamFilter, max_placement_results=2))
    assert counts(decision) == {"placement": (7, 7), "ComputeFilter": (7, 0)}
    assert len(decision.steps[1].lost) == 7


def test_who_is_beyond_the_page_is_told_so() -> None:
    decision = decide(down_but(3, 4, 7), spec_of(), uuids(1), 0, rules(ComputeFilter, max_placement_results=2))
    assert counts(decision)["max_placement_results"] == (3, 2)
    assert [(lost.host, lost.reason) for lost in decision.steps[-1].lost] == [
        ("host7", "beyond the first 2 candidates ([scheduler] max_placement_results)")
    ]


# -- once per request --------------------------------------------------------------------------------------------------


class Asked(BaseHostFilter):
    """Notes whom it is asked about; refuses host2."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        self.hosts.append(host_state.host)
        return bool(host_state.host != "host2")


class AskedOnce(Asked):
    run_filter_once_per_request = True


@pytest.mark.parametrize(("made", "times"), [(Asked, 3), (AskedOnce, 1)])
def test_a_filter_may_be_asked_once_for_all_instances_of_a_request(made: type[Asked], times: int) -> None:
    host_filter = made()
    decision = decide(table_of(record(1), record(2)), spec_of(), uuids(3), 0, rules(host_filter))
    assert chosen(decision) == ["host1"] * 3
    assert host_filter.hosts == ["host1", "host2"] * times


def test_a_host_that_was_refused_for_the_first_instance_stays_so() -> None:
    table = table_of(record(1, inventories={**ROOMY, "MEMORY_MB": inventory(2048)}), record(2, inventories=ROOMY))
    decision = decide(table, spec_of(), uuids(2), 0, rules(AskedOnce()))
    assert decision.found == 1
    assert {lost.host: lost.reason for lost in decision.steps[-1].lost} == {
        "host2": "AskedOnce refused it for the first instance"
    }


def test_a_run_is_of_the_first_instance_unless_another_is_named() -> None:
    run = ChainRun(table_of(record(1), record(2)), rules(AskedOnce()))
    assert run.candidates(spec_of()).tolist() == [True, False]
    assert run.steps[-1].verdict.reason(1) == "AskedOnce rejected the host"


def test_a_host_that_comes_later_is_judged_once_too() -> None:
    """Each of these instances needs the next page."""
    small = {**ROOMY, "MEMORY_MB": inventory(2048)}
    table = table_of(*(record(number, inventories=small) for number in (1, 2, 3, 4)))
    host_filter = AskedOnce()
    decision = decide(table, spec_of(), uuids(3), 0, rules(host_filter, max_placement_results=1))
    assert chosen(decision) == ["host1", "host3", "host4"]
    assert host_filter.hosts == ["host1", "host2", "host3", "host4"]


class Noting(BaseHostFilter):
    """Notes what stands in the limits of a host when it is asked about it."""

    def __init__(self) -> None:
        self.limits: list[dict[str, Any]] = []

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        self.limits.append(dict(host_state.limits))
        host_state.limits["memory_mb"] = 1.0
        return True


def test_what_a_filter_wrote_on_a_host_ends_with_the_request() -> None:
    table, noting = table_of(record(1)), Noting()
    for _ in range(2):
        decide(table, spec_of(), uuids(2), 0, rules(noting))
    assert noting.limits == [{}, {"memory_mb": 1.0}] * 2


class NotForTheSecond(ComputeFilter):
    """Refuses all but the first host, and counts how often it runs."""

    run_filter_once_per_request = True

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.runs = 0

    def runs_for(self, index: int) -> bool:
        return index != 1

    def filter_table(self, hosts: Any, left: Any, spec: Any) -> Any:
        self.runs += 1
        return super().filter_table(hosts, left, spec)


@pytest.mark.parametrize(("instances", "runs"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_the_verdict_is_kept_for_an_instance_for_which_the_filter_does_not_run(instances: int, runs: int) -> None:
    chain = rules()._replace(filters=[not_for_second := NotForTheSecond(OPTIONS)])
    decision = decide(table_of(record(1), record(2, service=DOWN)), spec_of(), uuids(instances), 0, chain)
    assert chosen(decision) == ["host1"] * instances
    assert not_for_second.runs == runs


def test_a_rebuild_asks_only_filters_that_mind_it() -> None:
    table, spec = down_but(), spec_of(scheduler_hints={"_nova_check_type": ["rebuild"]})
    assert decide(table, spec, uuids(1), 0, rules(ComputeFilter)).error is None


class Broken(BaseHostFilter):
    def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> Any:
        raise KeyError("rack")


def test_a_filter_that_raises_fails_the_request_with_its_name() -> None:
    with pytest.raises(errors.MinovaError, match=r"Broken failed: KeyError\('rack'\)"):
        decide(table_of(record(1)), spec_of(), uuids(1), 0, rules(Broken()))


class Stingy(BaseHostFilter):
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        host_state.limits["memory_mb"] = 100.0
        host_state.limits["licences"] = 3
        return True


@pytest.mark.parametrize(("chain", "memory_mb"), [((RamFilter, Stingy()), 100.0), ((Stingy(), RamFilter), 32768.0)])
def test_limits_are_written_in_the_order_of_the_chain_and_unknown_ones_are_carried(
    chain: Any, memory_mb: float
) -> None:
    limits = decide(table_of(record(1)), spec_of(), uuids(1), 0, rules(*chain)).selections[0][0].limits
    assert (limits.memory_mb, limits.other) == (memory_mb, {"licences": 3})


# -- hosts that are named ----------------------------------------------------------------------------------------------


def run_chain(spec: Any, **more: Any) -> tuple[list[str], list[str]]:
    said: list[str] = []
    table = table_of(record(1, service=DOWN), record(2), record(3))
    decision = decide(table, spec, uuids(1), 0, rules(ComputeFilter, log_info=said.append, **more))
    return chosen(decision), said


@pytest.mark.parametrize(
    ("wish", "found", "said"),
    [
        ({"force_hosts": ("HOST1",)}, ["host1"], "Host filter forcing available hosts to host1"),
        ({"force_hosts": ("x",)}, [], "No hosts matched due to not matching 'force_hosts' value of 'x'"),
        ({"force_nodes": ("node1",)}, ["host1"], "Host filter forcing available nodes to node1"),
        ({"force_nodes": ("NODE1",)}, [], "No nodes matched due to not matching 'force_nodes' value of 'NODE1'"),
        ({"ignore_hosts": ("HOST2", "x")}, ["host3"], "Host filter ignoring hosts: HOST2"),
        (
            {"requested_destination": Destination(host="host3", node="node3")},
            ["host3"],
            "Host filter only checking host host3 and node node3",
        ),
        (
            {"requested_destination": Destination(node="node3")},
            ["host3"],
            "Host filter only checking host None and node node3",
        ),
        (
            {"requested_destination": Destination(host="HOST3", node="node3")},
            [],
            "No hosts matched due to not matching requested destination (HOST3, node3)",
        ),
    ],
)
def test_named_hosts(wish: dict[str, Any], found: list[str], said: str) -> None:
    assert run_chain(spec_of(**wish)) == (found, [said])


def test_a_requested_destination_is_filtered_and_so_is_a_forced_host_that_is_only_checked() -> None:
    assert run_chain(spec_of(requested_destination=Destination(host="host1", node="node1")))[0] == []
    hints = {"_nova_check_type": ["live_migrate"]}
    assert run_chain(spec_of(force_hosts=("host1",), scheduler_hints=hints))[0] == []


@pytest.mark.parametrize(("one_cell", "may_leave", "found"), [(True, False, 0), (True, True, 2), (False, False, 2)])
def test_a_requested_cell_leaves_out_the_hosts_of_others(one_cell: bool, may_leave: bool, found: int) -> None:
    spec = spec_of(requested_destination=Destination(cell="other", allow_cross_cell_move=may_leave))
    table = table_of(record(1), record(2))
    assert counts(decide(table, spec, uuids(1), 0, rules(ComputeFilter, one_cell=one_cell)))[
        "requested_cell" if one_cell and not may_leave else "ComputeFilter"
    ] == (2, found)


# -- the next instance of the same request -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("destination", "found"),
    [
        (Destination(host="host3"), ["host3"]),
        (Destination(host="host3", node="node2"), []),
        (Destination(cell="cell"), ["host2"]),
    ],
)
def test_a_destination_names_a_host_or_none(destination: Destination, found: list[str]) -> None:
    table = table_of(record(1, service=DOWN), record(2), record(3))
    decision = decide(table, spec_of(requested_destination=destination), uuids(1), 0, rules(ComputeFilter))
    assert chosen(decision) == found
    assert ("requested_destination" in counts(decision)) == (destination.host is not None)


def test_anti_affinity_holds_within_a_request() -> None:
    group = InstanceGroup(uuid="g", policy=ANTI_AFFINITY)
    table = table_of(record(1), record(2))
    decision = decide(table, spec_of(instance_group=group), uuids(3), 0, rules(ServerGroupAntiAffinityFilter))
    assert decision.found == 2
    lost = {lost_host.host: lost_host.reason for step in decision.steps for lost_host in step.lost}
    assert set(lost) == {"host1", "host2"}


def test_affinity_keeps_a_request_together() -> None:
    group = InstanceGroup(uuid="g", policy=AFFINITY)
    table = table_of(record(1, memory_mb=8192, memory_mb_used=2048), record(2, memory_mb=8192))
    decision = decide(table, spec_of(instance_group=group), uuids(4), 0, rules(ServerGroupAffinityFilter))
    assert chosen(decision) == ["host2"] * 4
    assert decide(table, spec_of(instance_group=group), uuids(5), 0, rules(ServerGroupAffinityFilter)).found < 5


def pinned(cpus: int, cells: int = 1) -> InstanceNUMATopology:
    return InstanceNUMATopology(
        cells=tuple(
            InstanceNUMACell(id=n, pcpuset=frozenset(range(cpus)), memory=1024, cpu_policy="dedicated")
            for n in range(cells)
        )
    )


def test_pinned_instances_of_a_request_take_different_cpus_until_there_are_none() -> None:
    table = table_of(record(1, numa_topology=topology(0), inventories=ROOMY, memory_mb=10**9))
    decision = decide(table, spec_of(numa_topology=pinned(24)), uuids(4), 0, rules(NUMATopologyFilter))
    assert decision.found == 2
    assert [len(cell.pinned_cpus) for cell in table.host(0).numa_topology.cells] == [24, 24]
    reason = decision.steps[-1].lost[0].reason
    assert "free pinned CPUs 8 < requested 24" in reason
    limits = decide(table, spec_of(numa_topology=pinned(4)), uuids(1), 0, rules(NUMATopologyFilter))
    assert limits.selections[0][0].limits.numa_topology is not None


def test_devices_of_a_request_are_given_once() -> None:
    pool = PciDevicePool(vendor_id="8086", product_id="1572", count=3)
    wish = (InstancePCIRequest(count=2, spec=((("vendor_id", "8086"),),)),)
    table = table_of(record(1, pci_pools=(pool,)))
    decision = decide(table, spec_of(pci_requests=wish), uuids(2), 0, rules(PciPassthroughFilter))
    assert decision.found == 1
    assert decision.steps[-1].lost[0].reason == (
        "PCI devices {'vendor_id': '8086'} with these properties 1 < requested 2"
    )


def test_devices_near_the_cells_are_looked_for_where_numbers_do_not_tell() -> None:
    """Both hosts have the device and the CPUs, but only the second has them in the same cell."""
    pool = PciDevicePool(vendor_id="8086", product_id="1572", count=1, numa_node=0)
    wish = (InstancePCIRequest(count=1, spec=((("vendor_id", "8086"),),), numa_policy="required"),)
    full = topology(0).cells[0]
    busy = type(topology(0))((type(full)(**{**fields(full), "pinned_cpus": full.pcpuset}), topology(0).cells[1]))
    table = table_of(
        record(1, numa_topology=busy, pci_pools=(pool,), inventories=ROOMY),
        record(2, numa_topology=topology(0), pci_pools=(pool,), inventories=ROOMY, memory_mb_used=9),
    )
    decision = decide(
        table, spec_of(numa_topology=pinned(4), pci_requests=wish), uuids(1), 0, rules(NUMATopologyFilter)
    )
    assert chosen(decision) == ["host2"]
    assert len(table.host(1).numa_topology.cells[0].pinned_cpus) == 4
    assert table.host(1).pci_pools == ()


def fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


# -- second wishes -----------------------------------------------------------------------------------------------------


def test_each_host_gives_what_it_was_chosen_for() -> None:
    inventories = {"PCPU": inventory(8), "MEMORY_MB": inventory(32768)}
    table = table_of(
        record(1, inventories={"VCPU": inventory(8), "MEMORY_MB": inventory(32768)}),
        record(2, inventories=inventories, memory_mb_used=9),
    )
    spec = spec_of(
        placement=PlacementFilter(resources={"PCPU": 2, "MEMORY_MB": 2048}),
        fallback=PlacementFilter(resources={"VCPU": 2, "MEMORY_MB": 2048}),
    )
    decision = decide(table, spec, uuids(1), 1, rules(RamFilter))
    assert [(selection.host, selection.allocation) for selection in decision.selections[0]] == [
        ("host1", {"VCPU": 2, "MEMORY_MB": 2048}),
        ("host2", {"PCPU": 2, "MEMORY_MB": 2048}),
    ]
    assert table.host(0).inventory("VCPU").used == 2
