"""JsonFilter: Nova's little language, with its oddities."""

import json
from typing import Any

import pytest

from minova.scheduler.filters.json_query import JsonFilter
from tests.unit.scheduler.filters.cases import Case, check, each, error_of

# 16 vcpus of which 4 are used, 31744 MB of 32768 free.
HOST = {"stats": {"rack": "r1", "num_instances": 3}, "vcpus_used": 4, "memory_mb_used": 1024}


def passing_case(sentence: str, *query: Any) -> Case:
    return Case(JsonFilter, sentence, None, HOST, {"hints": {"query": json.dumps(list(query))}})


def failing_case(sentence: str, said: str, *query: Any) -> Case:
    text = json.dumps(list(query))
    return Case(JsonFilter, sentence, f"query {text} with {said}", HOST, {"hints": {"query": text}})


@each(
    [
        Case(JsonFilter, "no hint", None),
        passing_case("an empty query"),
        passing_case("equal", "=", "$vcpus_used", 4),
        failing_case("not equal", "$vcpus_used 4", "=", "$vcpus_used", 5),
        passing_case("less", "<", "$vcpus_used", 5),
        failing_case("not less", "$vcpus_used 4", "<", "$vcpus_used", 4),
        passing_case("more", ">", "$free_ram_mb", 31743),
        failing_case("not more", "$free_ram_mb 31744", ">", "$free_ram_mb", 31744),
        passing_case("at most", "<=", "$vcpus_used", 4),
        failing_case("more than at most", "$vcpus_used 4", "<=", "$vcpus_used", 3),
        passing_case("at least", ">=", "$vcpus_used", 4),
        failing_case("less than at least", "$vcpus_used 4", ">=", "$vcpus_used", 5),
        passing_case("to all of them", "<", "$vcpus_used", 5, 6),
        failing_case("not to all of them", "$vcpus_used 4", "<", "$vcpus_used", 5, 4),
        passing_case("in", "in", "$hypervisor_type", "KVM", "QEMU"),
        failing_case("not in", "$hypervisor_type 'QEMU'", "in", "$hypervisor_type", "KVM", "Xen"),
        failing_case("with nothing to compare", "$vcpus_used 4", "=", "$vcpus_used"),
        passing_case("and", "and", ["=", "$vcpus_used", 4], [">", "$free_ram_mb", 1]),
        failing_case(
            "and, one false",
            "$vcpus_used 4, $free_ram_mb 31744",
            "and",
            ["=", "$vcpus_used", 4],
            ["<", "$free_ram_mb", 1],
        ),
        passing_case("or", "or", ["=", "$vcpus_used", 9], [">", "$free_ram_mb", 1]),
        failing_case("or, both false", "$vcpus_used 4", "or", ["=", "$vcpus_used", 9], ["=", "$vcpus_used", 8]),
        passing_case("not", "not", ["=", "$vcpus_used", 9]),
        failing_case("not, and it is", "$vcpus_used 4", "not", ["=", "$vcpus_used", 4]),
        passing_case("not: one of many is enough", "not", ["=", "$vcpus_used", 4], ["=", "$vcpus_used", 9]),
        passing_case("not gives a list, which counts as true", "and", ["not", ["=", "$vcpus_used", 4]], ["=", 1, 1]),
        passing_case("an unknown variable drops out and the others move up", "=", "$nope", 4, 4),
        failing_case("which may leave one alone", "$nope unknown", ">=", "$nope", 1),
        passing_case("stats", "=", "$stats.rack", "r1"),
        failing_case("stats are text", "$stats.num_instances '3'", "=", "$stats.num_instances", 3),
        failing_case("stats that are not there", "$stats.nope unknown", ">=", "$stats.nope", 3),
        passing_case("the service", "=", "$service.disabled", False),
        passing_case("names of hosts are compared as text", "<", "$host", "host3"),
        failing_case(
            "names that Nova's HostState does not have are none", "$memory_mb unknown", "=", "$memory_mb", 32768
        ),
        passing_case("an empty text drops out", "=", "", 1, 1),
        passing_case("an empty list is true", "and", [], ["=", 1, 1]),
        passing_case("plain values", "=", 1, 1),
    ]
)
def test_query(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("{not json", "JSONDecodeError"),
        ("5", "TypeError"),
        ("true", "TypeError"),
        ('"text"', "KeyError"),
        ('{"and": []}', "KeyError"),
        ('["xor", 1, 2]', "KeyError"),
        ('[["="], 1, 2]', "TypeError"),
        ('["<", "$hypervisor_type", 3]', "TypeError"),
        ('["<", 5, 4, "x"]', "TypeError"),
        ('["=", "$free_ram_mb.kb", 3]', "AttributeError"),
        (["=", 1, 1], "TypeError"),
    ],
)
def test_a_query_that_makes_no_sense_is_an_error_with_the_query(query: Any, kind: str) -> None:
    error = error_of(Case(JsonFilter, "", "", asked={"hints": {"query": query}}))
    assert getattr(error, "nova_name", "") == kind
    message = "none of the commands = < > <= >= in not or and" if kind == "KeyError" else kind
    assert str(error).startswith(f"Scheduler hint query: {query!r}: {message}")
