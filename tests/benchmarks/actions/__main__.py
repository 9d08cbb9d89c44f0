"""What stop, start and reboot HARD of a fake guest cost, from the request to the end, over RabbitMQ; and many of them in line.

Conductor, scheduler and API are processes of their own, the fake computes share another. The end is seen in the database: to ask
the API every few milliseconds costs more CPU time than the action.

First rounds of each action, one by one; then many of each, asked for by 8 clients, each for a server of its own.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import create_engine, text

from tests.benchmarks.actions import alone
from tests.benchmarks.boots import computes
from tests.benchmarks.boots.__main__ import Client, cpu_seconds
from tests.benchmarks.command_line import Option, parse
from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

BODIES: dict[str, Any] = {
    "stop": {"os-stop": None},
    "start": {"os-start": None},
    "reboot HARD": {"reboot": {"type": "HARD"}},
}
# So that what is measured is the way of an action, and not the look of a client.
LOOK = 0.002
CLIENTS = 8


def act(client: Client, server: str, name: str) -> None:
    client.ask("POST", f"/v2.1/servers/{server}/action", BODIES[name])


class States:
    """The task states in the database."""

    def __init__(self, url: str) -> None:
        self._connection = create_engine(url).connect().execution_options(isolation_level="AUTOCOMMIT")

    def is_idle(self, server: str) -> bool:
        query = text("SELECT task_state FROM instances WHERE uuid = :uuid")
        return self._connection.execute(query, {"uuid": server}).scalar() is None

    def busy(self) -> int:
        return int(
            self._connection.execute(text("SELECT count(*) FROM instances WHERE task_state IS NOT NULL")).scalar_one()
        )


def one_by_one(client: Client, states: States, server: str, rounds: int) -> dict[str, list[float]]:
    """Seconds from each request until nothing is in progress."""
    took: dict[str, list[float]] = {name: [] for name in BODIES}
    for _ in range(rounds):
        for name in BODIES:
            begun = time.monotonic()
            act(client, server, name)
            while not states.is_idle(server):
                time.sleep(LOOK)
            took[name].append(time.monotonic() - begun)
    return took


def in_line(url: str, states: States, servers: Sequence[str], name: str) -> float:
    """Seconds until the action has ended for all servers."""
    body = json.dumps(BODIES[name])

    def client(share: Sequence[str]) -> None:
        # The client of the other benchmarks takes as much CPU time for a request as the API.
        connection = HTTPConnection(url.removeprefix("http://"))
        for server in share:
            path, headers = f"/v2.1/servers/{server}/action", {"Content-Type": "application/json"}
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            assert answer.status == 202, answer.read()
            answer.read()
        connection.close()

    begun = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, [servers[number::CLIENTS] for number in range(CLIENTS)]))
    while states.busy():
        time.sleep(0.05)
    return time.monotonic() - begun


def main() -> None:
    arguments = parse(
        "actions",
        __doc__,
        Option("hosts", 10, 1, "fake computes"),
        Option("rounds", 50, 1, "of each action, one by one"),
        Option("queued", 200, CLIENTS, "of each action, by 8 clients"),
        Option(
            "conductor",
            False,
            False,
            "only the CPU time, statements and transactions of a conductor, in one thread, without broker",
        ),
    )
    if arguments.conductor:
        alone.measure(arguments.rounds)
        return
    with RabbitMQ() as rabbit, PostgreSQL() as database, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": 60}}
        url = database.fresh_url()
        with Deployment(folder, rabbit.fresh_url(), url, **usual) as deployment:
            deployment.manage("db", "upgrade")
            deployment.start()
            with computes.started(deployment, arguments.hosts) as process:
                measure(deployment, States(url), process.pid, arguments.hosts, arguments.rounds, arguments.queued)


def measure(deployment: Deployment, states: States, computes_pid: int, hosts: int, rounds: int, many: int) -> None:
    client = Client(deployment.url)
    client.ask("POST", "/v2.1/flavors", {"flavor": {"id": "1", "name": "m1", "vcpus": 1, "ram": 64, "disk": 1}})
    image = client.image("i", "raw", b"\0" * 1024 * 1024)
    wait_for("all hosts", lambda: len(client.ask("GET", "/v2.1/os-hypervisors")["hypervisors"]) == hosts)
    client.create("vm", image, many)
    wait_for("all servers", lambda: client.count("ACTIVE") == many)
    servers = [server["id"] for server in client.ask("GET", "/v2.1/servers")["servers"]]
    one_by_one(client, states, servers[0], 5)  # warm up
    pids = {name: service.pid for name, service in deployment.services.items()} | {"computes": computes_pid}
    before = cpu_seconds(pids)
    for name, times in one_by_one(client, states, servers[0], rounds).items():
        print(
            f"{name:12} median {median(times) * 1000:4.0f} ms, p99 {sorted(times)[int(len(times) * 0.99)] * 1000:4.0f} ms"
        )
    costs = {name: (seconds - before[name]) / rounds / 3 * 1000 for name, seconds in cpu_seconds(pids).items()}
    print("CPU ms of an action:", ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items()))
    for name in BODIES:
        before = cpu_seconds(pids)
        took = in_line(deployment.url, states, servers, name)
        print(f"{many} x {name} in line: {many / took:.0f}/s")
        costs = {name: (seconds - before[name]) / many * 1000 for name, seconds in cpu_seconds(pids).items()}
        print("CPU ms of each:", ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items()))


if __name__ == "__main__":
    main()
