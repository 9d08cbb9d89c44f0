"""Numbers of the change feed that were skipped and may still appear. Pure.

Transactions do not commit in the order of their numbers: a number below the newest one may become visible later. Most
gaps stay empty forever, however: a transaction was rolled back, or the database counts in steps (Galera). So gaps are
kept as ranges, one query covers a few ranges, and each refresh queries only young gaps.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

# Seconds. A transaction that took its number longer ago has been committed or rolled back.
LIFETIME = 120.0
# For so many seconds each refresh queries a gap.
YOUNG = 2.0
# The most known numbers between young gaps that a refresh reads again. Gaps before these wait until all gaps are
# queried.
YOUNG_BUDGET = 500
# Ranges in one query.
MAX_RANGES = 8


class Gap(NamedTuple):
    """The numbers from `first` to `last`, missing since the reader's time `since`."""

    first: int
    last: int
    since: float


class Ranges(NamedTuple):
    """The ranges of a query. They contain `read_count` numbers that the reader has already read."""

    pairs: Sequence[tuple[int, int]]
    read_count: int


class Gaps:
    """`now`: of any clock that does not run backwards."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []  # sorted by number and therefore by age

    def __len__(self) -> int:
        return len(self._gaps)

    def add(self, first: int, last: int, now: float) -> None:
        """Adds skipped numbers. They must be higher than those of all earlier gaps."""
        self._gaps.append(Gap(first, last, now))

    def fill(self, numbers: Iterable[int]) -> list[int]:
        """Removes these numbers, which were read, from the gaps. Returns those that were missing."""
        return [number for number in numbers if self._fill(number)]

    def _fill(self, number: int) -> bool:
        at = bisect_right(self._gaps, number, key=lambda gap: gap.first) - 1
        if at < 0 or self._gaps[at].last < number:
            return False
        first, last, since = self._gaps[at]
        around = ((first, number - 1), (number + 1, last))
        self._gaps[at : at + 1] = [Gap(low, high, since) for low, high in around if low <= high]
        return True

    def to_ask(self, now: float, *, every: bool) -> Ranges:
        """Returns at most MAX_RANGES ranges that cover all gaps (`every`), or the young gaps."""
        gaps = self._gaps if every else self._gaps[self._start_of_young(now) :]
        if not gaps:
            return Ranges((), 0)
        # All numbers between two neighbouring gaps are known: leave out the longest such stretches.
        between = [after.first - before.last - 1 for before, after in pairwise(gaps)]
        cuts = sorted(heapq.nlargest(MAX_RANGES - 1, range(len(between)), key=between.__getitem__))
        starts, ends = [0, *(cut + 1 for cut in cuts)], [*cuts, len(gaps) - 1]
        pairs = [(gaps[start].first, gaps[end].last) for start, end in zip(starts, ends, strict=True)]
        return Ranges(pairs, sum(between) - sum(between[cut] for cut in cuts))

    def expire(self, now: float) -> None:
        """Drops gaps that are past their lifetime. All gaps must have been queried at `now` or later: otherwise their
        numbers could have appeared since the last query.
        """
        self._gaps = [gap for gap in self._gaps if now - gap.since < LIFETIME]

    def _start_of_young(self, now: float) -> int:
        """Returns where the newest gaps begin that are young and have few known numbers between them."""
        at, numbers_between = len(self._gaps), 0
        while at and now - self._gaps[at - 1].since < YOUNG:
            if at < len(self._gaps):
                numbers_between += self._gaps[at].first - self._gaps[at - 1].last - 1
            if numbers_between > YOUNG_BUDGET:
                break
            at -= 1
        return at
