"""Boots per second and time to ACTIVE: conductor, scheduler and API as processes of their own, 50 fake computes in another.

On SQLite, minova's default, and on PostgreSQL. Beside each way stands the CPU time of a boot in each process, which a busy
machine changes less than the time by the clock.

Boots one by one and in one request; queued ones asked for at once, in requests of 1 and of 50. Then the same with a network and
without, in turns, so that other load of the machine meets both.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import psutil
import urllib3

from tests.benchmarks import databases, peers
from tests.benchmarks.boots import computes
from tests.benchmarks.command_line import Option, parse
from tests.integration.deployment import Deployment
from tests.waiting import wait_for

# A connection for each of the threads that ask at once.
HTTP = urllib3.PoolManager(maxsize=8)
# A compute on libvirt that builds nothing: for its memory.
IDLE = "compute"
NETWORK = "/network/v2.0"
# Seconds after a turn in which hosts are still told of its new members: that is a cost of this turn, and must not slow the next one.
AFTERWARDS = 6.0
Networks: TypeAlias = Sequence[dict[str, str]] | str


class Client:
    """Speaks to the API as a tool does, over one connection. `reads`: how often it has read a server so far."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reads = 0

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        # The first in which a server may ask for no network.
        headers = {"OpenStack-API-Version": "compute 2.37"}
        answer = HTTP.request(method, self._url + path, json=body, headers=headers)
        assert answer.status < 300, (answer.status, answer.data)
        return answer.json() if answer.data else None

    def network(self, name: str, cidr: str) -> str:
        network_id = str(self.ask("POST", f"{NETWORK}/networks", {"network": {"name": name}})["network"]["id"])
        subnet = {"network_id": network_id, "ip_version": 4, "cidr": cidr}
        self.ask("POST", f"{NETWORK}/subnets", {"subnet": subnet})
        return network_id

    def create(self, name: str, image: str, count: int = 1, networks: Networks = "none") -> list[str]:
        server: dict[str, Any] = {"name": name, "flavorRef": "1", "imageRef": image, "networks": networks}
        if count == 1:
            return [self.ask("POST", "/v2.1/servers", {"server": server})["server"]["id"]]
        server |= {"min_count": count, "max_count": count, "return_reservation_id": True}
        self.ask("POST", "/v2.1/servers", {"server": server})
        return []

    def image(self, name: str, disk_format: str, data: bytes) -> str:
        """The id of an image with these bytes."""
        body = {"name": name, "disk_format": disk_format, "container_format": "bare"}
        image = str(self.ask("POST", "/v2/images", body)["id"])
        headers = {"Content-Type": "application/octet-stream"}
        answer = HTTP.request("PUT", f"{self._url}/v2/images/{image}/file", body=data, headers=headers)
        assert answer.status == 204, (answer.status, answer.data)
        return image

    def status(self, server: str) -> str:
        self.reads += 1
        return str(self.ask("GET", f"/v2.1/servers/{server}")["server"]["status"])

    def is_active(self, server: str) -> bool:
        return self.status(server) == "ACTIVE"

    def count(self, status: str) -> int:
        servers = self.ask("GET", f"/v2.1/servers?limit=1000&status={status}")["servers"]
        return len(servers)

    def settle(self) -> None:
        """Every server is ACTIVE."""
        while self.ask("GET", "/v2.1/servers?limit=1&status=BUILD")["servers"]:
            time.sleep(0.05)
        assert self.count("ERROR") == 0


def one_by_one(client: Client, image: str, boots: int, networks: Networks = "none") -> list[float]:
    """Seconds from asking to ACTIVE, each server asked for when the one before is ACTIVE."""
    took = []
    for number in range(boots):
        begun = time.monotonic()
        (server,) = client.create(f"one-{number}", image, networks=networks)
        while (status := client.status(server)) != "ACTIVE":
            assert status == "BUILD", status
            time.sleep(0.005)
        took.append(time.monotonic() - begun)
    return took


def read(client: Client, server: str, times: int) -> float:
    begun = time.monotonic()
    for _ in range(times):
        client.status(server)
    return time.monotonic() - begun


def all_at_once(client: Client, image: str, boots: int) -> float:
    before = client.count("ACTIVE")
    begun = time.monotonic()
    client.create("many", image, boots)
    while client.count("ACTIVE") < before + boots:
        assert client.count("ERROR") == 0
        time.sleep(0.02)
    return time.monotonic() - begun


