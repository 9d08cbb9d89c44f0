"""The base classes of filters. A filter judges the whole table (returning a mask) and one host (returning a reason or
None).

There are three kinds: `NumericFilter` yields checks, `ClassFilter` judges each distinct value once, and `PerHostFilter`
adapts a filter written for Nova (`host_passes(host_state, spec_obj)`). The README of the scheduler shows how to add
one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from minova.objects.requests.checks import Check, at_least, at_most, enough_free
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.nova_view import NovaHostState
from minova.scheduler.hosts.table import Hosts, HostState, HostTable, Mask, Rows

__all__ = [
    "BaseHostFilter",
    "Check",
    "ClassFilter",
    "Filter",
    "NumericFilter",
    "PerHostFilter",
    "Verdict",
    "at_least",
    "at_most",
    "enough_free",
]


# Values of a class column.
FEW_VALUES = 50
# Finding the values of so many remaining rows takes as long as judging one value.
ROWS_PER_VALUE = 1000


def _nothing_lacking(lost: Mask) -> dict[str, int]:
    return {}


class Verdict(NamedTuple):
    """Which rows pass, and why the others do not. The reasons must be read before the table changes.

    `applies` False: the request sets nothing that the filter checks, and every row passes.
    `tally` counts what the lost rows lack, if that does not reveal names of hosts.
    `kinds`: the reasons without their numbers, so that rows that fail in the same way have the same kind; None: the
    reasons themselves.
    """

    passed: Mask
    reasons: Callable[[Rows], list[str]]
    applies: bool = True
    tally: Callable[[Mask], dict[str, int]] = _nothing_lacking
    kinds: Callable[[Rows], list[str]] | None = None

    def reason(self, row: int) -> str:
        return self.reasons(np.array([row]))[0]

    def kinds_of(self, rows: Rows) -> list[str]:
        return self.reasons(rows) if self.kinds is None else self.kinds(rows)


class Filter:
    """`conf` is the configuration, for the filter's own options. `name` appears in log lines and diagnoses.

    RUN_ON_REBUILD: the filter also runs when a server is rebuilt on its host.
    `run_filter_once_per_request`: the verdict for the first instance of a request is used for the others.
    """

    RUN_ON_REBUILD = False
    run_filter_once_per_request = False

    def __init__(self, conf: Any) -> None:
        self.name = type(self).__name__

    def applies_to(self, spec: RequestSpec) -> bool:
        """Whether the filter runs for this request."""
        return self.RUN_ON_REBUILD or not spec.is_rebuild

    def runs_for(self, index: int) -> bool:
        """Whether the filter runs for the `index`-th instance of a request, counted from 0."""
        return index == 0 or not self.run_filter_once_per_request

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        """Judges the rows that are `left`. The verdict on other rows is ignored."""
        raise NotImplementedError

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        """Returns why this host does not pass, or None if it passes."""
        raise NotImplementedError

    def limits(self, host: HostState) -> dict[str, Any]:
        """Returns how far this filter lets the host fill up: fields of HostLimits, or names of the filter's own."""
        return {}


