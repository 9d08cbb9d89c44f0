"""The steps before any filter: Placement's candidates, and the hosts that the request names. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from minova.objects.network.physical_networks import trait_of
from minova.objects.requests.checks import Check
from minova.objects.requests.request_spec import Destination, PlacementFilter, RequestSpec
from minova.placement.limits.inventory_checks import capacity_checks
from minova.scheduler.filters import Verdict, all_of
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.hosts.table import ClassColumn, HostState, HostTable, Mask, Rows

# The first step: inventories with enough free, and providers with the traits and aggregates of the request.
PLACEMENT = "placement"

Log = Callable[[str], None]


class PreselectionStep(NamedTuple):
    name: str
    verdict: Verdict


def preselection_steps(
    table: HostTable, spec: RequestSpec, *, one_cell: bool, log: Log | None
) -> Iterator[PreselectionStep]:
    """Yields the steps in Nova's order. `log` gets Nova's lines about the hosts that the request names. `one_cell`: see
    Rules.
    """
    yield PreselectionStep(PLACEMENT, placement_verdict(table, spec))
    destination = spec.requested_destination
    if destination is not None:
        if one_cell and destination.cell is not None and not destination.allow_cross_cell_move:
            passed = table.by_class("cell_uuid", lambda cell: cell == destination.cell)
            yield PreselectionStep(
                "requested_cell", _one_reason(passed, f"not in the requested cell {destination.cell}")
            )
        if destination.host is not None or destination.node is not None:
            yield _requested_destination(table, destination, log)
    if spec.ignore_hosts:
        yield _ignored(table, spec.ignore_hosts, log)
    if spec.force_hosts:
        yield _forced_hosts(table, spec.force_hosts, log)
    if spec.force_nodes:
        yield _forced_nodes(table, spec.force_nodes, log)


def skips_filters(spec: RequestSpec) -> bool:
    """Forced hosts are not filtered, unless the request says that it is a check of that host."""
    return bool(spec.force_hosts or spec.force_nodes) and not spec.scheduler_hints.get("_nova_check_type")


# -- Placement ---------------------------------------------------------------------------------------------------------


class PlacementQuery(NamedTuple):
    """The resources that a provider must have free, and its traits and aggregates."""

    resources: Mapping[str, int]
    placement: PlacementFilter


def placement_verdict(table: HostTable, spec: RequestSpec) -> Verdict:
    """Passes the providers that meet the first query, or the fallback if the request has one."""
    verdict = _query_verdict(table, _first_query(spec))
    if spec.fallback is None:
        return verdict
    second = _query_verdict(table, _fallback_query(spec, spec.fallback))

    def reasons(rows: Rows) -> list[str]:
        both = zip(verdict.reasons(rows), second.reasons(rows), strict=True)
        return [first if first == other else f"{first}; and as second choice: {other}" for first, other in both]

    def kinds(rows: Rows) -> list[str]:
        both = zip(verdict.kinds_of(rows), second.kinds_of(rows), strict=True)
        return [first if first == other else f"{first}, and as second choice: {other}" for first, other in both]

    return Verdict(
        verdict.passed | second.passed,
        reasons,
        tally=lambda lost: verdict.tally(lost) | second.tally(lost),
        kinds=kinds,
    )


def resources_at(host: HostState, spec: RequestSpec) -> Mapping[str, int]:
    """Returns what an instance takes from this candidate: the resources of the first query if the candidate meets it,
    else of the fallback.
    """
    if spec.fallback is None or _query_refusal(host, _first_query(spec)) is None:
        return spec.resources
    return _fallback_query(spec, spec.fallback).resources


class RowResources(NamedTuple):
    """Rows, and what an instance takes from each of them."""

    rows: Rows
    resources: Mapping[str, int]


def resources_of_rows(table: HostTable, rows: Rows, spec: RequestSpec) -> list[RowResources]:
    """As `resources_at`, for many candidates."""
    if spec.fallback is None:
        return [RowResources(rows, spec.resources)]
    first = _query_verdict(table, _first_query(spec)).passed[rows]
    fallback = _fallback_query(spec, spec.fallback)
    return [RowResources(rows[first], spec.resources), RowResources(rows[~first], fallback.resources)]


def _first_query(spec: RequestSpec) -> PlacementQuery:
    return PlacementQuery(spec.resources, spec.placement)


def _fallback_query(spec: RequestSpec, fallback: PlacementFilter) -> PlacementQuery:
    return PlacementQuery(spec.resources if fallback.resources is None else fallback.resources, fallback)


def _inventory_checks(hosts: Any, resources: Mapping[str, int]) -> list[Check]:
    return [
        check for name, amount in resources.items() for check in capacity_checks(name, hosts.inventory(name), amount)
    ]


def _query_verdict(table: HostTable, query: PlacementQuery) -> Verdict:
    inventories = all_of(_inventory_checks(table, query.resources), len(table))
    tests = list(_provider_checks(query.placement))
    if not tests:
        return inventories
    passed = inventories.passed.copy()
    properties = {what: _mask_by_values(table, columns, refusal) for what, columns, refusal in tests}
    for mask in properties.values():
        passed &= mask

    def tally(lost: Mask) -> dict[str, int]:
        counts = {what: int(np.count_nonzero(lost & ~mask)) for what, mask in properties.items()}
        return inventories.tally(lost) | {what: count for what, count in counts.items() if count}

    def reasons(rows: Rows) -> list[str]:
        return [_query_refusal(table.host(row), query) or "" for row in rows.tolist()]

    def kinds(rows: Rows) -> list[str]:
        failures = (_query_failures(table.host(row), query) for row in rows.tolist())
        return [", ".join(dict.fromkeys(failure.kind for failure in row_failures)) for row_failures in failures]

    return Verdict(passed, reasons, tally=tally, kinds=kinds)


def _mask_by_values(table: HostTable, names: Sequence[str], refusal: Callable[..., str | None]) -> Mask:
    """Returns the rows that pass. Judges each combination of values of these class columns once."""
    columns = [table.class_column(name) for name in names]
    keys, size = np.zeros(len(table), np.int64), 1
    for column in columns:
        keys, size = keys * len(column.values) + column.ids, size * len(column.values)
    if size <= 2 * len(table):
        numbers = combinations = np.flatnonzero(np.bincount(keys, minlength=size))
    else:
        combinations, keys = np.unique(keys, return_inverse=True)
        numbers, size = np.arange(len(combinations)), len(combinations)
    passes = np.zeros(size, bool)
    for number, combination in zip(numbers.tolist(), combinations.tolist(), strict=True):
        passes[number] = refusal(*_values(columns, combination)) is None
    return passes[keys]


def _values(columns: Sequence[ClassColumn], combination: int) -> list[Any]:
    values = []
    for column in reversed(columns):
        combination, number = divmod(combination, len(column.values))
        values.append(column.values[number])
    return values[::-1]


class PreselectionFailure(NamedTuple):
    """A reason with its numbers, and without them."""

    reason: str
    kind: str


def _query_failures(host: HostState, query: PlacementQuery) -> list[PreselectionFailure]:
    checks = _inventory_checks(host, query.resources)
    failures = [PreselectionFailure(check.reason(), check.kind) for check in checks if not check.passed]
    for _, columns, refusal in _provider_checks(query.placement):
        reason = refusal(*(getattr(host, name) for name in columns))
        if reason is not None:
            failures.append(PreselectionFailure(reason, reason))
    return failures


def _query_refusal(host: HostState, query: PlacementQuery) -> str | None:
    return "; ".join(failure.reason for failure in _query_failures(host, query)) or None


class ProviderCheck(NamedTuple):
    """A check of values of class columns. `what` names the mismatch for users, who must not see names of hosts."""

    what: str
    columns: tuple[str, ...]
    refusal: Callable[..., str | None]


def _provider_checks(placement: PlacementFilter) -> Iterator[ProviderCheck]:
    required, forbidden = frozenset(placement.required_traits), frozenset(placement.forbidden_traits)
    if placement.segments:
        bridges = {trait_of(segment): segment for segment in placement.segments}
        required -= bridges.keys()
        yield ProviderCheck("no bridge of its network", ("traits",), lambda has: _bridge_refusal(has, bridges))
    if required or forbidden:
        yield ProviderCheck(
            "traits not as asked for", ("traits",), lambda has: _trait_refusal(has, required, forbidden)
        )
    if placement.member_of or placement.forbidden_aggregates:
        columns = ("aggregates", "provider_aggregates")
        yield ProviderCheck("aggregates not as asked for", columns, lambda *of: _membership_refusal(placement, *of))


def _trait_refusal(traits: frozenset[str], required: frozenset[str], forbidden: frozenset[str]) -> str | None:
    if not required <= traits:
        return f"without the required traits {', '.join(sorted(required - traits))}"
    if forbidden & traits:
        return f"with the forbidden traits {', '.join(sorted(forbidden & traits))}"
    return None


def _bridge_refusal(traits: frozenset[str], bridges: Mapping[str, str]) -> str | None:
    missing = sorted(segment for trait, segment in bridges.items() if trait not in traits)
    return f"no bridge for physical network {', '.join(missing)}" if missing else None


def _membership_refusal(
    placement: PlacementFilter, aggregates: Iterable[AggregateFacts], provider_aggregates: frozenset[str]
) -> str | None:
    member = provider_aggregates.union(aggregate.uuid for aggregate in aggregates)
    for any_of in placement.member_of:
        if not member.intersection(any_of):
            return f"in none of the required aggregates {', '.join(any_of)}"
    forbidden = member.intersection(placement.forbidden_aggregates)
    return f"in the forbidden aggregates {', '.join(sorted(forbidden))}" if forbidden else None


# -- names -------------------------------------------------------------------------------------------------------------


def _requested_destination(table: HostTable, destination: Destination, log: Log | None) -> PreselectionStep:
    """A node without a host is enough: the node's host is then found by the node."""
    host, node = destination.host, destination.node
    passed = np.zeros(len(table), bool)
    for row in range(len(table)) if host is None else table.rows_of_host(host.lower()):
        record = table.records[row]
        passed[row] = host in (None, record.host) and node in (None, record.node)
    if log:
        log(
            f"Host filter only checking host {host} and node {node}"
            if passed.any()
            else f"No hosts matched due to not matching requested destination ({host}, {node})"
        )
    return PreselectionStep(
        "requested_destination", _one_reason(passed, f"not the requested destination ({host}, {node})")
    )


