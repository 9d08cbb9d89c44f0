"""The way from all hosts to one: Nova's order, its log lines, and the record of who was lost where."""

from typing import Any

import msgspec
import pytest

from minova import errors
from minova.objects.requests.diagnosis import Diagnosis
from minova.objects.requests.request_spec import KeptResources
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.filters import BaseHostFilter, Filter, PerHostFilter
from minova.scheduler.filters.compute import ComputeFilter
from minova.scheduler.filters.ram import RamFilter
from minova.scheduler.hosts.record import ServiceFacts
from minova.scheduler.weights.ram import RAMWeigher
from tests.unit.scheduler.hosts import CONF, inventory, record, spec_of, table_of, uuids


def rules(**more: Any) -> Rules:
    values: dict[str, Any] = {
        "filters": [ComputeFilter(CONF), RamFilter(CONF)],
        "weighers": [RAMWeigher(CONF)],
        "host_subset_size": 1,
        "shuffle_best_same_weighed_hosts": False,
        "max_placement_results": 1000,
        "draw": lambda n: 0,
        **more,
    }
    return Rules(**values)


def chosen(decision: Decision) -> list[list[str]]:
    return [[selection.host for selection in selections] for selections in decision.selections]


def filtered_hosts(decision: Decision) -> dict[str, dict[str, str]]:
    """{step: {host: reason}} of steps that lost any."""
    return {
        step.name: {lost_host.host: lost_host.reason for lost_host in step.lost} for step in decision.steps if step.lost
    }


def three() -> Any:
    return table_of(record(1, memory_mb_used=8192), record(2), record(3, memory_mb_used=16384))


def test_the_host_with_the_largest_weight_comes_first_and_its_alternates_follow() -> None:
    assert chosen(decide(three(), spec_of(), uuids(1), 2, rules())) == [["host2", "host1", "host3"]]


def test_equal_hosts_keep_their_order() -> None:
    table = table_of(*(record(number) for number in (3, 1, 2)))
    assert chosen(decide(table, spec_of(), uuids(1), 2, rules())) == [["host1", "host2", "host3"]]


def test_each_instance_of_a_request_sees_what_those_before_it_took() -> None:
    decision = decide(three(), spec_of(memory_mb=8192), uuids(5), 0, rules())
    assert chosen(decision) == [["host2"], ["host1"], ["host2"], ["host1"], ["host2"]]


def test_alternates_are_first_those_that_the_request_does_not_fill_itself() -> None:
    decision = decide(three(), spec_of(memory_mb=8192), uuids(2), 2, rules())
    assert chosen(decision) == [["host2", "host3", "host1"], ["host1", "host3", "host2"]]


def test_fewer_hosts_than_instances_is_a_no_that_counts_them() -> None:
    decision = decide(three(), spec_of(memory_mb=16384), uuids(6), 0, rules())
    assert decision.error == "There are hosts for 4 of 6 instances."
    assert decision.found == 4
    assert (
        filtered_hosts(decision)["placement"]["host2"]
        == "free MEMORY_MB 0 < requested 16384 (capacity 32768, used 32768)"
    )


def test_no_hosts_at_all_is_said_plainly() -> None:
    assert decide(table_of(), spec_of(), uuids(1), 0, rules()).error == "No compute host is known."


def test_the_chain_stops_when_no_host_is_left() -> None:
    down = ServiceFacts(forced_down=True)
    decision = decide(table_of(record(1, service=down)), spec_of(), uuids(1), 0, rules())
    assert [(step.name, step.before, step.after) for step in decision.steps] == [
        ("placement", 1, 1),
        ("ComputeFilter", 1, 0),
    ]


