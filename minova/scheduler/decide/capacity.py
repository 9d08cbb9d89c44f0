"""How many more instances fit. Pure: in each round every host that passes takes one, until nobody passes.

What one host takes changes no other host's answer, so this is what one decision after the other would find.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from minova.objects.capacity import Capacity, HostCapacity, Stopped
from minova.objects.instance_group import AFFINITY
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules, candidates
from minova.scheduler.decide.diagnosis import Step
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.hosts.table import HostTable, Mask

# A comparison as a reason has it: `free memory 512 MB < requested 2048 MB`.
_COMPARED = re.compile(r"^(?P<what>.*?) -?[\d.e+]+(?: \S+)? (?:<|<=|>|>=) ")


class Stop(NamedTuple):
    step: str
    reason: str


def capacity_of(table: WhatIfTable, spec: RequestSpec, rules: Rules, limit: int) -> Capacity:
    """`limit` instances on each host at most. The table is used up by this."""
    rules = rules._replace(max_placement_results=0, trace=None, say=None)
    counts, going = np.zeros(len(table), np.int64), np.ones(len(table), bool)
    stops: dict[int, Stop] = {}
    asked, left_in_group = spec, _left_in_group(table, spec)
    for number in range(limit + 1):
        steps: list[Step] = []
        table.begin()
        passed = candidates(table, asked, rules, steps) & going
        _note(stops, steps, going & ~passed)
        going, rows = passed, passed.nonzero()[0]
        if number == limit or not len(rows):
            break
        uuid = f"{number}th on each host"
        table.consume_each(rows, asked, uuid, rules)
        counts[rows] += 1
        asked = _with_member(asked, uuid)
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


def what_of(reason: str) -> str:
    """A reason without its numbers: what there was not enough of."""
    found = []
    for part in reason.split("; "):
        compared = _COMPARED.match(part)
        found.append(compared["what"] if compared else part)
    return ", ".join(dict.fromkeys(found))


def _note(stops: dict[int, Stop], steps: list[Step], lost: Mask) -> None:
    """Before the table changes: why these hosts go no further."""
    for step in steps:
        rows = (lost & step.before & ~step.after).nonzero()[0]
        if len(rows):
            reasons = zip(rows.tolist(), step.reasons(rows), strict=True)
            stops.update({row: Stop(step.name, reason) for row, reason in reasons})


def _with_member(spec: RequestSpec, uuid: str) -> RequestSpec:
    """Its group's next: the hosts of the group stay as they are, for every host is tried by itself."""
    group = spec.instance_group
    if group is None:
        return spec
    return msgspec.structs.replace(spec, instance_group=msgspec.structs.replace(group, members=(*group.members, uuid)))


def _keeps_together(spec: RequestSpec) -> bool:
    group = spec.instance_group
    return group is not None and group.policy == AFFINITY


def _left_in_group(table: HostTable, spec: RequestSpec) -> dict[str, int]:
    """How many more of the group each host may have, where its policy says so. Nodes of one host share that."""
    group = spec.instance_group
    if group is None or group.most_per_host is None:
        return {}
    there = table.instances_among(group.members)
    return {record.host: group.most_per_host - int(there[row]) for row, record in enumerate(table.records)}


def _within(
    counts: NDArray[np.int64], left_in_group: Mapping[str, int], table: HostTable
) -> tuple[NDArray[np.int64], Counter[str]]:
    """What each row takes once the nodes of a host have shared its room, the first of them first; and the sum by host."""
    shared, by_host = counts.copy(), Counter[str]()
    for row, record in enumerate(table.records):
        left = left_in_group.get(record.host, int(counts[row]) + by_host[record.host]) - by_host[record.host]
        shared[row] = max(0, min(int(counts[row]), left))
        by_host[record.host] += int(shared[row])
    return shared, by_host


def _by_host(table: HostTable, counts: NDArray[np.int64], stops: Mapping[int, Stop]) -> tuple[HostCapacity, ...]:
    found = []
    for row in np.argsort(-counts, kind="stable").tolist():
        record, stop = table.records[row], stops.get(row)
        found.append(
            HostCapacity(
                host=record.host,
                node=record.node,
                count=int(counts[row]),
                step=stop.step if stop else None,
                reason=stop.reason if stop else None,
            )
        )
    return tuple(found)


def _summary(counts: NDArray[np.int64], stops: Mapping[int, Stop]) -> tuple[Stopped, ...]:
    """What stopped hosts that took some comes first, then what most hosts lack."""
    hosts: Counter[tuple[str, str]] = Counter()
    full: Counter[tuple[str, str]] = Counter()
    for row, stop in stops.items():
        what = (stop.step, what_of(stop.reason))
        hosts[what] += 1
        full[what] += int(counts[row] > 0)
    order = sorted(hosts, key=lambda what: (-full[what], -hosts[what], what))
    return tuple(Stopped(step=key[0], what=key[1], hosts=hosts[key], full=full[key]) for key in order)
