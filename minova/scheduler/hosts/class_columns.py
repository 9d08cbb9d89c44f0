"""Columns of values that few distinct ones make up: numbers into a list of the values, each kept once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class ClassColumn(NamedTuple):
    """`ids` has a number into `values` for each row."""

    values: Sequence[Any]
    ids: NDArray[np.int64]


class DistinctValues:
    """The distinct values of one column, numbered as they come. A value must be hashable."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def copy(self) -> "DistinctValues":
        found = DistinctValues()
        found.values, found._numbers = list(self.values), dict(self._numbers)
        return found

    def compacted(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop what no row has any more, before it outgrows the rows; answers the rows' numbers as they are now."""
        if len(self.values) <= 2 * len(ids) + 16:
            return ids
        old, self.values, self._numbers = self.values, [], {}
        return np.array([self.number(old[i]) for i in ids.tolist()], np.int64)
