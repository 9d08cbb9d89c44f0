"""How long Placement takes.

Every provider has three inventories and 21 traits. In process: the WSGI application called directly, as OpenStack's was
measured. Over HTTP: `minova-placement-api` as a process of its own, one connection. On SQLite.
"""

import http.client
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import os_traits
from falcon import testing
from sqlalchemy import insert

from minova import conf as configuration
from minova.api.access.auth import placement_authenticator
from minova.api.placement.app import make_app
from minova.db import models
from minova.db.engine import Database
from minova.db.upgrade import upgrade
from tests.benchmarks import peers
from tests.benchmarks.command_line import Option, parse
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

TRAITS = sorted(os_traits.get_traits())[:21]
SIZES = {"VCPU": 64, "MEMORY_MB": 262144, "DISK_GB": 2000}
RESOURCES = "resources=VCPU:1,MEMORY_MB:1024,DISK_GB:10"
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json"}
# What Nova asks for by default.
LIMIT = 1000

# (method, path, body) -> status
Call = Callable[[str, str, Any], int]


def fill(url: str, providers: int) -> None:
    upgrade(url)
    db = Database(url)
    ids = range(1, providers + 1)
    with db.write() as session:
        connection = session.connection()
        own = [{"id": i, "uuid": uuid_of(i), "name": f"p{i}", "generation": 0, "root_provider_id": i} for i in ids]
        connection.execute(insert(models.ResourceProvider), own)
        rooms = [
            {"provider_id": i, "resource_class": name, "total": total, "max_unit": total, "capacity": total}
            for i in ids
            for name, total in SIZES.items()
        ]
        connection.execute(insert(models.Inventory), rooms)
        connection.execute(insert(models.ProviderTrait), [{"provider_id": i, "trait": t} for i in ids for t in TRAITS])
    db.close()


def uuid_of(number: int) -> str:
    return str(UUID(int=number))


@contextmanager
def in_process(url: str) -> Iterator[Call]:
    conf = configuration.new()
    conf([], project="minova", default_config_files=[])
    conf.set_override("auth_strategy", "noauth2", group="placement")
    reads, writes = Database(url, readonly=True), Database(url)
    client = testing.TestClient(
        make_app(conf, placement_authenticator(conf), reads, lambda: writes), headers={"Host": "localhost"}
    )

    def call(method: str, path: str, body: Any) -> int:
        place, _, query = path.partition("?")
        text = None if body is None else json.dumps(body)
        answer = client.simulate_request(method, place, query_string=query, headers=HEADERS, body=text)
        return int(answer.status_code)

    yield call
    reads.close()
    writes.close()


@contextmanager
def over_http(url: str, folder: Path) -> Iterator[Call]:
    (port,) = free_ports(1)
    conf = folder / "minova.conf"
    conf.write_text(
        f"[database]\nconnection = {url}\n[placement]\nauth_strategy = noauth2\nlisten_port = {port}\n"
        f"[DEFAULT]\nstate_path = {folder}\n"
    )
    program = str(Path(sys.executable).parent / "minova-placement-api")
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen([program, "--config-file", str(conf)], stdout=out, stderr=out)
    wait_for("listening", lambda: process.poll() is not None or "listens on" in log.read_text(), 30)
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(method: str, path: str, body: Any) -> int:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    try:
        yield call
    finally:
        connection.close()
        process.terminate()
        process.wait(30)


def timed(work: Callable[[], None], times: int) -> tuple[float, float]:
    """Median and p99, in ms."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(taken), statistics.quantiles(taken, n=100, method="inclusive")[98]


def measure(call: Call, providers: int, runs: int) -> Iterator[tuple[str, float, float]]:
    """(what, median, p99), in ms."""

    def expect(status: int, *asked: Any) -> None:
        answered_status = call(*asked)
        assert answered_status == status, (answered_status, asked)

    turns = itertools.count()

    def claim() -> None:
        resources = {"resources": {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}}
        body = {
            "allocations": {uuid_of(1 + next(turns) % providers): resources},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        expect(204, "PUT", f"/allocations/{uuid4()}", body)

    def ask(query: str) -> Callable[[], None]:
        return lambda: expect(200, "GET", f"/allocation_candidates?{RESOURCES}{query}", None)

    works: Sequence[tuple[str, Callable[[], None], int]] = (
        (f"candidates, limit {LIMIT}", ask(f"&limit={LIMIT}"), runs),
        ("candidates, limit 10", ask("&limit=10"), runs),
        ("candidates, no limit", ask(""), max(5, runs // 5)),
        ("PUT allocations", claim, runs * 4),
    )
    for what, work, times in works:
        work()
        median, p99 = timed(work, times)
        yield what, median, p99


def peer_of(what: str, providers: int) -> str:
    figures = {
        f"candidates, limit {LIMIT}": peers.PLACEMENT_CANDIDATES,
        "PUT allocations": peers.PLACEMENT_PUT_ALLOCATIONS,
    }
    figure = figures.get(what, {}).get(providers)
    return "" if figure is None else f"{figure:,.0f} ms"


def show(url: str, providers: int, runs: int, folder: Path) -> None:
    fill(url, providers)
    ways = (("in process", in_process(url)), ("over HTTP", over_http(url, folder)))
    for way, opened in ways:
        with opened as call:
            for what, median, p99 in measure(call, providers, runs):
                print(
                    f"| {providers:,} | {what} | {way} | {median:.1f} ms | {p99:.1f} ms | {peer_of(what, providers)} |",
                    flush=True,
                )


def main() -> None:
    arguments = parse(
        "placement",
        __doc__,
        Option("providers", [100, 1000, 10_000], [5], "numbers of providers"),
        Option("rounds", 50, 2, "of each question"),
    )
    print("| providers | what | way | median | p99 | OpenStack |\n| --- | --- | --- | --- | --- | --- |")
    for number in arguments.providers:
        with tempfile.TemporaryDirectory() as folder:
            show(f"sqlite:///{folder}/minova.sqlite", number, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
