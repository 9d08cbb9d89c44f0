"""Which hosts Placement offers: room, traits, aggregates, and a second choice; of a table and of one host alike."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.network.physical_networks import trait_of
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.scheduler.decide.preselection import placement_verdict, resources_at, resources_of_rows
from minova.scheduler.hosts.record import AggregateFacts
from tests.unit.scheduler.hosts import inventory, record, table_of
from tests.unit.scheduler.hosts import spec_of as plain

DC1 = trait_of("dc1")
ROOMS = {"VCPU": inventory(64), "MEMORY_MB": inventory(32768), "DISK_GB": inventory(500)}


def aggregate(name: str) -> AggregateFacts:
    return AggregateFacts(1, name, (), name)


def spec_with(**placement: Any) -> RequestSpec:
    return msgspec.structs.replace(plain(), placement=PlacementFilter(**placement))


@pytest.mark.parametrize(
    ("sentence", "placement", "host", "reason"),
    [
        ("nothing is wanted", {}, {}, None),
        ("the trait is there", {"required_traits": ("A",)}, {"traits": frozenset("AB")}, None),
        ("one is not", {"required_traits": ("A", "B", "C")}, {"traits": frozenset("B")}, "required traits A, C"),
        ("the bridge is there", {"required_traits": (DC1,), "segments": ("dc1",)}, {"traits": frozenset({DC1})}, None),
        (
            "a bridge is not",
            {"required_traits": ("A", DC1), "segments": ("dc1",)},
            {"traits": frozenset("A")},
            "no bridge for physical network dc1",
        ),
        ("a forbidden one is not there", {"forbidden_traits": ("A",)}, {"traits": frozenset("B")}, None),
        ("a forbidden one is", {"forbidden_traits": ("A", "B")}, {"traits": frozenset("B")}, "forbidden traits B"),
        ("in one of them", {"member_of": (("x", "y"),)}, {"aggregates": (aggregate("y"),)}, None),
        ("by Placement's own word", {"member_of": (("x",),)}, {"provider_aggregates": frozenset("x")}, None),
        ("in none of them", {"member_of": (("x", "y"),)}, {"aggregates": (aggregate("z"),)}, "aggregates x, y"),
        ("each set counts", {"member_of": (("x",), ("y",))}, {"provider_aggregates": frozenset("x")}, "aggregates y"),
        ("kept out", {"forbidden_aggregates": ("x",)}, {"aggregates": (aggregate("x"),)}, "forbidden aggregates x"),
        ("not kept out", {"forbidden_aggregates": ("x",)}, {"aggregates": (aggregate("y"),)}, None),
        ("a class that is not there", {"resources": {"CUSTOM_GPU": 1}}, {}, "free CUSTOM_GPU 0 < requested 1"),
        ("one that is", {"resources": {"CUSTOM_GPU": 1}}, {"inventories": {"CUSTOM_GPU": inventory(1)}}, None),
    ],
)
def test_candidates(sentence: str, placement: dict[str, Any], host: dict[str, Any], reason: str | None) -> None:
    table = table_of(record(**host))
    verdict = placement_verdict(table, spec_with(**placement))
    assert verdict.passed.tolist() == [reason is None], sentence
    if reason is not None:
        assert reason in verdict.reason(0)


@pytest.mark.parametrize(
    ("sentence", "inventories", "takes"),
    [
        ("as first asked", {**ROOMS, "PCPU": inventory(8)}, {"PCPU": 2}),
        ("no PCPU: the second choice", ROOMS, {"VCPU": 2}),
        ("PCPU all taken: too", {**ROOMS, "PCPU": inventory(8, 8)}, {"VCPU": 2}),
        ("neither", {"MEMORY_MB": inventory(9)}, None),
    ],
)
def test_a_second_choice(sentence: str, inventories: dict[str, Any], takes: dict[str, int] | None) -> None:
    spec = msgspec.structs.replace(spec_with(resources={"PCPU": 2}), fallback=PlacementFilter(resources={"VCPU": 2}))
    table = table_of(record(inventories=inventories))
    verdict = placement_verdict(table, spec)
    assert verdict.passed.tolist() == [takes is not None], sentence
    if takes is not None:
        assert resources_at(table.host(0), spec) == takes
    else:
        assert verdict.reason(0).count("as second choice") == 1


def test_why_a_second_choice_does_not_help_is_said_once_where_it_is_the_same() -> None:
    spec = msgspec.structs.replace(
        spec_with(resources={"PCPU": 2, "MEMORY_MB": 9}),
        fallback=PlacementFilter(resources={"VCPU": 2, "MEMORY_MB": 9}),
    )
    table = table_of(
        record(1, inventories={**ROOMS, "PCPU": inventory(9), "MEMORY_MB": inventory(8)}),
        record(2, inventories={"MEMORY_MB": inventory(9)}),
        record(3, inventories={**ROOMS}),
    )
    verdict = placement_verdict(table, spec)
    assert verdict.passed.tolist() == [False, False, True]
    rows = np.array([0, 1])
    memory = "free MEMORY_MB 8 < requested 9 (capacity 8, used 0); max_unit of MEMORY_MB 8 < requested 9"
    cpus = "free {0} 0 < requested 2 (capacity 0, used 0); max_unit of {0} 0 < requested 2"
    assert verdict.reasons(rows) == [
        memory,
        f"{cpus.format('PCPU')}; and as second choice: {cpus.format('VCPU')}",
    ]
    assert verdict.kinds_of(rows) == [
        "free MEMORY_MB, max_unit of MEMORY_MB",
        "free PCPU, max_unit of PCPU, and as second choice: free VCPU, max_unit of VCPU",
    ]
    assert verdict.tally(np.array([True, True, False])).keys() >= {"not enough free MEMORY_MB"}


def test_rows_take_what_they_were_chosen_for() -> None:
    spec = msgspec.structs.replace(spec_with(resources={"PCPU": 2}), fallback=PlacementFilter(resources={"VCPU": 2}))
    table = table_of(record(1), record(2, inventories={**ROOMS, "PCPU": inventory(9)}), record(3))
    shares = resources_of_rows(table, np.array([0, 1, 2]), spec)
    assert [(rows.tolist(), resources) for rows, resources in shares] == [([1], {"PCPU": 2}), ([0, 2], {"VCPU": 2})]
    ((rows, resources),) = resources_of_rows(table, np.array([0, 2]), plain(memory_mb=5, root_gb=0))
    assert (rows.tolist(), resources) == ([0, 2], {"VCPU": 1, "MEMORY_MB": 5})


def test_a_fallback_without_resources_asks_for_those_of_the_request() -> None:
    first = PlacementFilter(required_traits=("A",))
    spec = msgspec.structs.replace(plain(memory_mb=9), placement=first, fallback=PlacementFilter())
    table = table_of(record(1), record(2, inventories={**ROOMS, "MEMORY_MB": inventory(8)}))
    assert placement_verdict(table, spec).passed.tolist() == [True, False]
    assert resources_at(table.host(0), spec) == spec.resources


def test_each_property_that_hosts_lack_is_counted_without_their_names() -> None:
    table = table_of(record(1, traits=frozenset("A")), record(2), record(3, inventories={}))
    spec = spec_with(required_traits=("A",), segments=("dc1",), member_of=(("x",),))
    tally = placement_verdict(table, spec).tally(np.array([True, True, False]))
    assert tally == {"no bridge of its network": 2, "traits not as asked for": 1, "aggregates not as asked for": 2}
    verdict = placement_verdict(table, spec)
    assert verdict.kinds_of(np.array([1])) == [
        "no bridge for physical network dc1, without the required traits A, in none of the required aggregates x"
    ]
    assert verdict.reason(1) == (
        "no bridge for physical network dc1; without the required traits A; in none of the required aggregates x"
    )


names = st.frozensets(st.sampled_from("abcdef"))


@given(
    hosts=st.lists(st.tuples(names, names, names), min_size=1, max_size=30),
    required=names,
    forbidden=names,
    member=names,
    out=names,
)
def test_the_table_says_what_each_host_says(
    hosts: list[Any], required: Any, forbidden: Any, member: Any, out: Any
) -> None:
    records = [
        record(n, traits=traits, provider_aggregates=of, aggregates=tuple(map(aggregate, sorted(mine))))
        for n, (traits, of, mine) in enumerate(hosts, 1)
    ]
    spec = spec_with(
        required_traits=tuple(required),
        forbidden_traits=tuple(forbidden),
        member_of=(tuple(member),) if member else (),
        forbidden_aggregates=tuple(out),
    )
    expected = [
        required <= traits
        and not forbidden & traits
        and (not member or bool(member & (of | mine)))
        and not out & (of | mine)
        for traits, of, mine in hosts
    ]
    assert placement_verdict(table_of(*records), spec).passed.tolist() == expected


def test_a_node_that_goes_to_another_host_is_found_there() -> None:
    table = table_of(record(1), record(2))
    assert table.rows_of_host("host1") == [0]
    table.apply({1: record(1, host="host2")})
    assert (table.rows_of_host("host1"), table.rows_of_host("host2")) == ([], [0, 1])
