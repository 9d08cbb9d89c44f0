"""Where a request goes: gather -> chain -> weigh -> choose -> consume, on a HostTable. No I/O, clock or randomness.

all hosts -> placement -> ignored, forced -> filters -> weighers -> the best -> one drawn of these -> consumes
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from minova.objects.diagnosis import FilterStep, WeighedHost
from minova.objects.request_spec import HostLimits, RequestSpec, Selection
from minova.scheduler.decide.chain import Memory, Rules, candidates
from minova.scheduler.decide.diagnosis import (
    BEST,
    LOST_WHEN_FOUND,
    LOST_WHEN_NOT,
    Step,
    Told,
    filter_steps,
    weighed_hosts,
)
from minova.scheduler.decide.preselection import resources_at, skips_filters
from minova.scheduler.filters import Filter
from minova.scheduler.hosts.table import HostState, HostTable, Rows
from minova.scheduler.weights import Floats, weigh

__all__ = ["Decision", "Rules", "best_first", "candidates", "decide", "with_group_member"]


_LIMITS = frozenset(HostLimits.__struct_fields__) - {"other"}


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`selections`: as in ScheduleAnswer; `found` fewer than asked for means no, and `error` says it."""

    selections: tuple[tuple[Selection, ...], ...]
    hosts: int
    found: int
    told: Told
    error: str | None = None

    @property
    def steps(self) -> tuple[FilterStep, ...]:
        return self.told.steps

    @property
    def weighed(self) -> tuple[WeighedHost, ...]:
        return self.told.weighed


class Choice(NamedTuple):
    """One instance's: the chosen row, and the next best after it."""

    row: int
    others: Sequence[int]


class Round(NamedTuple):
    """The way to one instance's choice, None if no host was left."""

    choice: Choice | None
    told: Told


def decide(
    table: HostTable, spec: RequestSpec, instance_uuids: Sequence[str], alternates: int, rules: Rules
) -> Decision:
    """A host for each of these like instances; each chosen row of the table consumes its instance."""
    choices: list[tuple[Selection, Choice]] = []
    rounds: list[Round] = []
    count = len(instance_uuids)
    memory: Memory | None = {} if count > 1 else None
    asked = spec
    table.begin()
    for index, uuid in enumerate(instance_uuids):
        rounds.append(_round(table, asked, alternates, rules, index, memory))
        choice = rounds[-1].choice
        if choice is None:
            break
        chosen = _selection(table, spec, choice.row, rules)
        choices.append((chosen, choice))
        if rules.trace:
            rules.trace(f"Selected host: {table.host(choice.row)!r}")
        limits = chosen.limits.numa_topology
        table.consume(choice.row, asked, uuid, resources=chosen.allocation, limits=limits, packing=rules.packing)
        asked = with_group_member(asked, chosen.host, uuid)
    # A "no" is explained by the round that failed, a "yes" by the first.
    told = (rounds[0] if len(choices) == count else rounds[-1]).told if rounds else Told()
    table.keep(told)
    return Decision(
        selections=_selections(table, spec, choices, alternates, rules),
        hosts=len(table),
        told=told,
        found=len(choices),
        error=None if len(choices) == count else _error(len(table), len(choices), count),
    )


def with_group_member(spec: RequestSpec, host: str, uuid: str) -> RequestSpec:
    """The request once `host` has its instance `uuid`: the next one finds it in the server group."""
    group = spec.instance_group
    if group is None:
        return spec
    members = group.members if uuid in group.members else (*group.members, uuid)
    hosts = group.hosts if host in group.hosts else (*group.hosts, host)
    return msgspec.structs.replace(spec, instance_group=msgspec.structs.replace(group, members=members, hosts=hosts))


def _error(hosts: int, found: int, count: int) -> str:
    if not hosts:
        return "No compute host is known."
    return "No host is left for it." if count == 1 else f"There are hosts for {found} of {count} instances."


def _round(
    table: HostTable, spec: RequestSpec, alternates: int, rules: Rules, index: int, memory: Memory | None
) -> Round:
    steps: list[Step] = []
    left = candidates(table, spec, rules, steps, index, memory)
    rows = left.nonzero()[0]
    if not len(rows):
        return Round(None, Told(lambda: filter_steps(table, steps, LOST_WHEN_NOT)))
    weighed = weigh(table, rows, spec, rules.weighers)
    best = best_first(weighed.total, max(BEST, rules.host_subset_size + alternates))
    if rules.trace:
        rules.trace(f"Filtered [{', '.join(repr(table.host(int(row))) for row in rows)}]")
        texts = [f"WeighedHost [host: {table.host(int(rows[i]))!r}, weight: {weighed.total[i]}]" for i in best]
        rules.trace(f"Weighed [{', '.join(texts)}]")
    choice = _choose(rows, best, weighed.total, rules)
    if index > 0:
        return Round(choice, Told())
    return Round(
        choice,
        Told(lambda: filter_steps(table, steps, LOST_WHEN_FOUND), lambda: weighed_hosts(table, rows, best, weighed)),
    )


# -- choose ------------------------------------------------------------------------------------------------------------


def best_first(total: Floats, most: int) -> Rows:
    """Indices of the `most` largest, descending; equal ones keep their order, as in Nova's stable sort."""
    if len(total) <= most:
        return np.argsort(-total, kind="stable")
    threshold = np.partition(total, len(total) - most)[len(total) - most]
    above = (total > threshold).nonzero()[0]
    equal = (total == threshold).nonzero()[0][: most - len(above)]
    return np.concatenate([above[np.argsort(-total[above], kind="stable")], equal])


def _choose(rows: Rows, best: Rows, total: Floats, rules: Rules) -> Choice:
    if rules.shuffle_best_same_weighed_hosts:
        best = _shuffled(best, (total == total[best[0]]).nonzero()[0], rules)
    order = [int(rows[i]) for i in best]
    size = min(rules.host_subset_size, len(order))
    row = order.pop(rules.draw(size) if size > 1 else 0)
    return Choice(row, order)


def _shuffled(best: Rows, equals: Rows, rules: Rules) -> Rows:
    """Those of `best` that weigh the same drawn from all that do, so that subset and alternates are random, too."""
    some = min(len(best), len(equals))
    drawn = equals.copy()
    for place in range(some):
        other = place + rules.draw(len(drawn) - place)
        drawn[[place, other]] = drawn[[other, place]]
    return np.concatenate([drawn[:some], best[some:]])


def _selections(
    table: HostTable, spec: RequestSpec, choices: Sequence[tuple[Selection, Choice]], alternates: int, rules: Rules
) -> tuple[tuple[Selection, ...], ...]:
    """Alternates are the next best; those that the request has filled itself come last, for they have less room."""
    taken = {choice.row for _, choice in choices}
    made: dict[int, Selection] = {choice.row: selection for selection, choice in choices}
    found = []
    for chosen, choice in choices:
        others = sorted(choice.others, key=lambda row: row in taken)[:alternates]
        for row in others:
            if row not in made:
                made[row] = _selection(table, spec, row, rules)
        found.append((chosen, *(made[row] for row in others)))
    return tuple(found)


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
    """How far the chosen host may fill up, by the filters that it has passed."""
    limits: dict[str, Any] = {}
    if not skips_filters(spec):
        rebuild = spec.is_rebuild
        for host_filter in rules.filters:
            if type(host_filter).limits is not Filter.limits and not (rebuild and not host_filter.applies_to(spec)):
                limits.update(host_filter.limits(host))
    other = {name: limits.pop(name) for name in [*limits] if name not in _LIMITS}
    return HostLimits(**limits, other=other)
