"""Pauses that grow from one failure, or one look, to the next."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

# Bounds the exponent: 2.0 ** 1024 is an error.
_MOST = 100


class Backoff(NamedTuple):
    """`first` and `longest` in seconds. Each pause is `factor` times the one before."""

    first: float
    longest: float
    factor: float = 2.0

    def pause(self, failures: int) -> float:
        """Returns the pause after so many failures in a row. Less than 1 counts as 1."""
        return min(self.first * self.factor ** min(max(failures, 1) - 1, _MOST), self.longest)

    def pauses(self) -> Iterator[float]:
        """Yields the pauses, one after the other, without end."""
        return map(self.pause, itertools.count(1))
