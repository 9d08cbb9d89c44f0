"""Decides the hosts of a request: chain -> weigh -> choose -> consume, on a HostTable. No I/O, clock or randomness.

all hosts -> preselection -> filters -> weighers -> the best -> one drawn of these -> consumes
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from minova.objects.requests.diagnosis import FilterStep, WeighedHost
from minova.objects.requests.request_spec import HostLimits, KeptResources, RequestSpec, Selection
from minova.scheduler.decide.chain import ChainRun, Rules
from minova.scheduler.decide.diagnosis import BEST, LOST_WHEN_FOUND, LOST_WHEN_NOT, filter_steps, weighed_hosts
from minova.scheduler.decide.preselection import resources_at, skips_filters
from minova.scheduler.filters import Filter
from minova.scheduler.hosts.table import HostState, HostTable, Rows
from minova.scheduler.weights import Floats, TotalWeights, weigh

_LIMITS = frozenset(HostLimits.__struct_fields__) - {"other"}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`selections`: as in ScheduleAnswer. If `found` is fewer than requested, `error` is set.

    `steps` and `weighed` are the record: of the instance that found no host if there is an error, else of the first
    instance.
    """

    selections: tuple[tuple[Selection, ...], ...]
    hosts: int
    found: int
    steps: tuple[FilterStep, ...] = ()
    weighed: tuple[WeighedHost, ...] = ()
    error: str | None = None


class Choice(NamedTuple):
    """The choice for one instance: the chosen row, and the next best rows after it."""

    row: int
    others: Sequence[int]


class ChosenHost(NamedTuple):
    """A choice, and the Selection that was made of its row before the row consumed the instance."""

    choice: Choice
    selection: Selection


def decide(
    table: HostTable, spec: RequestSpec, instance_uuids: Sequence[str], alternates: int, rules: Rules
) -> Decision:
    """Decides a host for each of these identical instances. The chosen row of the table consumes its instance."""
    chosen_hosts: list[ChosenHost] = []
    steps: tuple[FilterStep, ...] = ()
    weighed: tuple[WeighedHost, ...] = ()
    count = len(instance_uuids)
    run, of_group = ChainRun(table, rules, count), spec
    table.begin()
    kept_at = _row_of_kept(table, spec.kept)
    if spec.kept is not None and kept_at is not None:
        table.count_kept(kept_at, spec.kept, -1)
    for index, uuid in enumerate(instance_uuids):
        rows = np.flatnonzero(run.candidates(of_group, index))
        if not len(rows):
            steps, weighed = filter_steps(table, run.steps, LOST_WHEN_NOT), ()
            break
        weights = weigh(table, rows, of_group, rules.weighers)
        best = best_first(weights.total, max(BEST, rules.host_subset_size + alternates))
        if index == 0:
            steps = filter_steps(table, run.steps, LOST_WHEN_FOUND)
            weighed = weighed_hosts(table, rows, best, weights)
        if rules.log_debug:
            _log_weighed(table, rows, best, weights, rules)
        choice = _choose(rows, best, weights.total, rules)
        chosen = _selection(table, spec, choice.row, rules)
        chosen_hosts.append(ChosenHost(choice, chosen))
        if rules.log_debug:
            rules.log_debug(f"Selected host: {table.host(choice.row)!r}")
        limits = chosen.limits.numa_topology
        table.consume(choice.row, of_group, uuid, resources=chosen.allocation, limits=limits, packing=rules.packing)
        of_group = with_group_member(of_group, chosen.host, uuid)
    selections = _selections(table, spec, chosen_hosts, alternates, rules)
    if spec.kept is not None and kept_at is not None and kept_at not in {entry.choice.row for entry in chosen_hosts}:
        table.count_kept(kept_at, spec.kept, 1)  # the next request of this batch finds it used
    return Decision(
        selections=selections,
        hosts=len(table),
        steps=steps,
        weighed=weighed,
        found=len(chosen_hosts),
        error=None if len(chosen_hosts) == count else _error(len(table), len(chosen_hosts), count),
    )


def with_group_member(spec: RequestSpec, host: str, uuid: str) -> RequestSpec:
    """Returns the request after `host` has received its instance `uuid`: the next instance sees it
    in the server group.
    """
    group = spec.instance_group
    if group is None:
        return spec
    members = group.members if uuid in group.members else (*group.members, uuid)
    hosts = group.hosts if host in group.hosts else (*group.hosts, host)
    return msgspec.structs.replace(spec, instance_group=msgspec.structs.replace(group, members=members, hosts=hosts))


