"""How long the scheduler takes.

decision: the pure part, on a table in memory. whole: select_destinations with refresh and durable claim, beside hosts
that report now and then. line: requests per second of one scheduler process while callers wait in line. `--feed`: only a
refresh after one change, beside numbers of the change feed that were taken and never used: in one piece, as refused batches
leave them, and one of each three used, as three Galera nodes leave them.
"""

import contextlib
import gc
import itertools
import random
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import insert

from minova import conf as configuration
from minova.cmd.bench import measure_decisions, p99
from minova.context import RequestContext
from minova.db import models
from minova.db.engine import Database
from minova.objects.requests.request_spec import RequestSpec
from minova.placement import changes
from minova.scheduler.decide.decision import Decision, decide
from minova.scheduler.drivers.filter_scheduler import FilterScheduler, rules_of
from minova.scheduler.drivers.request import Request
from minova.scheduler.hosts.table import HostTable
from minova.scheduler.refresh.host_source import HostSource
from minova.simulate.bench_cloud import host_records, requests
from tests.benchmarks import peers
from tests.benchmarks.command_line import Option, parse
from tests.functional.scheduler.cloud import fill
from tests.servers.postgresql import PostgreSQL

CTX = RequestContext(request_id="req-benchmark")
CALLERS = 16
BATCH = 100
# Hosts that report between two requests.
REPORTING = 20


def conf_of() -> Any:
    conf = configuration.new()
    conf([], project="minova", default_config_files=[])
    conf.set_override("max_placement_results", 0, group="scheduler")
    return conf


def timed(work: Callable[[], object], runs: int, between: Callable[[], object] = lambda: None) -> list[float]:
    """In ms."""
    taken = []
    for _ in range(runs):
        between()
        start = time.perf_counter()
        work()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def peer_of(hosts: int, figures: Mapping[int, float]) -> str:
    return peers.beside("Nova", figures.get(hosts), "ms")


def show(hosts: int, name: str, taken: list[float], of: int = 1) -> None:
    per_second = 1000 * of / median(taken)
    peer = peer_of(hosts, peers.NOVA_SELECT_DESTINATIONS if name == "whole, plain" else {})
    print(f"{hosts:>7} {name:<34} {median(taken):>10.3f} {p99(taken):>10.3f} {per_second:>10.0f}{peer}", flush=True)


# -- the pure part -----------------------------------------------------------------------------------------------------


