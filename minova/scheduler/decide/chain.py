"""From all hosts to those that pass: gates, then filters, in pages of `max_placement_results` candidates."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from minova import errors
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.diagnosis import Step
from minova.scheduler.decide.preselection import preselection_steps, skips_filters
from minova.scheduler.filters import Filter, Verdict
from minova.scheduler.hosts.table import HostTable, Mask
from minova.scheduler.weights import Weigher

Log = Callable[[str], None]
PAGE = "max_placement_results"
# Requests with one of these hints look at every candidate, as in Nova: the host they speak of may be any.
WHOLE = frozenset(("group", "same_host", "different_host"))


class Rules(NamedTuple):
    """How to decide. `draw(n)` gives one of 0..n-1; `trace` takes Nova's log lines, None when nobody reads them, and
    `say` those about hosts that the request names. `one_cell`: a requested cell leaves out the hosts of others.
    `packing`: [compute] packing_host_numa_cells_allocation_strategy.
    """

    filters: Sequence[Filter]
    weighers: list[Weigher]
    host_subset_size: int
    shuffle_best_same_weighed_hosts: bool
    max_placement_results: int
    draw: Callable[[int], int]
    trace: Log | None = None
    say: Log | None = None
    one_cell: bool = False
    packing: bool = False


class Once(NamedTuple):
    """What a filter that is asked once per request has said: of these rows, and who passed."""

    judged: Mask
    passed: Mask


Memory = dict[Filter, Once]


def candidates(
    table: HostTable, spec: RequestSpec, rules: Rules, steps: list[Step], index: int = 0, memory: Memory | None = None
) -> Mask:
    """Every gate and filter in its order; stops when nobody is left.

    `index` counts the instances of the request from 0; `memory` is what its filters said of those before, for those that come.
    """
    left: Mask = np.ones(len(table), bool)
    for name, verdict in preselection_steps(table, spec, one_cell=rules.one_cell, say=rules.say):
        left = _step(steps, name, left, verdict)
    if skips_filters(spec):
        return _filtered(table, spec, rules._replace(filters=()), steps, left, index, None)
    return _paged(table, spec, rules, steps, left, index, memory)


def _paged(
    table: HostTable, spec: RequestSpec, rules: Rules, steps: list[Step], left: Mask, index: int, memory: Memory | None
) -> Mask:
    """The first page as in Nova. If nobody there passes, all the others at once, of which the first page that has
    somebody counts: that is what going on page by page would find.
    """
    most, rows = rules.max_placement_results, left.nonzero()[0]
    if not 0 < most < len(rows) or WHOLE.intersection(spec.scheduler_hints):
        return _filtered(table, spec, rules, steps, left, index, memory)
    filters_begin = len(steps)
    reason = f"beyond the first {most} candidates ([scheduler] {PAGE})"
    first = np.zeros(len(table), bool)
    first[rows[:most]] = True
    found = _filtered(table, spec, rules, steps, first, index, memory)
    if found.any():
        steps.insert(filters_begin, _beyond(left, first, reason))
        return found
    rest = _filtered(table, spec, rules, steps, left & ~first, index, memory)
    pages = np.full(len(table), len(rows))
    pages[rows] = np.arange(len(rows)) // most
    kept: Mask = rest & (pages == pages[rest].min(initial=len(rows)))
    if kept.sum() < rest.sum():
        steps.append(_beyond(rest, kept, reason))
    return kept


def _beyond(before: Mask, after: Mask, reason: str) -> Step:
    return Step(PAGE, before, after, lambda lost: [reason] * len(lost))


def _filtered(
    table: HostTable, spec: RequestSpec, rules: Rules, steps: list[Step], left: Mask, index: int, memory: Memory | None
) -> Mask:
    trace = rules.trace
    if trace:
        trace(f"Starting with {np.count_nonzero(left)} host(s)")
    rebuild, anybody = spec.is_rebuild, left.any()
    for host_filter in rules.filters:
        if not anybody:
            break
        if rebuild and not host_filter.applies_to(spec):
            continue
        verdict = _verdict(host_filter, table, left, spec, index, memory)
        left = _step(steps, host_filter.name, left, verdict)
        if verdict.asked:
            anybody = left.any()
        if trace:
            trace(f"Filter {host_filter.name} returned {np.count_nonzero(left)} host(s)")
    return left


def _verdict(
    host_filter: Filter, table: HostTable, left: Mask, spec: RequestSpec, index: int, memory: Memory | None
) -> Verdict:
    """A filter that is not asked again has said it for the first instance, save of hosts that it was not asked about."""
    if host_filter.runs_for(index):
        verdict = _said(host_filter, table, left, spec)
        if memory is not None and not host_filter.runs_for(index + 1):
            memory[host_filter] = Once(left.copy(), left & verdict.passed)
        return verdict
    memory = {} if memory is None else memory
    known = memory.get(host_filter, Once(np.zeros(len(table), bool), np.zeros(len(table), bool)))
    new = left & ~known.judged
    if new.any():
        known = Once(known.judged | new, known.passed | (new & _said(host_filter, table, new, spec).passed))
        memory[host_filter] = known
    return Verdict(known.passed, lambda rows: [f"{host_filter.name} refused it for the first instance"] * len(rows))


def _said(host_filter: Filter, table: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
    """A filter that raises fails the request: to pass or to drop the hosts silently would be worse."""
    try:
        return host_filter.filter_table(table, left, spec)
    except errors.MinovaError:
        raise
    except Exception as error:
        raise errors.MinovaError(f"{host_filter.name} failed: {error!r}") from error


def _step(steps: list[Step], name: str, left: Mask, verdict: Verdict) -> Mask:
    after = left & verdict.passed if verdict.asked else left
    steps.append(Step(name, left, after, verdict.reasons, verdict.tally))
    return after
