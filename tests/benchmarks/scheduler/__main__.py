"""How long the scheduler takes: `python -m tests.benchmarks.scheduler [--hosts 100,1000,10000] [--runs N]`.

decision: the pure part, on a table in memory. whole: select_destinations with refresh and durable claim on SQLite.
line: requests per second of one scheduler process while 16 callers wait in line.
"""

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from uuid import uuid4

from minova import conf as configuration
from minova.context import RequestContext
from minova.db.engine import Database
from minova.objects.flavor import Flavor
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decision import Rules, decide
from minova.scheduler.extensions import load_filters, load_weighers
from minova.scheduler.filter_scheduler import FilterScheduler
from minova.scheduler.host_source import HostSource
from tests.benchmarks.scheduler.clouds import fill

CTX = RequestContext(request_id="req-benchmark")
FLAVOR = Flavor(flavorid="f", name="f", vcpus=2, memory_mb=4096, root_gb=20)
PLAIN = RequestSpec(flavor=FLAVOR)
IN_ZONE = RequestSpec(flavor=FLAVOR, availability_zone="zone1")
CALLERS = 16


def timed(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median and p99, in ms."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1e3)
    return median(taken), quantiles(taken, n=100)[98] if runs > 1 else taken[0]


def measure(hosts: int, runs: int, folder: Path) -> None:
    conf = configuration.new()
    conf([], project="minova", default_config_files=[])
    conf.set_override("max_placement_results", 10**6, group="scheduler")
    db = Database(f"sqlite:///{folder}/{hosts}.sqlite")
    fill(db, hosts, time.time())
    source = HostSource(db, service_down_time=60, clock=time.time)
    start = time.perf_counter()
    table = source.refresh()
    show(hosts, "read all", (time.perf_counter() - start) * 1e3)
    rules = Rules(
        filters=load_filters(conf),
        weighers=load_weighers(conf),
        host_subset_size=1,
        shuffle_best_same_weighed_hosts=False,
        max_placement_results=10**6,
        draw=random.Random(0).randrange,
    )
    for name, spec in (("decision, plain", PLAIN), ("decision, zone", IN_ZONE)):
        show(hosts, name, *timed(lambda spec=spec: decide(table, spec, ("i",), 2, rules), runs))  # type: ignore[misc]
    table.restore()
    driver = FilterScheduler(conf, db, clock=time.time)

    def ask(count: int = 1) -> None:
        uuids = tuple(str(uuid4()) for _ in range(count))
        assert driver.select_destinations(CTX, PLAIN, uuids, 1, 2).selections

    ask()
    show(hosts, "whole, plain", *timed(ask, runs))
    show(hosts, "whole, 100 at once", *timed(lambda: ask(100), max(2, runs // 20)))
    show(hosts, "line, per second", per_second(ask, max(2, runs // 10)))
    db.close()


def per_second(ask: Callable[[], None], each: int) -> float:
    def caller() -> None:
        for _ in range(each):
            ask()

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return each * CALLERS / (time.perf_counter() - start)


def show(hosts: int, name: str, middle: float, p99: float | None = None) -> None:
    print(f"{hosts:>7} {name:<20} {middle:>10.2f} {'' if p99 is None else f'{p99:.2f}':>10}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scheduler", description=__doc__)
    parser.add_argument("--hosts", default="100,1000,10000", help="numbers of hosts, with commas between")
    parser.add_argument("--runs", type=int, default=200, help="requests of each kind")
    arguments = parser.parse_args()
    print(f"{'hosts':>7} {'':<20} {'median ms':>10} {'p99 ms':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for hosts in arguments.hosts.split(","):
            measure(int(hosts), arguments.runs, Path(folder))


if __name__ == "__main__":
    main()
