"""Selects the hosts that pass preselection and filters, in pages of `max_placement_results` candidates."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from minova import errors
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.preselection import preselection_steps, skips_filters
from minova.scheduler.filters import Filter, Verdict
from minova.scheduler.hosts.table import HostTable, Mask, Rows
from minova.scheduler.weights import Weigher

Log = Callable[[str], None]
PAGE = "max_placement_results"
# Requests with one of these hints examine all candidates, as in Nova: the hint may name a host of any page.
UNPAGED_HINTS = frozenset(("group", "same_host", "different_host"))


class Rules(NamedTuple):
    """The rules of a decision. `draw(n)` returns one of 0..n-1.

    `log_debug` gets Nova's log lines, `log_info` those about hosts that the request names; None: the level is off.
    `one_cell`: a requested cell excludes the hosts of other cells.
    `packing`: [compute] packing_host_numa_cells_allocation_strategy.
    """

    filters: Sequence[Filter]
    weighers: list[Weigher]
    host_subset_size: int
    shuffle_best_same_weighed_hosts: bool
    max_placement_results: int
    draw: Callable[[int], int]
    log_debug: Log | None = None
    log_info: Log | None = None
    one_cell: bool = False
    packing: bool = False


class Step(NamedTuple):
    """One step of a run: the rows before and after it, and the verdict, which holds the reasons."""

    name: str
    before: Mask
    after: Mask
    verdict: Verdict


class FirstVerdict(NamedTuple):
    """The verdict of a filter that runs once per request: the rows that it has judged, and the rows that passed."""

    judged: Mask
    passed: Mask


class ChainRun:
    """The run of one request through preselection and filters, for each of its `instances` in turn.

    `steps` are those of the last instance. Raises MinovaError if a filter fails: to pass or drop its hosts silently
    would be worse.
    """

    def __init__(self, table: HostTable, rules: Rules, instances: int = 1) -> None:
        self.steps: list[Step] = []
        self._table = table
        self._rules = rules
        self._instances = instances
        self._first_verdicts: dict[Filter, FirstVerdict] = {}

    def candidates(self, spec: RequestSpec, index: int = 0) -> Mask:
        """Returns the hosts that pass every step for the `index`-th instance, counted from 0."""
        table, rules = self._table, self._rules
        self.steps = []
        remaining: Mask = np.ones(len(table), bool)
        for name, verdict in preselection_steps(table, spec, one_cell=rules.one_cell, log=rules.log_info):
            remaining = self._add_step(name, remaining, verdict)
        if skips_filters(spec):
            return self._apply_filters((), remaining, spec, index)
        page, rows = rules.max_placement_results, np.flatnonzero(remaining)
        if not 0 < page < len(rows) or UNPAGED_HINTS.intersection(spec.scheduler_hints):
            return self._apply_filters(rules.filters, remaining, spec, index)
        # The first page as in Nova. If no host of it passes, judge all other candidates at once and keep the hosts of
        # the first page on which any passes. The result is the same as judging page by page.
        filters_begin = len(self.steps)
        first_page = np.zeros(len(table), bool)
        first_page[rows[:page]] = True
        passed = self._apply_filters(rules.filters, first_page, spec, index)
        if passed.any():
            self.steps.insert(filters_begin, _beyond_page(remaining, first_page, page))
            return passed
        return self._first_page_of(self._apply_filters(rules.filters, remaining & ~first_page, spec, index), rows)

    def _first_page_of(self, passed: Mask, candidates: Rows) -> Mask:
        page = self._rules.max_placement_results
        pages = np.full(len(passed), len(candidates))
        pages[candidates] = np.arange(len(candidates)) // page
        rows_of_page: Mask = passed & (pages == pages[passed].min(initial=len(candidates)))
        if rows_of_page.sum() < passed.sum():
            self.steps.append(_beyond_page(passed, rows_of_page, page))
        return rows_of_page

    def _apply_filters(self, filters: Sequence[Filter], left: Mask, spec: RequestSpec, index: int) -> Mask:
        """Stops when no host is left."""
        log, rebuild, any_left = self._rules.log_debug, spec.is_rebuild, left.any()
        if log:
            log(f"Starting with {np.count_nonzero(left)} host(s)")
        try:
            for host_filter in filters:
                if not any_left:
                    break
                if rebuild and not host_filter.applies_to(spec):
                    continue
                if host_filter.runs_for(index):
                    verdict = host_filter.filter_table(self._table, left, spec)
                    self._remember(host_filter, left, verdict, index)
                else:
                    verdict = self._remembered(host_filter, left, spec)
                left = self._add_step(host_filter.name, left, verdict)
                if verdict.applies:
                    any_left = left.any()
                if log:
                    log(f"Filter {host_filter.name} returned {np.count_nonzero(left)} host(s)")
        except errors.MinovaError:
            raise
        except Exception as error:
            raise errors.MinovaError(f"{host_filter.name} failed: {error!r}") from error
        return left

    def _add_step(self, name: str, left: Mask, verdict: Verdict) -> Mask:
        after = left & verdict.passed if verdict.applies else left
        self.steps.append(Step(name, left, after, verdict))
        return after

    # -- filters that run once per request ------------------------------------------------------------------------------

    def _remember(self, host_filter: Filter, judged: Mask, verdict: Verdict, index: int) -> None:
        if index + 1 < self._instances and not host_filter.runs_for(index + 1):
            self._first_verdicts[host_filter] = FirstVerdict(judged, judged & verdict.passed)

    def _remembered(self, host_filter: Filter, left: Mask, spec: RequestSpec) -> Verdict:
        """Returns the verdict for the first instance. Judges only hosts that were not judged then."""
        nothing = np.zeros(len(left), bool)
        verdict = self._first_verdicts.get(host_filter, FirstVerdict(nothing, nothing))
        new = left & ~verdict.judged
        if new.any():
            passed = new & host_filter.filter_table(self._table, new, spec).passed
            verdict = FirstVerdict(verdict.judged | new, verdict.passed | passed)
            self._first_verdicts[host_filter] = verdict
        return Verdict(
            verdict.passed, lambda rows: [f"{host_filter.name} refused it for the first instance"] * len(rows)
        )


def _beyond_page(before: Mask, after: Mask, page: int) -> Step:
    reason = f"beyond the first {page} candidates ([scheduler] {PAGE})"
    return Step(PAGE, before, after, Verdict(after, lambda lost: [reason] * len(lost)))
