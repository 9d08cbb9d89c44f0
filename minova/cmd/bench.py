"""`minova-manage bench scheduler`: how long a decision takes on this machine, by number of hosts, request and chain."""

import random
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any

import msgspec
from oslo_config import cfg

from minova.malloc import keep_memory
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import decide
from minova.scheduler.drivers.filter_scheduler import rules_of
from minova.scheduler.extensions import load_filters
from minova.scheduler.hosts.table import HostTable
from minova.simulate.bench_cloud import host_records, requests
from minova.simulate.chains import CHAINS

ALTERNATES = 2
WARM_UP = 3

Row = dict[str, Any]


def scheduler(conf: cfg.ConfigOpts) -> None:
    rows = measure_decisions(conf, conf.command.hosts, conf.command.runs)
    if conf.command.json:
        print(msgspec.json.format(msgspec.json.encode(list(rows)), indent=2).decode())
        return
    print(f"{'hosts':>8} {'request':<12} {'chain':<8} {'median ms':>10} {'p99 ms':>10}")
    for row in rows:
        print("{hosts:>8} {request:<12} {chain:<8} {median_ms:>10.3f} {p99_ms:>10.3f}".format(**row), flush=True)


def measure_decisions(conf: cfg.ConfigOpts, hosts: list[int], runs: int) -> Iterator[Row]:
    """All hosts are candidates at once. With pages, a decision would take the same time for any number of hosts."""
    keep_memory()
    default = rules_of(conf, random.Random(0))._replace(max_placement_results=0)
    conf.set_override("enabled_filters", list(CHAINS["classic"]), group="filter_scheduler")
    chains = {"default": default, "classic": default._replace(filters=load_filters(conf))}
    for count in hosts:
        table = HostTable()
        table.apply(host_records(count))
        for chain, rules in chains.items():
            for request, spec in requests(count).items():
                durations = times_of(table, spec, rules, runs)
                yield {
                    "request": request,
                    "chain": chain,
                    "hosts": count,
                    "median_ms": round(median(durations), 4),
                    "p99_ms": round(p99(durations), 4),
                }


def times_of(table: HostTable, spec: RequestSpec, rules: Rules, runs: int) -> list[float]:
    """Returns the times of decisions on the same table, in ms.

    Raises RuntimeError if a decision found no host, because its time would be too short.
    """
    times = []
    for run in range(WARM_UP + runs):
        start = time.perf_counter()
        decision = decide(table, spec, (f"instance-{run}",), ALTERNATES, rules)
        times.append((time.perf_counter() - start) * 1e3)
        table.restore()
        if decision.error is not None:
            raise RuntimeError(decision.error)
    return times[WARM_UP:]


def p99(taken: list[float]) -> float:
    return quantiles(taken, n=100, method="inclusive")[98] if len(taken) > 1 else taken[0]
