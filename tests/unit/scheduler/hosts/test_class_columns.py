"""Few distinct values of many hosts: a number for each value, computed once."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minova.scheduler.hosts.class_columns import DistinctValues


@given(st.lists(st.integers(0, 9)))
def test_values_are_numbered_as_they_first_occur(values: list[int]) -> None:
    distinct = DistinctValues()
    numbers = [distinct.number(value) for value in values]
    assert distinct.values == list(dict.fromkeys(values))
    assert [distinct.values[number] for number in numbers] == values


def test_a_number_is_derived_once_for_each_value() -> None:
    distinct, judged = DistinctValues(), []

    def derive(value: float) -> float:
        judged.append(value)
        return value * 10

    for value in (3.0, 1.0):
        distinct.number(value)
    assert distinct.numbers(derive).numbers.tolist() == [30.0, 10.0]
    assert distinct.numbers(derive) is distinct.numbers(derive)
    distinct.number(7.0)
    assert distinct.numbers(derive).numbers.tolist() == [30.0, 10.0, 70.0]
    assert judged == [3.0, 1.0, 7.0]


def test_whether_any_value_has_a_number_is_known() -> None:
    distinct = DistinctValues()

    def nothing(value: float) -> float:
        return math.nan if value < 5 else value

    assert not distinct.numbers(nothing).any_number
    distinct.number(1.0)
    assert not distinct.numbers(nothing).any_number
    distinct.number(6.0)
    assert distinct.numbers(nothing).any_number
    distinct.number(2.0)
    assert distinct.numbers(nothing).any_number


def test_values_that_no_row_has_are_dropped_once_they_outnumber_the_rows() -> None:
    distinct = DistinctValues()
    rows = np.array([distinct.number(value) for value in range(20)], np.int64)[-2:]
    assert distinct.compacted(rows) is rows
    assert len(distinct.values) == 2 * len(rows) + 16
    distinct.number(20)
    compacted = distinct.compacted(rows)
    assert compacted.tolist() == [0, 1]
    assert distinct.values == [18, 19]
    assert distinct.number(19) == 1


def test_a_copy_changes_without_its_original() -> None:
    distinct = DistinctValues()
    distinct.number("a")
    copy = distinct.copy()
    assert (copy.number("b"), distinct.values, copy.values) == (1, ["a"], ["a", "b"])
    assert copy.number("a") == 0
