"""The record of one decision while it is made: who was lost at which step, and why."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from minova.objects.diagnosis import FilterStep, LostHost, WeighedHost
from minova.scheduler.hosts.table import HostTable, Mask, Rows
from minova.scheduler.weights import Weighed

# Reasons are worked out for this many lost hosts per step at most: when a host was found nobody may ever ask, and a
# Diagnosis travels in a message. The counts are always whole.
LOST_WHEN_FOUND = 20
LOST_WHEN_NOT = 1000
BEST = 10


class Told:
    """The record of a decision, worked out when somebody asks, or at the latest before the table changes."""

    def __init__(
        self,
        steps: Callable[[], tuple[FilterStep, ...]] = tuple,
        weighed: Callable[[], tuple[WeighedHost, ...]] = tuple,
    ) -> None:
        self._make: Callable[[], Record] | None = lambda: Record(steps(), weighed())
        self._made = Record((), ())

    def settle(self) -> None:
        if self._make is not None:
            self._made, self._make = self._make(), None

    @property
    def steps(self) -> tuple[FilterStep, ...]:
        self.settle()
        return self._made.steps

    @property
    def weighed(self) -> tuple[WeighedHost, ...]:
        self.settle()
        return self._made.weighed


class Record(NamedTuple):
    steps: tuple[FilterStep, ...]
    weighed: tuple[WeighedHost, ...]


class Step(NamedTuple):
    """One step as it was taken; the reasons are worked out when the record is written."""

    name: str
    before: Mask
    after: Mask
    reasons: Callable[[Rows], list[str]]
    tally: Callable[[Mask], dict[str, int]] = lambda lost: {}


def filter_steps(table: HostTable, steps: list[Step], most: int) -> tuple[FilterStep, ...]:
    """Must be called before the table changes. A filter that was asked page by page is one step."""
    told: dict[str, FilterStep] = {}
    counts: dict[int, int] = {}  # by the mask's identity: what one step leaves is what the next begins with
    for step in steps:
        for mask in (step.before, step.after):
            if id(mask) not in counts:
                counts[id(mask)] = int(np.count_nonzero(mask))
        known = told.get(step.name)
        one = _filter_step(table, step, counts, most - (len(known.lost) if known else 0))
        told[step.name] = one if known is None else _joined(known, one)
    return tuple(told.values())


def _filter_step(table: HostTable, step: Step, counts: Mapping[int, int], most: int) -> FilterStep:
    before, after = counts[id(step.before)], counts[id(step.after)]
    if before == after:
        return FilterStep(name=step.name, before=before, after=after)
    mask = step.before & ~step.after
    lost, lacking = _lost(table, step, mask, most), step.tally(mask)
    return FilterStep(name=step.name, before=before, after=after, lost=lost, lacking=lacking)


def _joined(one: FilterStep, other: FilterStep) -> FilterStep:
    return FilterStep(
        name=one.name,
        before=one.before + other.before,
        after=one.after + other.after,
        lost=one.lost + other.lost,
        lacking=dict(Counter(one.lacking) + Counter(other.lacking)),
    )


def _lost(table: HostTable, step: Step, mask: Mask, most: int) -> tuple[LostHost, ...]:
    rows = mask.nonzero()[0][:most]
    if not len(rows):
        return ()
    records = [table.records[row] for row in rows.tolist()]
    return tuple(
        LostHost(host=record.host, node=record.node, reason=reason)
        for record, reason in zip(records, step.reasons(rows), strict=True)
    )


def weighed_hosts(table: HostTable, rows: Rows, best: Rows, weighed: Weighed) -> tuple[WeighedHost, ...]:
    """The best ten: `best` are indices into `rows`, best first."""
    ten = best[:BEST]
    names = tuple(weighed.shares)
    shares = [
        [share] * len(ten) if isinstance(share, float) else share[ten].tolist() for share in weighed.shares.values()
    ]
    each = zip(*shares, strict=True) if shares else [()] * len(ten)
    return tuple(
        WeighedHost(host=record.host, node=record.node, weight=weight, weights=dict(zip(names, own, strict=True)))
        for record, weight, own in zip(
            (table.records[row] for row in rows[ten].tolist()), weighed.total[ten].tolist(), each, strict=True
        )
    )