def test_every_lost_host_has_its_filter_and_its_reason() -> None:
    roomy = {name: inventory(999999) for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    table = table_of(
        record(1, inventories={}),
        record(2, service=ServiceFacts(disabled=True, disabled_reason="repair")),
        record(3, inventories=roomy, memory_mb=2048, memory_mb_used=1024),
    )
    decision = decide(table, spec_of(root_gb=0), uuids(1), 0, rules())
    assert filtered_hosts(decision) == {
        "placement": {
            "host1": "free VCPU 0 < requested 1 (capacity 0, used 0); max_unit of VCPU 0 < requested 1; "
            "free MEMORY_MB 0 < requested 2048 (capacity 0, used 0); max_unit of MEMORY_MB 0 < requested 2048"
        },
        "ComputeFilter": {"host2": "service disabled: repair"},
        "RamFilter": {"host3": "free memory 1024 MB < requested 2048 MB (limit 2048 MB, used 1024 MB)"},
    }
    summary = Diagnosis(request_id="r", instance_uuids=("i",), hosts=decision.hosts, steps=decision.steps).summary()
    assert summary == (
        "No valid host was found. 3 hosts: placement removed 1 (not enough free VCPU, not enough free MEMORY_MB), "
        "ComputeFilter removed 1, RamFilter removed 1 (not enough free memory)."
    )


def test_the_best_are_recorded_with_each_weighers_share() -> None:
    weighed = decide(three(), spec_of(), uuids(1), 0, rules()).weighed
    assert [(weighed_host.host, weighed_host.weight, weighed_host.weights) for weighed_host in weighed] == [
        ("host2", 1.0, {"RAMWeigher": 1.0}),
        ("host1", 0.75, {"RAMWeigher": 0.75}),
        ("host3", 0.5, {"RAMWeigher": 0.5}),
    ]


def test_ignored_hosts_are_dropped_whatever_the_case() -> None:
    decision = decide(three(), spec_of(ignore_hosts=("HOST2",)), uuids(1), 0, rules())
    assert chosen(decision) == [["host1"]]
    assert filtered_hosts(decision) == {"ignore_hosts": {"host2": "ignored"}}


def test_a_forced_host_skips_the_filters_but_not_placement() -> None:
    disabled = ServiceFacts(disabled=True)
    table = table_of(record(1, service=disabled), record(2))
    decision = decide(table, spec_of(force_hosts=("Host1",)), uuids(1), 0, rules())
    assert chosen(decision) == [["host1"]]
    assert decision.selections[0][0].limits.memory_mb is None
    assert decide(table, spec_of(memory_mb=99999, force_hosts=("host1",)), uuids(1), 0, rules()).error is not None


def test_a_forced_node_respects_case() -> None:
    assert chosen(decide(three(), spec_of(force_nodes=("node3",)), uuids(1), 0, rules())) == [["host3"]]
    assert filtered_hosts(decide(three(), spec_of(force_nodes=("Node3",)), uuids(1), 0, rules())) == {
        "force_nodes": {f"host{n}": "not one of the forced nodes Node3" for n in (1, 2, 3)}
    }


def test_the_choice_is_drawn_from_the_best_of_the_subset() -> None:
    counts: list[int] = []

    def draw(n: int) -> int:
        counts.append(n)
        return n - 1

    decision = decide(three(), spec_of(), uuids(1), 2, rules(host_subset_size=2, draw=draw))
    assert chosen(decision) == [["host1", "host2", "host3"]]
    assert counts == [2]


def test_nothing_is_drawn_from_one() -> None:
    def draw(n: int) -> int:
        raise AssertionError(n)

    assert decide(three(), spec_of(), uuids(2), 2, rules(draw=draw)).found == 2
    assert decide(table_of(record(1)), spec_of(), uuids(1), 2, rules(host_subset_size=3, draw=draw)).found == 1


def test_equals_may_be_shuffled() -> None:
    table = table_of(record(1), record(2), record(3, memory_mb_used=1))
    decision = decide(table, spec_of(), uuids(1), 2, rules(shuffle_best_same_weighed_hosts=True, draw=lambda n: n - 1))
    assert chosen(decision) == [["host2", "host1", "host3"]]


def test_subset_and_alternates_are_drawn_from_all_equals() -> None:
    table = table_of(*(record(number) for number in range(30)))
    draws = rules(shuffle_best_same_weighed_hosts=True, host_subset_size=2, draw=lambda n: n - 1)
    assert chosen(decide(table, spec_of(), uuids(1), 2, draws)) == [["host0", "host29", "host1"]]


def test_no_more_candidates_than_max_placement_results_are_looked_at() -> None:
    decision = decide(three(), spec_of(), uuids(1), 2, rules(max_placement_results=1))
    assert chosen(decision) == [["host1"]]
    assert set(filtered_hosts(decision)["max_placement_results"]) == {"host2", "host3"}


def test_the_limits_of_the_filters_go_with_the_selection() -> None:
    selection = decide(three(), spec_of(), uuids(1), 0, rules()).selections[0][0]
    assert (selection.limits.memory_mb, selection.limits.vcpu) == (32768.0, None)
    assert (selection.node, selection.provider_uuid) == ("node2", "uuid-2")
    assert selection.allocation == {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}


def test_a_rebuild_has_no_limits_of_filters_that_it_does_not_ask() -> None:
    spec = spec_of(scheduler_hints={"_nova_check_type": ["rebuild"]})
    assert decide(three(), spec, uuids(1), 0, rules()).selections[0][0].limits.memory_mb is None


def test_log_lines_are_novas() -> None:
    lines: list[str] = []
    table = table_of(record(1, num_instances=21), record(2, memory_mb_used=32768, inventories=record(1).inventories))
    decide(table, spec_of(), uuids(1), 0, rules(log_debug=lines.append))
    shown = "(host1, node1) ram: 32768MB disk: 512000MB io_ops: 0 instances: 21"
    assert lines == [
        "Starting with 2 host(s)",
        "Filter ComputeFilter returned 2 host(s)",
        "Filter RamFilter returned 1 host(s)",
        f"Filtered [{shown}]",
        f"Weighed [WeighedHost [host: {shown}, weight: 0.0]]",
        f"Selected host: {shown}",
    ]


class AlsoOnRebuild(RamFilter):
    RUN_ON_REBUILD = True


def test_a_rebuild_has_the_limits_of_the_filters_that_it_asks() -> None:
    spec = spec_of(scheduler_hints={"_nova_check_type": ["rebuild"]})
    chain = rules(filters=[ComputeFilter(CONF), AlsoOnRebuild(CONF)])
    assert decide(three(), spec, uuids(1), 0, chain).selections[0][0].limits.memory_mb == 32768.0


@pytest.mark.parametrize("first", [0, 1])
def test_ten_of_the_best_are_recorded(first: int) -> None:
    table = table_of(*(record(number, memory_mb_used=number) for number in range(12)))
    decision = decide(table, spec_of(), uuids(1 + first), 0, rules())
    assert [weighed.host for weighed in decision.weighed] == [f"host{number}" for number in range(10)]


def test_as_many_are_looked_at_as_subset_and_alternates_need() -> None:
    table = table_of(*(record(number, memory_mb_used=number) for number in range(16)))
    decision = decide(table, spec_of(), uuids(1), 11, rules(host_subset_size=3, draw=lambda n: n - 1))
    assert chosen(decision) == [["host2", "host0", "host1", *(f"host{number}" for number in range(3, 12))]]


def test_a_request_ends_with_the_first_instance_that_finds_no_host() -> None:
    lines: list[str] = []
    decision = decide(three(), spec_of(memory_mb=16384), uuids(9), 0, rules(log_debug=lines.append))
    assert decision.found == 4
    assert [line for line in lines if line.startswith("Starting")][3:] == [
        "Starting with 1 host(s)",
        "Starting with 0 host(s)",
    ]
    assert decision.weighed == ()
    assert (decision.hosts, decision.steps[0].before) == (3, 3)


# -- what a resized server keeps ---------------------------------------------------------------------------------------

KEPT = KeptResources(
    host="host1",
    node="node1",
    resources={"VCPU": 1, "MEMORY_MB": 8192, "DISK_GB": 10},
    vcpus=1,
    memory_mb=8192,
    disk_gb=10,
)


def resized(memory_mb: int, **kept: Any) -> Any:
    return spec_of(memory_mb=memory_mb, kept=msgspec.structs.replace(KEPT, **kept))


def nearly_full() -> Any:
    """8192 MB are free on host 1, and none on host 2."""
    return table_of(record(1, memory_mb_used=24576), record(2, memory_mb_used=32768))


@pytest.mark.parametrize(
    ("sentence", "memory_mb", "kept", "error"),
    [
        ("what it has counts once where it stays", 16384, {}, None),
        ("but no more than that", 16385, {}, "No host is left for it."),
        ("it keeps it on another host", 16384, {"host": "host2", "node": "node2"}, None),
        ("the node is not there any more", 8193, {"node": "gone"}, "No host is left for it."),
        ("nor is the host", 8193, {"host": "gone"}, "No host is left for it."),
        ("a name of a host is as it is written", 8193, {"host": "HOST1"}, "No host is left for it."),
    ],
)
def test_what_a_server_keeps_is_free_for_it(sentence: str, memory_mb: int, kept: dict[str, str], error: str) -> None:
    table = table_of(record(1, memory_mb_used=24576), record(2, memory_mb_used=24576))
    assert decide(table, resized(memory_mb, **kept), uuids(1), 0, rules()).error == error, sentence


def test_where_it_stays_only_what_it_needs_beyond_is_claimed() -> None:
    decision = decide(nearly_full(), resized(10240), uuids(1), 0, rules())
    (selection,) = decision.selections[0]
    # As many VCPU, as much disk, and 2048 MB more than it keeps.
    assert selection.allocation == {"MEMORY_MB": 2048}
    more = decide(nearly_full(), resized(10240, resources={"MEMORY_MB": 8192}), uuids(1), 0, rules())
    assert more.selections[0][0].allocation == {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}


def test_where_it_goes_all_of_it_is_claimed() -> None:
    table = table_of(record(1, memory_mb_used=30000), record(2))
    selections = decide(table, resized(8193), uuids(1), 1, rules()).selections[0]
    assert [(selection.host, selection.allocation["MEMORY_MB"]) for selection in selections] == [
        ("host2", 8193),
        ("host1", 1),
    ]


def test_a_node_of_the_same_host_is_another_place() -> None:
    table = table_of(record(1, memory_mb_used=32768), record(2, host="host1"))
    (selection,) = decide(table, resized(8193), uuids(1), 0, rules()).selections[0]
    assert (selection.node, selection.allocation["MEMORY_MB"]) == ("node2", 8193)


def test_after_the_decision_the_host_has_what_the_server_keeps_or_what_it_takes() -> None:
    table = table_of(record(1, memory_mb_used=24576), record(2))
    decide(table, resized(8193), uuids(1), 0, rules())
    assert [table.value(row, "memory_mb_used") for row in range(2)] == [24576, 8193]
    stays = nearly_full()
    decide(stays, resized(10240), uuids(1), 0, rules())
    assert [stays.value(row, "memory_mb_used") for row in range(2)] == [24576 - 8192 + 10240, 32768]
    refused = nearly_full()
    assert decide(refused, resized(99999), uuids(1), 0, rules()).error is not None
    assert [refused.value(row, "memory_mb_used") for row in range(2)] == [24576, 32768]


class Broken(BaseHostFilter):
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        raise KeyError("rack")


@pytest.mark.parametrize(("before", "raises"), [([], True), ([RamFilter(CONF)], False)])
def test_a_filter_that_raises_fails_the_request_by_name_if_the_chain_reaches_it(
    before: list[Filter], raises: bool
) -> None:
    roomy = {name: inventory(999999) for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    table, chain = table_of(record(1, inventories=roomy)), rules(filters=[*before, PerHostFilter(Broken())])
    if raises:
        with pytest.raises(errors.MinovaError, match="Broken failed: KeyError"):
            decide(table, spec_of(memory_mb=99999), uuids(1), 0, chain)
    else:
        assert decide(table, spec_of(memory_mb=99999), uuids(1), 0, chain).error is not None
