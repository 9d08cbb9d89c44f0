import re
from urllib.parse import parse_qsl

import pytest

from minova.placement.candidates.query import parse
from minova.placement.candidates.request import CandidateRequest, RequestGroup
from minova.placement.errors import BAD_VALUE, DUPLICATE_KEY, MISSING_VALUE, UNDEFINED, BadRequest

A = "aaaaaaaa-0000-4000-8000-000000000000"
B = "bbbbbbbb-0000-4000-8000-000000000000"


def read(query: str, version: str = "1.39") -> CandidateRequest:
    major, minor = version.split(".")
    return parse(parse_qsl(query, keep_blank_values=True), (int(major), int(minor)))


def only_group(query: str, version: str = "1.39") -> RequestGroup:
    (group,) = read(query, version).groups
    return group


def one(*names: str) -> frozenset[str]:
    return frozenset(names)


def test_resources_are_classes_with_amounts() -> None:
    assert only_group("resources=VCPU:2,MEMORY_MB:1024").resources == {"VCPU": 2, "MEMORY_MB": 1024}
    assert only_group("resources=VCPU:2,VCPU:3").resources == {"VCPU": 3}


@pytest.mark.parametrize(
    ("query", "required", "forbidden"),
    [
        ("required=A,B", (one("A"), one("B")), one()),
        ("required=A,!B", (one("A"),), one("B")),
        ("required=in:A,B", (one("A", "B"),), one()),
        ("required=in:A,B&required=C,!D", (one("A", "B"), one("C")), one("D")),
    ],
)
def test_traits(query: str, required: tuple[frozenset[str], ...], forbidden: frozenset[str]) -> None:
    resource_group = only_group(f"resources=VCPU:1&{query}")
    assert (resource_group.required, resource_group.forbidden) == (required, forbidden)


def test_before_any_of_traits_the_last_required_counts() -> None:
    assert only_group("resources=VCPU:1&required=A&required=B", "1.38").required == (one("B"),)


@pytest.mark.parametrize(
    ("query", "member_of", "forbidden"),
    [
        (f"member_of={A}", (one(A),), one()),
        (f"member_of={A.upper()}", (one(A),), one()),
        (f"member_of=in:{A},{B}", (one(A, B),), one()),
        (f"member_of={A}&member_of={B}", (one(A), one(B)), one()),
        (f"member_of=!{A}&member_of={B}", (one(B),), one(A)),
        (f"member_of=!in:{A},{B}", (), one(A, B)),
    ],
)
def test_aggregates(query: str, member_of: tuple[frozenset[str], ...], forbidden: frozenset[str]) -> None:
    resource_group = only_group(f"resources=VCPU:1&{query}")
    assert (resource_group.member_of, resource_group.forbidden_aggregates) == (member_of, forbidden)


def test_groups_come_in_the_order_of_their_keys_by_number_and_by_name() -> None:
    query = read(
        f"resources_B=VCPU:1&resources=DISK_GB:1&required_B=A&in_tree2={A}&resources2=VGPU:1&group_policy=none"
    )
    assert [group.suffix for group in query.groups] == ["_B", "", "2"]
    assert [group.granular for group in query.groups] == [True, False, True]
    assert query.groups[0].required == (one("A"),)
    assert query.groups[2].in_tree == A


def test_what_concerns_the_whole_request() -> None:
    query = read(
        "resources_A=VCPU:1&resources_B=VGPU:1&group_policy=isolate&same_subtree=_A,_B&limit=7&root_required=X,!Y"
    )
    assert query.isolate
    assert query.same_subtrees == (one("_A", "_B"),)
    assert query.limit == 7
    assert (query.root_required, query.root_forbidden) == (one("X"), one("Y"))
    assert query.traits() == {"X", "Y"}


def test_old_clients_know_of_no_trees() -> None:
    assert not read("resources=VCPU:1", "1.28").nested
    assert read("resources=VCPU:1", "1.29").nested


# The first microversion that knows each key, with the least that must stand beside it.
FIRST = {
    "resources=VCPU:1": 10,
    "limit=1": 16,
    "required=A": 17,
    "member_of=in:" + A: 21,
    "required=!A": 22,
    f"member_of={A}&member_of={B}": 24,
    "resources1=VCPU:1": 25,
    "group_policy=none": 25,
    "required1=A&resources1=VCPU:1": 25,
    "in_tree=" + A: 31,
    "member_of=!" + A: 32,
    "resources_A=VCPU:1": 33,
    "root_required=A": 35,
    "same_subtree=_A&resources_A=VCPU:1": 36,
    "required=in:A,B": 39,
}


@pytest.mark.parametrize(("query", "minor"), FIRST.items())
def test_a_key_is_read_from_its_microversion_on(query: str, minor: int) -> None:
    beside = "resources=VCPU:1&" if "resources=" not in query else ""
    read(beside + query, f"1.{minor}")
    with pytest.raises(BadRequest):
        read(beside + query, f"1.{minor - 1}")


