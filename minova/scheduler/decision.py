"""Where a request goes: gather -> chain -> weigh -> choose -> consume, on a HostTable. No I/O, clock or randomness.

all hosts -> placement -> ignored, forced -> filters -> weighers -> the best -> one drawn of these -> consumes
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from minova import errors
from minova.objects.diagnosis import FilterStep, WeighedHost
from minova.objects.request_spec import HostLimits, RequestSpec, Selection
from minova.placement.candidates import room_checks
from minova.scheduler.diagnosis import BEST, LOST_WHEN_FOUND, LOST_WHEN_NOT, Step, filter_steps, weighed_hosts
from minova.scheduler.filters import Filter, Verdict, all_of
from minova.scheduler.host_table import HostTable, Mask, Rows
from minova.scheduler.weights import Floats, Weigher, weigh

# The gate before the filters: no room in the inventories.
PLACEMENT = "placement"

Trace = Callable[[str], None]


class Rules(NamedTuple):
    """How to decide. `draw(n)` gives one of 0..n-1; `trace` takes Nova's log lines, None when nobody reads them."""

    filters: Sequence[Filter]
    weighers: list[Weigher]
    host_subset_size: int
    shuffle_best_same_weighed_hosts: bool
    max_placement_results: int
    draw: Callable[[int], int]
    trace: Trace | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`selections`: as in ScheduleAnswer; `found` fewer than asked for means no, and `error` says it."""

    selections: tuple[tuple[Selection, ...], ...]
    hosts: int
    found: int
    steps: tuple[FilterStep, ...]
    weighed: tuple[WeighedHost, ...]
    error: str | None = None


class Choice(NamedTuple):
    """One instance's: the chosen row, and the next best after it."""

    row: int
    others: Sequence[int]


class Round(NamedTuple):
    """The way to one instance's choice, None if no host was left."""

    choice: Choice | None
    steps: tuple[FilterStep, ...]
    weighed: tuple[WeighedHost, ...]


def decide(
    table: HostTable, spec: RequestSpec, instance_uuids: Sequence[str], alternates: int, rules: Rules
) -> Decision:
    """A host for each of these like instances; each chosen row of the table consumes its instance."""
    choices: list[Choice] = []
    rounds: list[Round] = []
    count = len(instance_uuids)
    for uuid in instance_uuids:
        rounds.append(_round(table, spec, alternates, rules, explain=not rounds))
        choice = rounds[-1].choice
        if choice is None:
            break
        choices.append(choice)
        if rules.trace:
            rules.trace(f"Selected host: {table.host(choice.row)!r}")
        table.consume(choice.row, spec, uuid)
        spec = joined(spec, table.records[choice.row].host, uuid)
    # A "no" is explained by the round that failed, a "yes" by the first.
    told = rounds[0] if len(choices) == count else rounds[-1]
    return Decision(
        selections=_selections(table, spec, choices, alternates, rules),
        hosts=len(table),
        steps=told.steps,
        weighed=told.weighed,
        found=len(choices),
        error=None if len(choices) == count else _error(len(table), len(choices), count),
    )


def joined(spec: RequestSpec, host: str, uuid: str) -> RequestSpec:
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


def _round(table: HostTable, spec: RequestSpec, alternates: int, rules: Rules, *, explain: bool) -> Round:
    steps: list[Step] = []
    left = candidates(table, spec, rules, steps)
    rows = left.nonzero()[0]
    if not len(rows):
        return Round(None, filter_steps(table, steps, LOST_WHEN_NOT), ())
    weighed = weigh(table, rows, spec, rules.weighers)
    best = best_first(weighed.total, max(BEST, rules.host_subset_size + alternates))
    if rules.trace:
        rules.trace(f"Filtered [{', '.join(repr(table.host(int(row))) for row in rows)}]")
        texts = [f"WeighedHost [host: {table.host(int(rows[i]))!r}, weight: {weighed.total[i]}]" for i in best]
        rules.trace(f"Weighed [{', '.join(texts)}]")
    choice = _choose(rows, best, weighed.total, rules)
    if not explain:
        return Round(choice, (), ())
    return Round(choice, filter_steps(table, steps, LOST_WHEN_FOUND), weighed_hosts(table, rows, best, weighed))


# -- chain -------------------------------------------------------------------------------------------------------------


