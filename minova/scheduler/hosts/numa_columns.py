"""The free capacity of all hosts' NUMA cells as arrays of (cell, host), so that the fit of a guest is computed for all
hosts at once.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minova.hardware.numa_counts import NUMBERS, CellCounts, CellRequirement, Counts, accepts, counts_of
from minova.objects.hosts.numa import NUMATopology, NUMATopologyLimits

# Up to so many kinds of guest cells, every set of kinds is counted. A guest with more kinds is left to the exact fit.
MAX_KINDS = 5


class Fitting(NamedTuple):
    """`passed`: the hosts whose cells fit. `exact`: the result is certain apart from PCI devices."""

    passed: NDArray[np.bool_]
    exact: bool


class NumaColumns:
    """A host with fewer cells than another has padding cells: `exists` says which cells are real."""

    def __init__(self) -> None:
        self._size = 0
        self.exists: NDArray[np.bool_] = np.zeros((0, 0), bool)
        self._numbers: dict[str, NDArray[np.int64]] = {name: np.zeros((0, 0), np.int64) for name in NUMBERS}
        self._pages: dict[int, NDArray[np.int64]] = {}

    def reshape(self, keep: NDArray[np.bool_], fresh: int, order: NDArray[np.int64]) -> None:
        """Removes rows, adds rows, and reorders them."""
        self._size = len(order)
        self._numbers = {name: _reshaped(array, keep, fresh, order) for name, array in self._numbers.items()}
        self._pages = {size: _reshaped(array, keep, fresh, order) for size, array in self._pages.items()}
        self.exists = _reshaped(self.exists, keep, fresh, order)

    def write(self, row: int, topology: NUMATopology | None) -> None:
        if not len(self.exists) and topology is None:
            return
        counts = () if topology is None else counts_of(topology)
        self._widen(len(counts), {size for cell in counts for size in cell.pages})
        self.exists[:, row] = np.arange(len(self.exists)) < len(counts)
        missing = len(self.exists) - len(counts)
        for name, array in self._numbers.items():
            array[:, row] = [getattr(cell, name) for cell in counts] + [int(name == "smallest_kb")] * missing
        for size, array in self._pages.items():
            array[:, row] = [cell.pages.get(size, -1) for cell in counts] + [-1] * missing

    def counts(self, row: int) -> Counts:
        """Returns the counts of one host, as they were written."""
        return tuple(
            CellCounts(
                **{name: array[cell, row].item() for name, array in self._numbers.items()},
                pages={size: array[cell, row].item() for size, array in self._pages.items() if array[cell, row] >= 0},
            )
            for cell in np.flatnonzero(self.exists[:, row]).tolist()
        )

    def write_each(self, rows: NDArray[np.int64], topology: NUMATopology | None) -> None:
        """Writes the same cells for all these hosts."""
        self.write(int(rows[0]), topology)
        for array in (self.exists, *self._numbers.values(), *self._pages.values()):
            array[:, rows[1:]] = array[:, [rows[0]]]

    def copy(self) -> "NumaColumns":
        copied = NumaColumns()
        copied._size, copied.exists = self._size, self.exists.copy()
        copied._numbers = {name: array.copy() for name, array in self._numbers.items()}
        copied._pages = {size: array.copy() for size, array in self._pages.items()}
        return copied

    def fitting(self, needs: Sequence[CellRequirement], limits: NUMATopologyLimits | None) -> Fitting:
        """Decides by counts alone.

        `limits` may hold columns. A guest fits if every set of its cells is accepted by as many cells of the host
        (Hall's theorem). Equal guest cells need to be counted only together.
        """
        kinds = Counter(needs)
        accepted = {need: self._accepting(need, limits) for need in kinds}
        passed = self.exists.sum(axis=0) >= len(needs)
        exact = len(kinds) <= MAX_KINDS
        sizes = range(1, len(kinds) + 1) if exact else (1, len(kinds))
        for size in sizes:
            for some in combinations(kinds, size):
                together = np.logical_or.reduce([accepted[need] for need in some])
                passed &= together.sum(axis=0) >= sum(kinds[need] for need in some)
        return Fitting(passed, exact)

    def _accepting(self, need: CellRequirement, limits: NUMATopologyLimits | None) -> NDArray[np.bool_]:
        cells = CellCounts(**self._numbers, pages=self._pages)
        accepting: NDArray[np.bool_] = self.exists & accepts(cells, need, limits)
        return accepting

    def _widen(self, cells: int, sizes: set[int]) -> None:
        if cells > len(self.exists):
            self.exists = _widened(self.exists, cells, self._size, 0)
            self._numbers = {
                name: _widened(array, cells, self._size, int(name == "smallest_kb"))
                for name, array in self._numbers.items()
            }
            self._pages = {size: _widened(array, cells, self._size, -1) for size, array in self._pages.items()}
        for size in sorted(sizes - self._pages.keys()):
            self._pages[size] = np.full((len(self.exists), self._size), -1, np.int64)


def _reshaped(array: NDArray[Any], keep: NDArray[np.bool_], fresh: int, order: NDArray[np.int64]) -> NDArray[Any]:
    if not len(array):
        return np.zeros((0, len(order)), array.dtype)
    return np.concatenate([array[:, keep], np.zeros((len(array), fresh), array.dtype)], axis=1)[:, order]


def _widened(array: NDArray[Any], cells: int, size: int, value: int) -> NDArray[Any]:
    wide = np.full((cells, size), value, array.dtype)
    wide[: len(array)] = array
    return wide
