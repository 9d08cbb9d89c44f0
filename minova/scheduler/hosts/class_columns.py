"""Columns with few distinct values: each row holds an index into a list of the distinct values."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClassColumn(NamedTuple):
    """`ids` holds an index into `values` for each row."""

    values: Sequence[Any]
    ids: NDArray[np.int64]


class ClassNumbers(NamedTuple):
    """A number for each distinct value, NaN if it has none. `any_number`: whether any of them is not NaN."""

    numbers: NDArray[np.float64]
    any_number: bool


_NO_NUMBERS = ClassNumbers(np.zeros(0), False)


class DistinctValues:
    """The distinct values of one column, numbered in the order in which they first occur. Values must be hashable."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._derived: dict[Callable[[Any], float], ClassNumbers] = {}
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number

    def numbers(self, number: Callable[[Any], float]) -> ClassNumbers:
        """`number` of each value, computed once per value: it must depend on the value alone."""
        derived = self._derived.get(number, _NO_NUMBERS)
        if len(derived.numbers) < len(self.values):
            new = np.array([number(value) for value in self.values[len(derived.numbers) :]], np.float64)
            any_number = derived.any_number or not np.isnan(new).all()
            derived = self._derived[number] = ClassNumbers(np.concatenate([derived.numbers, new]), any_number)
        return derived

    def copy(self) -> "DistinctValues":
        copy = DistinctValues()
        copy.values, copy._numbers, copy._derived = list(self.values), dict(self._numbers), dict(self._derived)
        return copy

    def compacted(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drops values that no row has, once the values outnumber the rows. Returns the rows' numbers, which may have
        changed.
        """
        if len(self.values) <= 2 * len(ids) + 16:
            return ids
        old, self.values, self._numbers, self._derived = self.values, [], {}, {}
        return np.array([self.number(old[i]) for i in ids.tolist()], np.int64)
