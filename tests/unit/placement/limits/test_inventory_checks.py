"""Room in inventories: the reasons people read, and one verdict whether asked of a number or of a column."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.placement.limits.inventory_checks import InventoryUsage, capacity_checks, refusals
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
        ("the largest piece", {"max_unit": 8}, 8, 0, []),
        ("the smallest piece", {"min_unit": 4}, 4, 0, []),
        ("a piece of whole steps", {"step_size": 4}, 8, 0, []),
        (
            "one that the consumer changes is refused as a whole",
            {"capacity": 8, "used": 7},
            9,
            7,
            ["free VCPU 8 < requested 9 (capacity 8, used 0)"],
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
    assert refusals({}, {"VGPU": 0}, {}) == []


def test_each_class_has_its_reasons() -> None:
    full = {name: inventory_columns(used=100) for name in ("A", "C")}
    assert refusals(full, {"A": 1, "B": 1, "C": 2}, {"A": 1}) == [
        "no inventory of B",
        "free C 0 < requested 2 (capacity 100, used 100)",
    ]


@pytest.mark.parametrize(
    ("amount", "takes"), [(2, False), (3, False), (4, True), (5, False), (8, True), (10, False), (12, False)]
)
def test_what_an_inventory_takes_in_one_piece(amount: int, takes: bool) -> None:
    usage = InventoryUsage(capacity=10, used=2, min_unit=3, max_unit=11, step_size=4)
    assert usage.takes(amount) is takes


@pytest.mark.parametrize(("numbers", "takes"), [({}, True), ({"used": 3}, False), ({"max_unit": 7}, False)])
def test_all_of_an_inventory_is_taken(numbers: dict[str, int], takes: bool) -> None:
    whole = {"capacity": 10, "used": 2, "min_unit": 8, "max_unit": 8, "step_size": 8}
    assert InventoryUsage(**whole | numbers).takes(8) is takes


def test_a_new_consumer_holds_nothing() -> None:
    for used, passes in ((9, True), (10, False)):
        free, *_ = capacity_checks("VCPU", inventory_columns(capacity=10, used=used), 1)
        assert (free.have, free.passed) == (10 - used, passes)


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