def _ignored(table: HostTable, names: Iterable[str], log: Log | None) -> PreselectionStep:
    ignored = [name for name in names if table.rows_of_host(name.lower())]
    passed = ~_hosts_named(table, ignored)
    if log:
        log(f"Host filter ignoring hosts: {', '.join(ignored)}")
    return PreselectionStep("ignore_hosts", _one_reason(passed, "ignored"))


def _forced_hosts(table: HostTable, names: Iterable[str], log: Log | None) -> PreselectionStep:
    """Compares names case-insensitively, as in Nova."""
    passed = _hosts_named(table, names)
    _log_forced(log, "host", names, [table.records[row].host for row in np.flatnonzero(passed).tolist()])
    return PreselectionStep("force_hosts", _one_reason(passed, f"not one of the forced hosts {', '.join(names)}"))


def _forced_nodes(table: HostTable, names: Iterable[str], log: Log | None) -> PreselectionStep:
    forced = frozenset(names)
    passed = np.fromiter((record.node in forced for record in table.records), bool, len(table))
    _log_forced(log, "node", names, [table.records[row].node for row in np.flatnonzero(passed).tolist()])
    return PreselectionStep("force_nodes", _one_reason(passed, f"not one of the forced nodes {', '.join(names)}"))


def _log_forced(log: Log | None, what: str, names: Iterable[str], available: list[str]) -> None:
    if log:
        log(
            f"Host filter forcing available {what}s to {', '.join(available)}"
            if available
            else f"No {what}s matched due to not matching 'force_{what}s' value of '{', '.join(names)}'"
        )


def _hosts_named(table: HostTable, names: Iterable[str]) -> Mask:
    passed = np.zeros(len(table), bool)
    for name in names:
        passed[table.rows_of_host(name.lower())] = True
    return passed


def _one_reason(passed: Mask, reason: str) -> Verdict:
    return Verdict(passed, lambda lost: [reason] * len(lost))
