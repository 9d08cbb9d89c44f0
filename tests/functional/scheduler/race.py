"""Schedulers in processes of their own, all asked at the same time, on a cloud that has not room for all.

    python -m tests.functional.scheduler.race URL [--schedulers 4] [--requests 2000]

URL is of a new database, whose tables are made. Among the requests are members of server groups and guests with pinned
CPUs. Exit code 0: nothing was given twice, no policy was broken, every refusal has its reason. `--worker N` is one of the
schedulers.
"""

import argparse
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.conductor.servers.create import spec_of
from minova.db import models
from minova.db.catalogue import server_groups
from minova.db.engine import Database
from minova.db.servers import request_specs
from minova.hardware.numa_fit import NoFit, fit_topology
from minova.hardware.numa_usage import with_instance
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import Inventory
from minova.objects.hosts.numa import NUMACell, NUMATopology
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.requests.server_request import ServerRequest
from minova.placement.audit import gather
from minova.placement.nodes import inventories
from minova.scheduler.drivers.request import UNCLAIMED
from minova.scheduler.manager import SchedulerManager
from tests.functional.placement.group_cases import add_group
from tests.functional.scheduler.cloud import CTX, SEEN, add_host, add_instance, fresh, inventory_rows, named, unbalanced
from tests.functional.scheduler.schedulers import manager_of

ROOT = Path(__file__).parents[3]
# Callers that wait in the line of one scheduler.
CALLERS = 16
PLAIN = Flavor(flavorid="plain", name="plain", vcpus=1, memory_mb=2048, root_gb=1)
PINNED = Flavor(
    flavorid="pinned", name="pinned", vcpus=3, memory_mb=2048, root_gb=1, extra_specs={"hw:cpu_policy": "dedicated"}
)
CELL_CPUS = 8


class RequestKind(NamedTuple):
    """One request: for a member of a group, or a pinned guest, or neither."""

    name: str
    group: str | None = None
    pinned: bool = False


class Outcome(NamedTuple):
    """`unclaimed`: refused because others were faster time and again. `beside_cells`: pinned guests that have their CPUs by
    number but no cell with so many; their compute's claim sends them on.
    """

    given: int
    refused: int
    unclaimed: int
    claims_refused: int
    decisions_repeated: int
    beside_cells: int
    seconds: float


class Kind(NamedTuple):
    """Of groups: their policy, how many members each has, and how many of them one host may have."""

    policy: str
    members: int
    most: int


KINDS = (Kind("anti-affinity", 8, 1), Kind("anti-affinity", 12, 2), Kind("affinity", 5, 5))


