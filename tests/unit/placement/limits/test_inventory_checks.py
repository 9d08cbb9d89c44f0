"""Room in inventories: the reasons people read, and one verdict whether asked of a number or of a column."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.placement.limits.inventory_checks import capacity_checks, refusals
from minova.scheduler.hosts.table import INVENTORY_COLUMNS, InventoryColumns


def inventory_columns(**numbers: int) -> InventoryColumns:
    values = {"capacity": 100, "used": 0, "min_unit": 1, "max_unit": 100, "step_size": 1, **numbers}
    return InventoryColumns(**values)


@pytest.mark.parametrize(
    ("sentence", "numbers", "asked", "held", "reasons"),
    [
        ("what is free is given", {"used": 40}, 60, 0, []),
        (
            "more than is free is refused with every number",
            {"used": 41},
            60,
            0,
            ["free VCPU 59 < requested 60 (capacity 100, used 41)"],
        ),
        ("what the consumer holds itself does not stand in its way", {"used": 80}, 60, 50, []),
        (
            "what the consumer keeps is never refused, however the inventory shrank",
            {"capacity": 0, "used": 7},
            7,
            7,
            [],
        ),
        ("a piece may be too large", {"max_unit": 8}, 9, 0, ["max_unit of VCPU 8 < requested 9"]),
        ("a piece may be too small", {"min_unit": 4}, 3, 0, ["requested VCPU 3 < min_unit 4"]),
        ("a piece must be whole steps", {"step_size": 4}, 6, 0, ["requested VCPU 6 is no multiple of step_size 4"]),
        (
            "every reason is told",
            {"used": 100, "max_unit": 1},
            2,
            0,
            ["free VCPU 0 < requested 2 (capacity 100, used 100)", "max_unit of VCPU 1 < requested 2"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_of_one_inventory(
    sentence: str, numbers: dict[str, int], asked: int, held: int, reasons: list[str]
) -> None:
    assert refusals({"VCPU": inventory_columns(**numbers)}, {"VCPU": asked}, {"VCPU": held}) == reasons


def test_a_class_that_the_provider_has_not_is_named() -> None:
    assert refusals({}, {"VGPU": 1}, {}) == ["no inventory of VGPU"]


small = st.integers(0, 12)
inventories = st.builds(InventoryColumns, small, small, small, small, small)


@given(st.lists(inventories, min_size=1, max_size=6), st.integers(1, 12))
def test_columns_and_numbers_give_the_same_verdict(rows: list[InventoryColumns], asked: int) -> None:
    columns = InventoryColumns(*(np.array([row[i] for row in rows]) for i in range(len(INVENTORY_COLUMNS))))
    of_all: list[Any] = list(capacity_checks("VCPU", columns, asked))
    for number, row in enumerate(rows):
        of_one = list(capacity_checks("VCPU", row, asked))
        assert [bool(check.passed[number]) for check in of_all] == [bool(check.passed) for check in of_one]
        assert [check.reasons(np.array([number]))[0] for check in of_all] == [check.reason() for check in of_one]