class NumericFilter(Filter):
    """Yields checks, from which the mask and the reasons are derived."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        raise NotImplementedError

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        return all_of(list(self.checks(hosts, spec)), len(hosts))

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        return "; ".join(check.reason() for check in self.checks(host, spec) if not check.passed) or None


class ClassFilter(Filter):
    """Judges each distinct value of the class column `of` once."""

    of: ClassVar[str]

    def asks(self, spec: RequestSpec) -> bool:
        """Whether the request sets anything that this filter checks. If not, every host passes."""
        return True

    def verdict(self, value: Any, spec: RequestSpec) -> str | None:
        raise NotImplementedError

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        if not self.asks(spec):
            return all_of([], len(hosts))
        values, ids = hosts.class_column(self.of)
        reasons = self._reasons(values, ids, left, spec)
        if all(reason is None for reason in reasons.values()):
            return Verdict(_all_rows(len(hosts)), lambda rows: [""] * len(rows), applies=False)
        passes = np.zeros(len(values), bool)
        passes[[i for i, reason in reasons.items() if reason is None]] = True
        return Verdict(passes[ids], lambda rows: [reasons[i] or "" for i in ids[rows].tolist()])

    def _reasons(
        self, values: Sequence[Any], ids: NDArray[np.int64], left: Mask, spec: RequestSpec
    ) -> dict[int, str | None]:
        """Returns the reasons by the number of the value. If there are few values, judges all of them, because finding
        the values of the remaining rows takes longer. If a value makes the filter raise, it may belong to a row that is
        no longer left: then judges only the values of the remaining rows.
        """
        if len(values) <= max(FEW_VALUES, len(left) // ROWS_PER_VALUE):
            try:
                return {i: self.verdict(value, spec) for i, value in enumerate(values)}
            except Exception:  # noqa: BLE001  - raised again below if a row that is left has the value
                pass
        present = np.flatnonzero(np.bincount(ids[left], minlength=len(values))).tolist()
        return {i: self.verdict(values[i], spec) for i in present}

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        return self.verdict(getattr(host, self.of), spec) if self.asks(spec) else None


class BaseHostFilter:
    """Base class of filters written for Nova: only the import changes. Override `host_passes` or `filter_all`.

    `conf` is the configuration.
    """

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False
    conf: Any = None

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        raise NotImplementedError

    def _filter_one(self, obj: Any, spec: Any) -> bool:
        return (spec.is_rebuild and not self.RUN_ON_REBUILD) or self.host_passes(obj, spec)

    def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> Any:
        for host_state in filter_obj_list:
            if self._filter_one(host_state, spec_obj):
                yield host_state

    def run_filter_for_index(self, index: int) -> bool:
        return index == 0 or not self.run_filter_once_per_request


class PerHostFilter(Filter):
    """Adapts a filter written for Nova. It gets the hosts that are left, with what earlier filters wrote on them."""

    def __init__(self, lifted: Any) -> None:
        self.name = type(lifted).__name__
        self._lifted = lifted

    def applies_to(self, spec: RequestSpec) -> bool:
        """Always true: the filter itself decides about rebuilds."""
        return True

    def runs_for(self, index: int) -> bool:
        return bool(self._lifted.run_filter_for_index(index))

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        states = [hosts.host(row).nova() for row in np.flatnonzero(left).tolist()]
        before = [dict(state.limits) for state in states]
        passed = np.zeros(len(hosts), bool)
        passed[[state.row for state in self._passing(states, spec)]] = True
        for state, old in zip(states, before, strict=True):
            if state.limits != old:
                state.written[self.name] = {k: v for k, v in state.limits.items() if k not in old or old[k] != v}
        return Verdict(passed, lambda rows: [f"{self.name} rejected the host"] * len(rows))

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        return None if self._passing([host.nova()], spec) else f"{self.name} rejected the host"

    def limits(self, host: HostState) -> dict[str, Any]:
        written: dict[str, Any] = host.nova().written.get(self.name, {})
        return written

    def _passing(self, states: list[NovaHostState], spec: RequestSpec) -> list[NovaHostState]:
        """As in Nova, None means that no host passes."""
        return list(self._lifted.filter_all(states, spec) or ())


def all_of(checks: Sequence[Check], length: int) -> Verdict:
    """All checks must pass. A row's reason joins the failed checks."""
    if not checks:
        return Verdict(_all_rows(length), lambda rows: [""] * len(rows), applies=False)
    passed = np.ones(length, bool)
    for check in checks:
        if check.passed is not True:
            passed &= check.passed

    def reasons(rows: Rows) -> list[str]:
        return [
            "; ".join(failures)
            for failures in _failures(checks, rows, length, lambda check, failed: check.reasons(failed))
        ]

    def kinds(rows: Rows) -> list[str]:
        by_row = _failures(checks, rows, length, lambda check, failed: [check.kind] * len(failed))
        return [", ".join(dict.fromkeys(failures)) for failures in by_row]

    return Verdict(passed, reasons, tally=lambda lost: _tally(checks, lost), kinds=kinds)


def _failures(
    checks: Sequence[Check], rows: Rows, length: int, texts: Callable[[Check, Rows], list[str]]
) -> Iterable[list[str]]:
    """Yields, for each row, the texts of the checks that it fails."""
    of_row: dict[int, list[str]] = {row: [] for row in rows.tolist()}
    for check in checks:
        failed = rows[~np.broadcast_to(check.passed, length)[rows]]
        for row, text in zip(failed.tolist(), texts(check, failed), strict=True):
            of_row[row].append(text)
    return of_row.values()


def _tally(checks: Sequence[Check], lost: Mask) -> dict[str, int]:
    """Counts each resource of which a host has too little. Counts other checks only for hosts that lack no resource."""
    counts: dict[str, int] = {}
    unexplained = lost.copy()
    for check in sorted(checks, key=lambda check: not check.compares_free):
        failed = (lost if check.compares_free else unexplained) & ~np.broadcast_to(check.passed, len(lost))
        if failed.any():
            counts[check.what] = int(np.count_nonzero(failed))
            unexplained = unexplained & ~failed
    return counts


@lru_cache(maxsize=8)
def _all_rows(length: int) -> Mask:
    every_row = np.ones(length, bool)
    every_row.flags.writeable = False
    return every_row