def queued(client: Client, image: str, boots: int, size: int, networks: Networks = "none") -> float:
    """Seconds until all are ACTIVE, asked for by 8 clients in requests of `size`."""
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: client.create(f"q-{number}", image, size, networks), range(boots // size)))
    client.settle()
    return time.monotonic() - begun


def cpu_seconds(pids: dict[str, int]) -> dict[str, float]:
    """User and system time of these processes so far."""
    return {name: sum(psutil.Process(pid).cpu_times()[:2]) for name, pid in pids.items()}


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def main() -> None:
    arguments = parse(
        "boots",
        __doc__,
        Option("hosts", 50, 1, "fake computes"),
        Option("boots", 100, 2, "one by one, and in one request"),
        Option("queued", 500, 50, "asked for at once by 8 clients"),
        # Hosts ask for all of their interfaces once a minute, which makes some turns slower.
        Option("turns", 8, 1, "with a network and without, one after the other"),
        databases.OPTION,
    )
    for folder, transport_url, database_url in databases.each(arguments.database):
        benchmark(folder, transport_url, database_url, arguments)


def benchmark(folder: Path, transport_url: str, database_url: str, arguments: Namespace) -> None:
    usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": 60}}
    with Deployment(folder, transport_url, database_url, **usual) as deployment:
        deployment.compute(IDLE, **usual, libvirt={"connection_uri": "test:///default", "virt_type": "test"})
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up(IDLE)
        deployment.cli("service", "set", "--disable", IDLE)
        with computes.started(deployment, arguments.hosts) as process:
            measure(deployment, process.pid, arguments)


def measure(deployment: Deployment, computes_pid: int, arguments: Namespace) -> None:
    hosts, boots, many = arguments.hosts, arguments.boots, arguments.queued
    client = Client(deployment.url)
    flavor = {"id": "1", "name": "m1", "vcpus": 1, "ram": 64, "disk": 1}
    client.ask("POST", "/v2.1/flavors", {"flavor": flavor})
    image = client.image("i", "raw", b"\0" * 1024 * 1024)
    wait_for("all hosts", lambda: len(client.ask("GET", "/v2.1/os-hypervisors")["hypervisors"]) == hosts + 1)
    for name, service in deployment.services.items():
        print(f"minova-{name:10} {memory_mb(service.pid):4.0f} MB resident, idle")
    one_by_one(client, image, 10)  # warm up
    (server,) = client.create("read", image)
    wait_for("the server that is read", lambda: client.is_active(server))
    pids = {name: service.pid for name, service in deployment.services.items() if name != IDLE}
    pids |= {"computes": computes_pid}
    print(f"{'way':16} {'boots':>6} {'boots/s':>8} {'median':>7} {'p99':>7}  CPU ms of a boot: {', '.join(pids)}")
    ways: dict[str, tuple[int, Callable[[], float | list[float]]]] = {
        "one by one": (boots, lambda: one_by_one(client, image, boots)),
        "one request": (boots, lambda: all_at_once(client, image, boots)),
        "requests of 1": (many, lambda: queued(client, image, many, 1)),
        "requests of 50": (many, lambda: queued(client, image, many, 50)),
        # No boots: what each look at a server costs, of which a client that waits makes many.
        "reads": (10 * boots, lambda: read(client, server, 10 * boots)),
    }
    for way, (count, run) in ways.items():
        before, reads_before = cpu_seconds(pids), client.reads
        took = run()
        used = {name: seconds - before[name] for name, seconds in cpu_seconds(pids).items()}
        single = sorted(took) if isinstance(took, list) else []
        total = sum(single) if isinstance(took, list) else took
        times = f"{median(single) * 1000:7.0f} {single[int(count * 0.99) - 1] * 1000:7.0f}" if single else f"{'':15}"
        costs = ", ".join(f"{seconds / count * 1000:.1f}" for seconds in used.values())
        reads = f"   {(client.reads - reads_before) / count:.1f} reads for each" if single else ""
        print(f"{way:16} {count:6} {count / total:8.1f} {times}  {costs}{peer_of(way)}{reads}", flush=True)
    compare_networks(client, image, arguments, pids)


def peer_of(way: str) -> str:
    return peers.beside("Nova", peers.NOVA_BOOTS.get(way), "boots/s")


def compare_networks(client: Client, image: str, arguments: Namespace, pids: dict[str, int]) -> None:
    """What a boot costs more with a network."""
    ways: dict[str, Networks] = {"none": "none", "one": [{"uuid": client.network("blue", "10.1.0.0/16")}]}
    for networks in ways.values():
        one_by_one(client, image, 1, networks)
    single: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.boots):
        for name, networks in ways.items():
            single[name] += one_by_one(client, image, 1, networks)
    print(f"{'network':16} {'none':>8} {'one':>8}")
    tell("one by one", {name: median(took) * 1000 for name, took in single.items()}, "ms, median")
    for size in (1, 50):
        in_turn = max(arguments.queued // 2 // size, 1) * size
        took: dict[str, list[float]] = {name: [] for name in ways}
        used = {name: dict.fromkeys(pids, 0.0) for name in ways}
        for _ in range(arguments.turns):
            for name, networks in ways.items():
                before = cpu_seconds(pids)
                took[name].append(queued(client, image, in_turn, size, networks))
                time.sleep(AFTERWARDS)
                for process, seconds in cpu_seconds(pids).items():
                    used[name][process] += seconds - before[process]
        server_count = in_turn * arguments.turns
        tell(f"requests of {size}", {name: server_count / sum(seconds) for name, seconds in took.items()}, "boots/s")
        print(
            f"  median of turns {median(none / with_feed for none, with_feed in zip(*took.values(), strict=True)):27.0%}"
        )
        for process in pids:
            tell(f"  {process}", {name: used[name][process] / server_count * 1000 for name in ways}, "CPU ms of a boot")


def tell(way: str, figures: dict[str, float], unit: str) -> None:
    none, with_one = figures["none"], figures["one"]
    print(f"{way:16} {none:8.1f} {with_one:8.1f} {unit}, {with_one / none:.0%}", flush=True)


if __name__ == "__main__":
    main()