def test_of_a_repeated_key_the_last_value_counts() -> None:
    again = only_group(f"resources=VCPU:1&resources=VGPU:2&in_tree={A}&in_tree={B}")
    assert (again.resources, again.in_tree) == ({"VGPU": 2}, B)


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("1.25", "'^member_of([1-9][0-9]*)?$', '^required([1-9][0-9]*)?$', '^resources([1-9][0-9]*)?$'"),
        (
            "1.33",
            ", ".join(
                f"'^{key}([a-zA-Z0-9_-]{{1,64}})?$'" for key in ("in_tree", "member_of", "required", "resources")
            ),
        ),
    ],
)
def test_an_unknown_key_is_answered_with_the_keys_of_the_microversion(version: str, known: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(f"does not match any of the regexes: {known}, and")):
        read("resources=VCPU:1&color=red", version)


@pytest.mark.parametrize(
    ("version", "query", "said"),
    [
        ("1.10", "", "'resources' is a required property"),
        ("1.10", "resources=", "Badly formed resources parameter. .*Got: empty string"),
        ("1.39", "resources=VCPU", "Badly formed resources parameter. .*Got: VCPU"),
        ("1.39", "resources=VCPU:1:2", "Badly formed resources parameter"),
        ("1.39", "resources=VCPU:many", "VCPU expected positive integer amount. Got: many"),
        ("1.39", "resources=VCPU:1_0", "VCPU expected positive integer amount. Got: 1_0"),
        ("1.39", "resources=VCPU:0", "VCPU requires amount >= 1. Got: 0"),
        ("1.39", "resources=VCPU:-1", "VCPU requires amount >= 1. Got: -1"),
        ("1.15", "resources=VCPU:1&limit=5", "'limit' was unexpected"),
        ("1.16", "resources=VCPU:1&limit=cow", "limit is 'cow'"),
        ("1.16", "resources=VCPU:1&limit=0", "Failed validating 'pattern'"),
        ("1.16", "resources=VCPU:1&required=A", "'required' was unexpected"),
        ("1.17", "resources=VCPU:1&required=", "form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait"),
        ("1.17", "resources=VCPU:1&required=!A", "form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !A"),
        ("1.22", "resources=VCPU:1&required=A,,B", "form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait"),
        ("1.22", "resources=VCPU:1&required=A,!A", "Conflicting required and forbidden traits .*required: \\(A\\)"),
        ("1.20", f"resources=VCPU:1&member_of={A}", "'member_of' was unexpected"),
        ("1.21", "resources=VCPU:1&member_of=x", "'member_of' parameter to contain valid UUID\\(s\\). Got: x"),
        ("1.21", f"resources=VCPU:1&member_of={A},{B}", "Multiple values for 'member_of' must be prefixed"),
        ("1.21", f"resources=VCPU:1&member_of={A}&member_of={B}", "Multiple member_of parameters are not supported"),
        ("1.31", f"resources=VCPU:1&member_of=!{A}", "Forbidden member_of parameters are not supported"),
        ("1.24", "resources1=VCPU:1", "'resources1' was unexpected"),
        ("1.32", "resources_A=VCPU:1", "'resources_A' does not match any of the regexes"),
        ("1.25", "resources1=VCPU:1&resources2=VCPU:1", 'The "group_policy" parameter is required'),
        ("1.25", "resources1=VCPU:1&group_policy=any", "'any' is not one of"),
        ("1.30", f"resources=VCPU:1&in_tree={A}", "'in_tree' does not match any"),
        ("1.31", "resources=VCPU:1&in_tree=root", "'in_tree' parameter to be a format of uuid. Got: root"),
        ("1.31", f"in_tree={A}", "All request groups must specify resources"),
        ("1.25", "required1=A&resources=VCPU:1", "All traits parameters must be associated with resources.*required1"),
        ("1.25", f"member_of1={A}&resources=VCPU:1", "All member_of parameters must be .*member_of1"),
        ("1.25", "", "At least one request group"),
        ("1.34", "resources=VCPU:1&root_required=A", "'root_required' does not match any of the regexes"),
        ("1.35", "resources=VCPU:1&same_subtree=_A", "'same_subtree' does not match any of the regexes"),
        ("1.38", "resources=VCPU:1&required=in:A,B", "only supported since microversion 1.39."),
        ("1.39", "resources=VCPU:1&required=in:A,", "Got an empty trait"),
        ("1.39", "resources=VCPU:1&required=in:A,!B", "does not support forbidden traits"),
        ("1.39", "resources=VCPU:1&root_required=in:A,B", "'root_required'.* only supported since"),
        ("1.39", "resources=VCPU:1&color=red", "'color' does not match any of the regexes"),
    ],
)
def test_error_text_names_the_mistake(version: str, query: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        read(query, version)
    assert caught.value.placement_code == UNDEFINED


@pytest.mark.parametrize(
    ("query", "said", "code"),
    [
        ("resources=VCPU:1&root_required=A&root_required=B", "may be specified only once", DUPLICATE_KEY),
        ("resources=VCPU:1&root_required=A,!A", "found in root_required: A", BAD_VALUE),
        ("resources_A=VCPU:1&same_subtree=", "Empty string (unsuffixed group) can not", BAD_VALUE),
        ("resources_A=VCPU:1&same_subtree=_A,_B", "Real suffixes should be specified", BAD_VALUE),
        ("resources_A=VCPU:1&required_B=X&group_policy=none", "Resourceless suffixed group request", BAD_VALUE),
        (f"member_of1={A}", "There must be at least one resources", MISSING_VALUE),
    ],
)
def test_some_mistakes_have_a_code_for_programs(query: str, said: str, code: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(said)) as caught:
        read(query)
    assert caught.value.placement_code == code
