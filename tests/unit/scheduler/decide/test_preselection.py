"""Which hosts Placement offers: room, traits, aggregates, and a second choice; of a table and of one host alike."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.objects.network.physical_networks import trait_of
from minova.objects.requests.request_spec import PlacementFilter, RequestSpec
from minova.scheduler.decide.preselection import placement_verdict, resources_at
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
