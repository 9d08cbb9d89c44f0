"""Cold moves of fake guests per second, beside the boots of the same run: services over RabbitMQ, all fake computes in one process.

The same number of servers boots, moves (os-migrate), and has its moves confirmed. First one by one, then all in line, asked for by
8 clients, each request for one server. A move counts from its request until the server is in VERIFY_RESIZE.
"""

import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from statistics import median

from tests.benchmarks import databases
from tests.benchmarks.boots import computes
from tests.benchmarks.boots.__main__ import Client, cpu_seconds
from tests.benchmarks.command_line import Option, parse
from tests.integration.deployment import Deployment
from tests.waiting import wait_for

CLIENTS = 8
# Between two looks at all servers.
LOOK = 0.05
PAGE = 1000
MOVED = "VERIFY_RESIZE"


def statuses(client: Client) -> dict[str, str]:
    """The status of each server, which are at most PAGE."""
    servers = client.ask("GET", f"/v2.1/servers/detail?limit={PAGE}")["servers"]
    return {server["id"]: server["status"] for server in servers}


def one_by_one(client: Client, asks: Sequence[Callable[[], str]], wanted: str) -> list[float]:
    """Seconds of each, asked for when the one before has ended."""
    took = []
    for ask in asks:
        begun = time.monotonic()
        server = ask()
        while (status := client.status(server)) != wanted:
            assert status != "ERROR", server
            time.sleep(0.005)
        took.append(time.monotonic() - begun)
    return took


def in_line(client: Client, asks: Sequence[Callable[[], str]], wanted: str) -> tuple[float, list[float]]:
    """Seconds until all have ended, and those of each from its request."""
    begun_at: dict[str, float] = {}
    ended: dict[str, float] = {}
    lock = threading.Lock()

    def ask_one(ask: Callable[[], str]) -> None:
        begun = time.monotonic()
        server = ask()
        with lock:
            begun_at[server] = begun

    begun = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [pool.submit(ask_one, ask) for ask in asks]
        while len(ended) < len(asks):
            time.sleep(LOOK)
            with lock:
                begun_servers = set(begun_at)
            now_is = statuses(client)
            now = time.monotonic()
            assert "ERROR" not in now_is.values()
            ended |= {server: now for server in begun_servers - ended.keys() if now_is[server] == wanted}
            for answer in answers:
                if answer.done():
                    answer.result()
    return time.monotonic() - begun, [ended[server] - begun_at[server] for server in ended]


def main() -> None:
    arguments = parse(
        "moves",
        __doc__,
        Option("hosts", 20, 2, "fake computes"),
        Option("servers", 200, 2, "asked for at once by 8 clients"),
        Option("alone", 30, 1, "one by one"),
        databases.OPTION,
    )
    for folder, transport_url, database_url in databases.each(arguments.database):
        benchmark(folder, transport_url, database_url, arguments)


def benchmark(folder: Path, transport_url: str, database_url: str, arguments: Namespace) -> None:
    usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": 60}}
    with Deployment(folder, transport_url, database_url, **usual) as deployment:
        deployment.manage("db", "upgrade")
        deployment.start()
        with computes.started(deployment, arguments.hosts) as process:
            pids = {name: service.pid for name, service in deployment.services.items()} | {"computes": process.pid}
            measure(Client(deployment.url), pids, arguments)


def measure(client: Client, pids: Mapping[str, int], arguments: Namespace) -> None:
    client.ask("POST", "/v2.1/flavors", {"flavor": {"id": "1", "name": "m1", "vcpus": 1, "ram": 64, "disk": 1}})
    image = client.image("i", "raw", b"\0" * 1024 * 1024)
    hosts = arguments.hosts
    wait_for("all hosts", lambda: len(client.ask("GET", "/v2.1/os-hypervisors")["hypervisors"]) == hosts)

    def boot(number: int) -> Callable[[], str]:
        return lambda: client.create(f"s-{number}", image)[0]

    def act(server: str, action: str) -> Callable[[], str]:
        def ask() -> str:
            client.ask("POST", f"/v2.1/servers/{server}/action", {action: None})
            return server

        return ask

    one_by_one(client, [boot(number) for number in range(arguments.alone)], "ACTIVE")  # warm up
    print(
        f"{'what':14} {'way':10} {'count':>6} {'per s':>7} {'median ms':>9} {'p99 ms':>7}  CPU ms of each: {', '.join(pids)}"
    )
    for way, count in ("one by one", arguments.alone), ("in line", arguments.servers):
        before = statuses(client).keys()
        tell(client, pids, "boots", way, [boot(number) for number in range(count)], "ACTIVE")
        servers = sorted(statuses(client).keys() - before)
        tell(client, pids, "cold moves", way, [act(server, "migrate") for server in servers], MOVED)
        tell(client, pids, "confirmations", way, [act(server, "confirmResize") for server in servers], "ACTIVE")


def tell(
    client: Client,
    pids: Mapping[str, int],
    what: str,
    way: str,
    asks: Sequence[Callable[[], str]],
    wanted: str,
) -> None:
    """Do it and print its line."""
    before = cpu_seconds(dict(pids))
    if way == "in line":
        total, each = in_line(client, asks, wanted)
    else:
        each = one_by_one(client, asks, wanted)
        total = sum(each)
    used = ", ".join(
        f"{(seconds - before[name]) / len(asks) * 1000:.1f}" for name, seconds in cpu_seconds(dict(pids)).items()
    )
    each.sort()
    print(
        f"{what:14} {way:10} {len(asks):6} {len(asks) / total:7.1f} {median(each) * 1000:9.0f} "
        f"{each[ceil(len(each) * 0.99) - 1] * 1000:7.0f}  {used}",
        flush=True,
    )


if __name__ == "__main__":
    main()
