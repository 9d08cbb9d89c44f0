"""The record of one decision: how many hosts each step lost and why, and the best hosts by weight."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from minova.objects.requests.diagnosis import FilterStep, LostHost, WeighedHost
from minova.scheduler.decide.chain import Step
from minova.scheduler.hosts.table import HostTable, Mask, Rows
from minova.scheduler.weights import TotalWeights

# At most this many reasons per step: a Diagnosis is sent in a message, and is rarely read if a host was found. The
# counts are always complete.
LOST_WHEN_FOUND = 20
LOST_WHEN_NOT = 1000
BEST = 10


def filter_steps(table: HostTable, steps: Sequence[Step], limit: int) -> tuple[FilterStep, ...]:
    """Must be called before the table changes. A filter that ran page by page is one step."""
    recorded: dict[str, FilterStep] = {}
    counts: dict[int, int] = {}  # by the mask's identity: one step's result is the next step's input
    for step in steps:
        for mask in (step.before, step.after):
            if id(mask) not in counts:
                counts[id(mask)] = int(np.count_nonzero(mask))
        earlier = recorded.get(step.name)
        step_of_filter = _filter_step(table, step, counts, limit - (len(earlier.lost) if earlier else 0))
        recorded[step.name] = step_of_filter if earlier is None else _merged(earlier, step_of_filter)
    return tuple(recorded.values())


def _filter_step(table: HostTable, step: Step, counts: Mapping[int, int], limit: int) -> FilterStep:
    before, after = counts[id(step.before)], counts[id(step.after)]
    if before == after:
        return FilterStep(name=step.name, before=before, after=after)
    mask = step.before & ~step.after
    lost, lacking = _lost_hosts(table, step, mask, limit), step.verdict.tally(mask)
    return FilterStep(name=step.name, before=before, after=after, lost=lost, lacking=lacking)


def _merged(earlier: FilterStep, other: FilterStep) -> FilterStep:
    return FilterStep(
        name=earlier.name,
        before=earlier.before + other.before,
        after=earlier.after + other.after,
        lost=earlier.lost + other.lost,
        lacking=dict(Counter(earlier.lacking) + Counter(other.lacking)),
    )


def _lost_hosts(table: HostTable, step: Step, mask: Mask, limit: int) -> tuple[LostHost, ...]:
    rows = np.flatnonzero(mask)[:limit]
    if not len(rows):
        return ()
    records = [table.records[row] for row in rows.tolist()]
    return tuple(
        LostHost(host=record.host, node=record.node, reason=reason)
        for record, reason in zip(records, step.verdict.reasons(rows), strict=True)
    )


def weighed_hosts(table: HostTable, rows: Rows, best: Rows, weighed: TotalWeights) -> tuple[WeighedHost, ...]:
    """Returns the best ten hosts. `best`: indices into `rows`, best first."""
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