def candidates(table: HostTable, spec: RequestSpec, rules: Rules, steps: list[Step]) -> Mask:
    """Every gate and filter in its order; stops when nobody is left."""
    left: Mask = np.ones(len(table), bool)
    for name, verdict in _gates(table, spec):
        left = _step(steps, name, left, verdict)
    forced = bool(spec.force_hosts or spec.force_nodes)
    if not forced:
        left = _limited(steps, left, rules.max_placement_results)
    trace = rules.trace
    if trace:
        trace(f"Starting with {np.count_nonzero(left)} host(s)")
    for sieve in () if forced else rules.filters:
        if not left.any():
            break
        if not sieve.runs_for(spec, 0):
            continue
        left = _step(steps, sieve.name, left, _verdict(sieve, table, left, spec))
        if trace:
            trace(f"Filter {sieve.name} returned {np.count_nonzero(left)} host(s)")
    return left


def _verdict(sieve: Filter, table: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
    """A filter that raises fails the request: to pass or to drop the hosts silently would be worse."""
    try:
        return sieve.sieve(table, left, spec)
    except errors.MinovaError:
        raise
    except Exception as error:
        raise errors.MinovaError(f"{sieve.name} failed: {error!r}") from error


def _step(steps: list[Step], name: str, left: Mask, verdict: Verdict) -> Mask:
    after = left & verdict.passed
    steps.append(Step(name, left, after, verdict.reasons))
    return after


def _gates(table: HostTable, spec: RequestSpec) -> list[tuple[str, Verdict]]:
    rooms = [check for name, asked in spec.resources.items() for check in room_checks(name, table.room(name), asked)]
    gates = [(PLACEMENT, all_of(rooms, len(table)))]
    if spec.ignore_hosts:
        ignored = {host.lower() for host in spec.ignore_hosts}
        gates.append(("ignore_hosts", _named(table, lambda host, node: host.lower() not in ignored, "ignored")))
    if spec.force_hosts:
        forced = {host.lower() for host in spec.force_hosts}
        reason = f"not one of the forced hosts {', '.join(spec.force_hosts)}"
        gates.append(("force_hosts", _named(table, lambda host, node: host.lower() in forced, reason)))
    if spec.force_nodes:
        reason = f"not one of the forced nodes {', '.join(spec.force_nodes)}"
        gates.append(("force_nodes", _named(table, lambda host, node: node in spec.force_nodes, reason)))
    return gates


def _named(table: HostTable, passes: Callable[[str, str], bool], reason: str) -> Verdict:
    passed = np.fromiter((passes(record.host, record.node) for record in table.records), bool, len(table))
    return Verdict(passed, lambda lost: [reason] * len(lost))


def _limited(steps: list[Step], left: Mask, most: int) -> Mask:
    """Nova looks at no more candidates than `max_placement_results`."""
    rows = left.nonzero()[0]
    if len(rows) <= most:
        return left
    passed = left.copy()
    passed[rows[most:]] = False
    reason = f"beyond the first {most} candidates ([scheduler] max_placement_results)"
    return _step(steps, "max_placement_results", left, Verdict(passed, lambda lost: [reason] * len(lost)))


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
    order = [int(rows[i]) for i in best]
    if rules.shuffle_best_same_weighed_hosts:
        equals = rows[(total == total[best[0]]).nonzero()[0]]
        first = int(equals[rules.draw(len(equals))])
        order = [first, *(row for row in order if row != first)]
    size = min(rules.host_subset_size, len(order))
    row = order.pop(rules.draw(size) if size > 1 else 0)
    return Choice(row, order)


def _selections(
    table: HostTable, spec: RequestSpec, choices: Sequence[Choice], alternates: int, rules: Rules
) -> tuple[tuple[Selection, ...], ...]:
    """Alternates are the next best; those that the request has filled itself come last, for they have less room."""
    chosen = {choice.row for choice in choices}
    made: dict[int, Selection] = {}

    def selection(row: int) -> Selection:
        if row not in made:
            made[row] = _selection(table, spec, row, rules)
        return made[row]

    found = []
    for choice in choices:
        others = sorted(choice.others, key=lambda row: row in chosen)[:alternates]
        found.append(tuple(selection(row) for row in (choice.row, *others)))
    return tuple(found)


def _selection(table: HostTable, spec: RequestSpec, row: int, rules: Rules) -> Selection:
    host, record = table.host(row), table.records[row]
    limits: dict[str, float] = {}
    if not (spec.force_hosts or spec.force_nodes):
        for sieve in rules.filters:
            limits.update(sieve.limits(host))
    return Selection(
        host=record.host,
        node=record.node,
        provider_uuid=record.uuid,
        allocation=spec.resources,
        limits=HostLimits(**limits),  # type: ignore[arg-type]
    )