def requests_for(requests: int) -> list[RequestKind]:
    """Three in ten are of groups, one or two in ten pinned."""
    request_kinds = [RequestKind(f"pinned-{number}", pinned=True) for number in range(requests * 3 // 20)]
    for number in range(requests // 80):
        for kind, (_, members, _) in enumerate(KINDS):
            request_kinds += [
                RequestKind(f"m{kind}-{number}-{member}", group=f"g{kind}-{number}") for member in range(members)
            ]
    request_kinds += [RequestKind(f"plain-{number}") for number in range(requests - len(request_kinds))]
    # Mixed, but members of a group stay near each other, so that they meet.
    return sorted(request_kinds, key=lambda wish: named(wish.group or wish.name))


def request_of(wish: RequestKind) -> RequestSpec:
    """As a conductor makes it, but for the group."""
    return spec_of(CTX, ServerRequest(flavor=PINNED if wish.pinned else PLAIN))


# -- the cloud ---------------------------------------------------------------------------------------------------------


def build(url: str, requests: int) -> None:
    """Room for three requests of four."""
    db = fresh(url)
    members: dict[str, list[str]] = {}
    for wish in requests_for(requests):
        if wish.group is not None:
            members.setdefault(wish.group, []).append(f"{wish.name}-0")
    with db.write() as session:
        for number in range(requests // 20):
            _add_host(session, f"h{number}", with_cells=number % 2 == 0)
        for wish in requests_for(requests):
            add_instance(session, uuid_of(wish), reservation_id="r-pinned" if wish.pinned else "r-plain")
        for name, kind in (("r-pinned", RequestKind("any", pinned=True)), ("r-plain", RequestKind("any"))):
            request_specs.add(session, [(name, request_of(kind), BuildExtras())], SEEN)
    for name, those in members.items():
        kind_of = KINDS[int(name[1])]
        add_group(db, name, kind_of.policy, *those, **({"max_server_per_host": 2} if kind_of.most == 2 else {}))
    db.close()


def uuid_of(wish: RequestKind) -> str:
    return named(f"{wish.name}-0")


def _add_host(session: Session, host: str, *, with_cells: bool) -> None:
    topology = NUMATopology(tuple(_cell(index) for index in range(2))) if with_cells else None
    sizes: dict[str, Any] = {"vcpus": 16, "memory_mb": 15 * PLAIN.memory_mb, "local_gb": 500}
    add_host(session, host, now=time.time(), numa_topology=msgspec.to_builtins(topology), **sizes)
    if with_cells:
        totals = {"VCPU": 64, "PCPU": 2 * CELL_CPUS, "MEMORY_MB": sizes["memory_mb"], "DISK_GB": 500}
        inventory_list = [Inventory(resource_class=name, total=total, max_unit=total) for name, total in totals.items()]
        inventories.set_inventories(session, named(f"node {host}"), inventory_list)


def _cell(index: int) -> NUMACell:
    cpus = range(index * CELL_CPUS, (index + 1) * CELL_CPUS)
    siblings = tuple(frozenset({cpu}) for cpu in cpus)
    return NUMACell(id=index, pcpuset=frozenset(cpus), memory=8 * PLAIN.memory_mb, siblings=siblings)


# -- one scheduler -----------------------------------------------------------------------------------------------------


class WorkerReport(msgspec.Struct, frozen=True):
    """What came of a request: its host, or why none."""

    name: str
    host: str | None
    unclaimed: bool = False
    reasons: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    said: tuple[WorkerReport, ...]
    claims_refused: int
    decisions_repeated: int


def work(url: str, number: int, schedulers: int, requests: int) -> Report:
    """Ask one scheduler for every so-manieth request, when the word comes on the standard input."""
    db = Database(url)
    manager = manager_of(db)
    manager.capacity(CTX, request_of(RequestKind("any")), 1)  # so it has read the hosts
    mine = requests_for(requests)[number::schedulers]
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(CALLERS) as pool:
        said = tuple(pool.map(lambda wish: _ask(manager, db, wish), mine))
    db.close()
    conflicts = manager.driver.conflicts
    return Report(said, conflicts.claims_refused, conflicts.decisions_repeated)


def _ask(manager: SchedulerManager, db: Database, wish: RequestKind) -> WorkerReport:
    spec = request_of(wish)
    if wish.group is not None:
        with db.read() as session:
            group = server_groups.of_instance(session, uuid_of(wish))
        spec = msgspec.structs.replace(spec, instance_group=group)
    answer = manager.select_destinations(CTX, spec, (uuid_of(wish),), 1, 2)
    if answer.selections:
        return WorkerReport(wish.name, answer.selections[0][0].host)
    diagnosis = answer.diagnosis
    reasons = tuple({lost.reason for step in diagnosis.steps for lost in step.lost})
    return WorkerReport(wish.name, None, UNCLAIMED in (diagnosis.error or ""), reasons)


# -- all of them -------------------------------------------------------------------------------------------------------


def race(*urls: str, schedulers: int, requests: int) -> Outcome:
    """`urls`: of the same database at each node of a cluster; the schedulers use them in turn.

    AssertionError: a scheduler failed, or something is not as it must be.
    """
    build(urls[0], requests)
    command = [sys.executable, "-m", "tests.functional.scheduler.race"]
    options = ["--requests", str(requests), "--schedulers", str(schedulers), "--worker"]
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(
            [*command, url, *options, str(number)], cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        for number, url in zip(range(schedulers), itertools.cycle(urls), strict=False)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    begun = time.monotonic()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=900) for process in running]
    seconds = time.monotonic() - begun
    assert [process.returncode for process in running] == [0] * schedulers, "\n".join(error for _, error in ended)
    reports = [msgspec.json.decode(output, type=Report) for output, _ in ended]
    said = {outcome.name: outcome for report in reports for outcome in report.said}
    assert len(said) == requests
    with closing(Database(urls[-1])) as db:
        _check(db, requests, said)
    given = [outcome for outcome in said.values() if outcome.host is not None]
    return Outcome(
        given=len(given),
        refused=requests - len(given),
        unclaimed=sum(outcome.unclaimed for outcome in said.values()),
        claims_refused=sum(report.claims_refused for report in reports),
        decisions_repeated=sum(report.decisions_repeated for report in reports),
        beside_cells=_beside_cells(said, requests),
        seconds=seconds,
    )


def _check(db: Database, requests: int, said: Mapping[str, WorkerReport]) -> None:
    assert not unbalanced(inventory_rows(db))
    with db.read() as session:
        assert gather.wrong_used(session) == []
        provider, allocation = models.ResourceProvider, models.Allocation
        query = select(allocation.consumer_uuid, provider.name).join(provider, provider.id == allocation.provider_id)
        held = {(uuid, name) for uuid, name in session.execute(query.distinct())}
    assert held == {(named(f"{outcome.name}-0"), outcome.host) for outcome in said.values() if outcome.host is not None}
    assert all(outcome.reasons for outcome in said.values() if outcome.host is None)
    for name, hosts in _hosts_of_groups(requests, said).items():
        kind = KINDS[int(name[1])]
        assert len(hosts) == 1 if kind.policy == "affinity" else max(hosts.values()) <= kind.most, (name, hosts)
    refused = [outcome for outcome in said.values() if outcome.host is None and outcome.name.startswith("plain")]
    if any(not outcome.unclaimed for outcome in refused):
        # Nothing was given back, so who had no place has none now.
        assert manager_of(db).capacity(CTX, request_of(RequestKind("any")), 1).total == 0


def _hosts_of_groups(requests: int, said: Mapping[str, WorkerReport]) -> dict[str, Counter[str]]:
    counts_by_group: dict[str, Counter[str]] = {}
    for wish in requests_for(requests):
        host = said[wish.name].host
        if wish.group is not None and host is not None:
            counts_by_group.setdefault(wish.group, Counter())[host] += 1
    return counts_by_group


def _beside_cells(said: Mapping[str, WorkerReport], requests: int) -> int:
    guests = Counter(said[wish.name].host for wish in requests_for(requests) if wish.pinned and said[wish.name].host)
    numa_topology = request_of(RequestKind("any", pinned=True)).numa_topology
    assert numa_topology is not None
    beside = 0
    for many in guests.values():
        topology = NUMATopology(tuple(_cell(index) for index in range(2)))
        for _ in range(many):
            fit = fit_topology(topology, numa_topology, limits=None, pci=None, packing=False)
            if isinstance(fit, NoFit):
                beside += 1
            else:
                topology = with_instance(topology, fit)
    return beside


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    for name, default in (("schedulers", 4), ("requests", 2000), ("worker", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options: Any = parser.parse_args(arguments)
    if options.worker is not None:
        report = work(options.url, options.worker, options.schedulers, options.requests)
        print(msgspec.json.encode(report).decode())
        return
    print(race(options.url, schedulers=options.schedulers, requests=options.requests))


if __name__ == "__main__":
    main(sys.argv[1:])
