"""Values that a requirement compares. test_compute_capabilities.py has the operators."""

import pytest

from minova.scheduler.filters.errors import InvalidFilterInput
from minova.scheduler.filters.extra_specs import comparable, compare, match


@pytest.mark.parametrize(
    ("value", "requirement", "can"),
    [
        ("5", ">= 4", True),
        ("5.5", "= 4", True),
        ("many", ">= 4", False),
        ("", "== 4", False),
        ("many", "s== many", True),
        ("many", "many", True),
        ("many", "", True),
        # What is wrong with the requirement itself is an error of `compare`.
        ("many", ">= x", True),
        ("many", ">=", True),
    ],
)
def test_a_value_that_is_no_number_is_not_compared_with_one(value: str, requirement: str, can: bool) -> None:
    assert comparable(value, requirement) is can


@pytest.mark.parametrize(("value", "requirement"), [("5", ">= x"), ("many", ">= 4"), ("5", "<or>")])
def test_what_cannot_be_compared_names_its_extra_spec(value: str, requirement: str) -> None:
    with pytest.raises(InvalidFilterInput, match=f"Extra spec k: '{requirement}' does not compare with '{value}'"):
        compare("k", value, requirement)


def test_an_operator_without_a_value_matches_nothing() -> None:
    assert [match("5", operator) for operator in (">=", "s==", "<in>", "<all-in>")] == [False] * 4
