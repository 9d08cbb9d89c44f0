"""Values of query strings: what each microversion reads of them, and in which words it refuses the rest."""

from collections.abc import Callable
from typing import Any

import pytest

from minova.placement.errors import BadRequest
from minova.placement.limits.query_values import SetCondition, read_aggregates, read_resources, read_traits, read_uuid

A, B, C = (f"{number}" * 8 + "-0000-4000-8000-000000000000" for number in (1, 2, 3))
LATEST = (1, 39)


def traits(*names: str) -> frozenset[str]:
    return frozenset(names)


def refusal(read: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(BadRequest) as error:
        read(*arguments)
    return str(error.value)


def test_resources_and_the_last_amount_of_a_class_counts() -> None:
    assert read_resources("VCPU:1,MEMORY_MB: 1024 ,VCPU:+2") == {"VCPU": 2, "MEMORY_MB": 1024}
    assert read_resources("VCPU:" + "9" * 1000) == {"VCPU": int("9" * 1000)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (" ", "Got: empty string."),
        ("VCPU", "Got: VCPU."),
        ("VCPU:1:2", "Got: VCPU:1:2."),
        ("VCPU:1,", "Got: ."),
        ("VCPU:x", "Requested resource VCPU expected positive integer amount. Got: x."),
        ("VCPU:", "Requested resource VCPU expected positive integer amount. Got: ."),
        ("VCPU:" + "9" * 1001, "Requested resource VCPU expected positive integer amount."),
        ("VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0."),
        ("VCPU:-1", "Requested resource VCPU requires amount >= 1. Got: -1."),
    ],
)
def test_malformed_resources_are_refused(value: str, text: str) -> None:
    assert text in refusal(read_resources, value)


@pytest.mark.parametrize(
    ("value", "version", "membership"),
    [
        ("A", (1, 0), SetCondition((traits("A"),))),
        ("A, B", (1, 21), SetCondition((traits("A"), traits("B")))),
        ("!A, B", (1, 22), SetCondition((traits("B"),), traits("A"))),
        ("in:A, B", (1, 39), SetCondition((traits("A", "B"),))),
    ],
)
def test_traits(value: str, version: tuple[int, int], membership: SetCondition) -> None:
    assert read_traits("required", value, version) == membership


@pytest.mark.parametrize(
    ("value", "version", "text"),
    [
        ("A,,B", (1, 22), "of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: A,,B"),
        ("A,!", (1, 22), "of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: A,!"),
        ("", (1, 21), "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: "),
        ("!A", (1, 21), "of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !A"),
        ("in:A,B", (1, 38), "only supported since microversion 1.39. Got: in:A,B"),
        ("in:A,", (1, 39), "in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,"),
        ("in:A,!B", (1, 39), "does not support forbidden traits. Got: in:A,!B"),
    ],
)
def test_malformed_traits_are_refused(value: str, version: tuple[int, int], text: str) -> None:
    assert refusal(read_traits, "required", value, version).endswith(text)


@pytest.mark.parametrize(
    ("values", "version", "membership"),
    [
        ([A], (1, 3), SetCondition((traits(A),))),
        ([f"in:{A},{B}"], (1, 3), SetCondition((traits(A, B),))),
        ([A, f"in:{B}, {C}"], (1, 24), SetCondition((traits(A), traits(B, C)))),
        ([f"!{A}", f"!in:{B},{C}"], (1, 32), SetCondition((), traits(A, B, C))),
        ([A.replace("-", "").upper()], LATEST, SetCondition((traits(A),))),
    ],
)
def test_aggregates(values: list[str], version: tuple[int, int], membership: SetCondition) -> None:
    assert read_aggregates("member_of", values, version) == membership


@pytest.mark.parametrize(
    ("values", "version", "text"),
    [
        ([A, B], (1, 23), "Multiple member_of parameters are not supported"),
        ([f"!{A}"], (1, 31), "Forbidden member_of parameters are not supported in the specified microversion"),
        ([f"{A},{B}"], LATEST, f"using the valid microversion. Got: {A},{B}"),
        ([f"!{A},{B}"], LATEST, f"using the valid microversion. Got: !{A},{B}"),
        (["in:rack"], LATEST, "to contain valid UUID(s). Got: rack"),
        ([f"in:{A},"], LATEST, "to contain valid UUID(s). Got: "),
    ],
)
def test_malformed_aggregates_are_refused(values: list[str], version: tuple[int, int], text: str) -> None:
    assert refusal(read_aggregates, "member_of", values, version).endswith(text)


def test_a_uuid_in_any_form_and_nothing_else() -> None:
    assert read_uuid("in_tree", f" {A.replace('-', '')} ") == A
    assert refusal(read_uuid, "in_tree", "root").endswith("to be a format of uuid. Got: root")