def _error(hosts: int, selected: int, count: int) -> str:
    if not hosts:
        return "No compute host is known."
    return "No host is left for it." if count == 1 else f"There are hosts for {selected} of {count} instances."


def _log_weighed(table: HostTable, rows: Rows, best: Rows, weights: TotalWeights, rules: Rules) -> None:
    assert rules.log_debug is not None
    rules.log_debug(f"Filtered [{', '.join(repr(table.host(int(row))) for row in rows)}]")
    texts = [f"WeighedHost [host: {table.host(int(rows[i]))!r}, weight: {weights.total[i]}]" for i in best]
    rules.log_debug(f"Weighed [{', '.join(texts)}]")


# -- choose ------------------------------------------------------------------------------------------------------------


def best_first(total: Floats, limit: int) -> Rows:
    """Returns the indices of the `limit` largest values, descending. Equal values keep their order, as in Nova's stable
    sort.
    """
    if len(total) <= limit:
        return np.argsort(-total, kind="stable")
    threshold = np.partition(total, len(total) - limit)[len(total) - limit]
    above = np.flatnonzero(total > threshold)
    equal = np.flatnonzero(total == threshold)[: limit - len(above)]
    return np.concatenate([above[np.argsort(-total[above], kind="stable")], equal])


def _choose(rows: Rows, best: Rows, total: Floats, rules: Rules) -> Choice:
    if rules.shuffle_best_same_weighed_hosts:
        best = _shuffled(best, np.flatnonzero(total == total[best[0]]), rules)
    order = [int(rows[i]) for i in best]
    size = min(rules.host_subset_size, len(order))
    row = order.pop(rules.draw(size) if size > 1 else 0)
    return Choice(row, order)


def _shuffled(best: Rows, equals: Rows, rules: Rules) -> Rows:
    """Replaces the rows of `best` with equal weight by random draws from all rows of that weight, so that subset and
    alternates are random, too.
    """
    some = min(len(best), len(equals))
    drawn = equals.copy()
    for place in range(some):
        other = place + rules.draw(len(drawn) - place)
        drawn[[place, other]] = drawn[[other, place]]
    return np.concatenate([drawn[:some], best[some:]])


def _selections(
    table: HostTable, spec: RequestSpec, chosen: Sequence[ChosenHost], alternates: int, rules: Rules
) -> tuple[tuple[Selection, ...], ...]:
    """Alternates are the next best hosts. Hosts that the request itself uses come last, because they have less free
    capacity.
    """
    chosen_rows = {entry.choice.row for entry in chosen}
    by_row = {entry.choice.row: entry.selection for entry in chosen}
    selections = []
    for choice, selection in chosen:
        others = sorted(choice.others, key=lambda row: row in chosen_rows)[:alternates]
        for row in others:
            if row not in by_row:
                by_row[row] = _selection(table, spec, row, rules)
        selections.append(
            tuple(_beyond_kept(candidate, spec.kept) for candidate in (selection, *(by_row[row] for row in others)))
        )
    return tuple(selections)


def _row_of_kept(table: HostTable, kept: KeptResources | None) -> int | None:
    if kept is None:
        return None
    rows = table.rows_of_host(kept.host.lower())
    return next(
        (row for row in rows if (table.records[row].host, table.records[row].node) == (kept.host, kept.node)), None
    )


def _beyond_kept(selection: Selection, kept: KeptResources | None) -> Selection:
    """Returns the selection with what is to be claimed beside what the server keeps on this node."""
    if kept is None or (selection.host, selection.node) != (kept.host, kept.node):
        return selection
    more = {name: amount - kept.resources.get(name, 0) for name, amount in selection.allocation.items()}
    return msgspec.structs.replace(selection, allocation={name: amount for name, amount in more.items() if amount > 0})


def _selection(table: HostTable, spec: RequestSpec, row: int, rules: Rules) -> Selection:
    host, record = table.host(row), table.records[row]
    return Selection(
        host=record.host,
        node=record.node,
        provider_uuid=record.uuid,
        allocation=dict(resources_at(host, spec)),
        limits=limits_at(host, spec, rules),
    )


def limits_at(host: HostState, spec: RequestSpec, rules: Rules) -> HostLimits:
    """Returns how far the chosen host may fill up, according to the filters that it has passed."""
    limits: dict[str, Any] = {}
    if not skips_filters(spec):
        rebuild = spec.is_rebuild
        for host_filter in rules.filters:
            if type(host_filter).limits is not Filter.limits and not (rebuild and not host_filter.applies_to(spec)):
                limits.update(host_filter.limits(host))
    other = {name: limits.pop(name) for name in [*limits] if name not in _LIMITS}
    return HostLimits(**limits, other=other)