def decisions(hosts: int, runs: int) -> None:
    for row in measure_decisions(conf_of(), [hosts], runs):
        name = f"decision, {row['request']}, {row['chain']}"
        print(
            f"{hosts:>7} {name:<34} {row['median_ms']:>10.3f} {row['p99_ms']:>10.3f} {1000 / row['median_ms']:>10.0f}"
            + peer_of(hosts, peers.NOVA_CLASSIC_CHAIN if name == "decision, plain, classic" else {}),
            flush=True,
        )
    rules = rules_of(conf_of(), random.Random(0))
    table = HostTable()
    table.apply(host_records(hosts))
    spec = requests(hosts)["plain"]
    batch = [f"i{number}" for number in range(BATCH)]
    show(
        hosts,
        f"decision, plain, batch of {BATCH}",
        timed(lambda: decide(table, spec, batch, 2, rules), max(3, runs // 20), table.restore),
        BATCH,
    )
    decision_list: list[Decision] = []

    def again() -> None:
        table.restore()
        decision_list.append(decide(table, picky(spec), ("i",), 2, rules))

    show(hosts, "reasons, when asked for", timed(lambda: decision_list[-1].steps, runs, again))


def picky(spec: RequestSpec) -> RequestSpec:
    """So large that part-used hosts are lost."""
    flavor = msgspec.structs.replace(spec.flavor, memory_mb=200_000)
    return msgspec.structs.replace(spec, flavor=flavor)


def memory(hosts: int) -> None:
    """Of hosts as they are read from the database, with three instances each."""
    for numa in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            db = Database(f"sqlite:///{folder}/minova.sqlite")
            models.Base.metadata.create_all(db.engine)
            fill(db, host_records(hosts, numa=numa), time.time())
            source = HostSource(db, service_down_time=60, clock=time.time)
            with db.read() as session:
                session.connection()
            gc.collect()
            tracemalloc.start()
            source.refresh()
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            db.close()
        print(
            f"{hosts:>7} {'memory, with cells' if numa else 'memory, without cells':<34} {taken / hosts:>10.0f} B a host"
        )


# -- with a database ---------------------------------------------------------------------------------------------------


def whole(hosts: int, runs: int, url: str) -> None:
    conf, db = conf_of(), Database(url)
    models.Base.metadata.create_all(db.engine)
    fill(db, host_records(hosts), time.time())
    driver = FilterScheduler(conf, db, clock=time.time)
    show(hosts, "first reading of all", timed(driver.source.refresh, 1))
    rng = random.Random(0)

    def report() -> None:
        some = rng.sample(range(1, hosts + 1), min(REPORTING, hosts))
        db.run(lambda session: changes.append(session, some))

    def ask(spec: RequestSpec, count: int = 1) -> None:
        answer = driver.select_destinations(
            Request(
                request_id=CTX.request_id,
                spec=spec,
                instance_uuids=tuple(str(uuid4()) for _ in range(count)),
                claim_number=1,
                alternates=2,
            )
        )
        assert answer.selections, answer.diagnosis.error

    for name, spec in requests(hosts).items():
        show(hosts, f"whole, {name}", timed(lambda spec=spec: ask(spec), runs, report))  # type: ignore[misc]
    plain = requests(hosts)["plain"]
    show(hosts, f"whole, plain, batch of {BATCH}", timed(lambda: ask(plain, BATCH), max(3, runs // 20)), BATCH)
    line(hosts, lambda: ask(plain), max(2, runs // 10))
    db.close()


def line(hosts: int, ask: Callable[[], None], each: int) -> None:
    def caller() -> None:
        for _ in range(each):
            ask()

    threads = [threading.Thread(target=caller) for _ in range(CALLERS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    per_second = each * CALLERS / (time.perf_counter() - start)
    print(f"{hosts:>7} {f'line of {CALLERS} callers':<34} {'':>10} {'':>10} {per_second:>10.0f}", flush=True)


def feed(hosts: int, runs: int, unused: int, used_of_each: int, url: str) -> None:
    """`used_of_each` 0: the unused numbers are one piece; 3: each third number is used."""
    db = Database(url)
    models.Base.metadata.create_all(db.engine)
    fill(db, host_records(hosts), time.time())
    numbers = range(1, unused * 3 // 2 + 1, 3) if used_of_each else [1, unused + 2]
    rows = [{"seq": number, "node_id": 1, "at": time.time()} for number in numbers]
    db.run(lambda session: session.execute(insert(models.HostChange), rows[:1]))
    source = HostSource(db, service_down_time=60, clock=time.monotonic)
    source.refresh()
    if unused:
        db.run(lambda session: session.execute(insert(models.HostChange), rows[1:]))
    next_number = itertools.count(numbers[-1] + 1)

    def change() -> None:
        row = {"seq": next(next_number), "node_id": 1, "at": time.time()}
        db.run(lambda session: session.execute(insert(models.HostChange).values(row)))

    source.refresh()
    name = f"refresh, {unused} unused, {'scattered' if used_of_each else 'one piece'}"
    show(hosts, name, timed(source.refresh, runs, change))
    db.close()


@contextlib.contextmanager
def database(kind: str) -> Iterator[str]:
    if kind == "postgresql":
        with PostgreSQL() as server:
            yield server.fresh_url()
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'minova.sqlite'}"


def main() -> None:
    arguments = parse(
        "scheduler",
        __doc__,
        Option("hosts", [100, 1000, 10_000], [50], "numbers of hosts"),
        Option("runs", 200, 2, "requests of each kind"),
        Option("database", "sqlite", "sqlite", "of select_destinations", ("sqlite", "postgresql", "none")),
        Option("feed", False, False, "only the change feed with unused numbers"),
    )
    print(f"{'hosts':>7} {'':<34} {'median ms':>10} {'p99 ms':>10} {'per second':>10}")
    if arguments.feed:
        for unused, used_of_each in ((0, 0), (10_000, 0), (66_000, 0), (10_000, 3), (66_000, 3)):
            with database(arguments.database) as url:
                feed(1000, arguments.runs, unused, used_of_each, url)
        return
    for hosts in arguments.hosts:
        decisions(hosts, arguments.runs)
        memory(min(hosts, 10_000))
        if arguments.database != "none":
            with database(arguments.database) as url:
                whole(hosts, arguments.runs, url)


if __name__ == "__main__":
    main()
