"""Counts how many more instances fit. Pure: in each round every host that passes takes one instance, until no host
passes.

An instance on one host does not change the verdict on any other host, so the sum equals that of one decision after the
other.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from minova.objects.catalogue.instance_group import AFFINITY
from minova.objects.requests.capacity import Capacity, HostCapacity, StoppedHosts
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.chain import ChainRun, Rules, Step
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.hosts.table import HostTable, Mask


class Stop(NamedTuple):
    """The step that refused a host's next instance, and the reason with and without its numbers."""

    step: str
    reason: str
    kind: str


class StopKind(NamedTuple):
    step: str
    what: str


class InstanceCounts(NamedTuple):
    """How many instances each row takes, and each host takes."""

    by_row: NDArray[np.int64]
    by_host: Counter[str]


def capacity_of(table: WhatIfTable, spec: RequestSpec, rules: Rules, limit: int) -> Capacity:
    """Counts at most `limit` instances on each host. This consumes the table."""
    rules = rules._replace(max_placement_results=0, log_debug=None, log_info=None)
    counts, going = np.zeros(len(table), np.int64), np.ones(len(table), bool)
    stops: dict[int, Stop] = {}
    request, left_in_group = spec, _left_in_group(table, spec)
    for number in range(limit + 1):
        table.begin()
        run = ChainRun(table, rules)
        passed = run.candidates(request) & going
        _record_stops(stops, run.steps, going & ~passed)
        going, rows = passed, np.flatnonzero(passed)
        if number == limit or not len(rows):
            break
        uuid = f"{number}th on each host"
        table.consume_each(rows, request, uuid, rules)
        counts[rows] += 1
        request = _with_member(request, uuid)
    one_host = _keeps_together(spec)
    counts, by_host = _within(counts, left_in_group, table)
    return Capacity(
        total=max(by_host.values(), default=0) if one_host else sum(by_host.values()),
        limit=limit,
        complete=not going.any(),
        one_host=one_host,
        hosts=_by_host(table, counts, stops),
        stopped=_summary(counts, stops),
    )


def _record_stops(stops: dict[int, Stop], steps: Sequence[Step], lost: Mask) -> None:
    """Records why the hosts `lost` take no more. Must be called before the table changes."""
    for step in steps:
        rows = np.flatnonzero(lost & step.before & ~step.after)
        if len(rows):
            texts = zip(rows.tolist(), step.verdict.reasons(rows), step.verdict.kinds_of(rows), strict=True)
            stops.update({row: Stop(step.name, reason, kind) for row, reason, kind in texts})


def _with_member(spec: RequestSpec, uuid: str) -> RequestSpec:
    """The request for the next member of the group. The hosts of the group stay as they are, because every host is
    tried independently.
    """
    group = spec.instance_group
    if group is None:
        return spec
    return msgspec.structs.replace(spec, instance_group=msgspec.structs.replace(group, members=(*group.members, uuid)))


def _keeps_together(spec: RequestSpec) -> bool:
    group = spec.instance_group
    return group is not None and group.policy == AFFINITY


def _left_in_group(table: HostTable, spec: RequestSpec) -> dict[str, int]:
    """Returns how many more members of the group each host may have, if the group's policy limits them. The nodes of a
    host share that number.
    """
    group = spec.instance_group
    if group is None or group.most_per_host is None:
        return {}
    members_by_host = table.instances_among(group.members)
    return {record.host: group.most_per_host - int(members_by_host[row]) for row, record in enumerate(table.records)}


def _within(counts: NDArray[np.int64], left_in_group: Mapping[str, int], table: HostTable) -> InstanceCounts:
    """Returns what each row takes when the nodes of a host share its limit (the first node takes first), and the sum
    for each host.
    """
    shared, by_host = counts.copy(), Counter[str]()
    for row, record in enumerate(table.records):
        allowed = left_in_group.get(record.host, int(counts[row]) + by_host[record.host]) - by_host[record.host]
        shared[row] = max(0, min(int(counts[row]), allowed))
        by_host[record.host] += int(shared[row])
    return InstanceCounts(shared, by_host)


def _by_host(table: HostTable, counts: NDArray[np.int64], stops: Mapping[int, Stop]) -> tuple[HostCapacity, ...]:
    by_host = []
    for row in np.argsort(-counts, kind="stable").tolist():
        record, stop = table.records[row], stops.get(row)
        by_host.append(
            HostCapacity(
                host=record.host,
                node=record.node,
                count=int(counts[row]),
                step=stop.step if stop else None,
                reason=stop.reason if stop else None,
            )
        )
    return tuple(by_host)


def _summary(counts: NDArray[np.int64], stops: Mapping[int, Stop]) -> tuple[StoppedHosts, ...]:
    """First the reasons of hosts that took some instances, then the reasons that most hosts have."""
    hosts: Counter[StopKind] = Counter()
    full: Counter[StopKind] = Counter()
    for row, stop in stops.items():
        kind = StopKind(stop.step, stop.kind)
        hosts[kind] += 1
        full[kind] += int(counts[row] > 0)
    order = sorted(hosts, key=lambda kind: (-full[kind], -hosts[kind], kind))
    return tuple(StoppedHosts(step=kind.step, what=kind.what, hosts=hosts[kind], full=full[kind]) for kind in order)
