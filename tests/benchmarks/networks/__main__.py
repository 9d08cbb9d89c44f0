"""Ports and security groups: conductor, scheduler and API as processes of their own, fake computes in another.

A network of many ports; servers that are members of one group.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.benchmarks import databases
from tests.benchmarks.boots import computes
from tests.benchmarks.boots.__main__ import NETWORK, Client
from tests.benchmarks.command_line import Option, parse
from tests.integration.deployment import Deployment
from tests.waiting import wait_for

CLIENTS = 8
# Of a listing.
PAGE = 100
# Of one request of servers.
TOGETHER = 50
# What a group must be changed in.
PATIENCE = 120.0


class Hosts:
    """What the computes say of their interfaces, as it comes."""

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path) -> None:
        self._folder = folder
        assert process.stdout is not None
        self._lines = process.stdout
        self._said: dict[str, tuple[int, int]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._lines:
            host, port, addresses = line.split()
            self._said[host.decode()] = (int(port), int(addresses))

    def listen(self) -> None:
        """From the next change on."""
        (self._folder / "say").touch()

    def all_let_in(self, hosts: int, *, port: int = 0, addresses: int = 0) -> bool:
        said = list(self._said.values())
        return len(said) == hosts and all(figures[0] >= port and figures[1] >= addresses for figures in said)


class NetworkClient(Client):
    def port(self, network: str) -> None:
        self.ask("POST", f"{NETWORK}/ports", {"port": {"network_id": network}})

    def ports(self, query: str) -> list[Any]:
        return list(self.ask("GET", f"{NETWORK}/ports?{query}")["ports"])

    def fill(self, image: str, network: str, count: int) -> None:
        for size in [TOGETHER] * (count // TOGETHER) + [1] * (count % TOGETHER):
            self.create("s", image, size, [{"uuid": network}])
        self.settle()

    def every_server(self) -> list[str]:
        return self._every("/v2.1/servers?limit=1000", "servers")

    def every_port(self, network: str) -> list[str]:
        return self._every(f"{NETWORK}/ports?limit=1000&network_id={network}&fields=id", "ports")

    def _every(self, path: str, kind: str) -> list[str]:
        """The ids, in pages: one answer has 1,000 at most."""
        ids: list[str] = []
        while True:
            marker = f"&marker={ids[-1]}" if ids else ""
            page = self.ask("GET", f"{path}{marker}")[kind]
            if not page:
                return ids
            ids += [str(resource["id"]) for resource in page]


def say(what: str, figure: float, unit: str) -> None:
    print(f"{what:62} {figure:9.1f} {unit}", flush=True)


def seconds(begun: float) -> float:
    return time.monotonic() - begun


def measure_ports(client: NetworkClient, network: str, count: int) -> None:
    """The last tenth is made on a network that is full of ports."""
    last = max(count // 10, 1)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda _: client.port(network), range(count - last)))
        begun = time.monotonic()
        list(pool.map(lambda _: client.port(network), range(last)))
        say(f"ports made on a network of {count}", last / seconds(begun), "a second")
    took = {}
    ids = client.every_port(network)
    assert len(ids) == count
    for name, marker in (("first", ""), ("middle", f"&marker={ids[count // 2]}"), ("last", f"&marker={ids[-PAGE]}")):
        times = []
        for _ in range(20):
            begun = time.monotonic()
            client.ports(f"network_id={network}&limit={PAGE}{marker}")
            times.append(seconds(begun) * 1000)
        took[name] = median(times)
    for name, milliseconds in took.items():
        say(f"{name} page of {PAGE} ports of {count}, median", milliseconds, "ms")


def measure_group(client: NetworkClient, hosts: Hosts, image: str, network: str, count: int, of: int) -> None:
    hosts.listen()
    client.create("s", image, 1, [{"uuid": network}])
    client.settle()
    (group,) = client.ask("GET", f"{NETWORK}/security-groups?name=default")["security_groups"]
    members = count + 1
    wait_for("all members are known", lambda: hosts.all_let_in(of, addresses=members), PATIENCE)
    rule = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    for port in (80, 443, 8080):
        begun = time.monotonic()
        body = {"security_group_rule": rule | {"port_range_min": port, "port_range_max": port}}
        client.ask("POST", f"{NETWORK}/security-group-rules", body)
        wait_for("the rule", lambda port=port: hosts.all_let_in(of, port=port), PATIENCE)  # type: ignore[misc]  # a default binds the loop's variable
        say(f"a rule on all {of} hosts of a group of {members}", seconds(begun), "s")
    begun = time.monotonic()
    client.create("s", image, 1, [{"uuid": network}])
    wait_for("the member", lambda: hosts.all_let_in(of, addresses=members + 1), PATIENCE)
    say(f"another member of a group of {members} on all hosts", seconds(begun), "s")
    client.settle()


def measure_removal(client: NetworkClient, network: str) -> None:
    servers = client.every_server()
    before = len(client.every_port(network))
    begun = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda server: client.ask("DELETE", f"/v2.1/servers/{server}"), servers))
    wait_for("all are gone", lambda: not client.ask("GET", "/v2.1/servers?limit=1")["servers"], 600.0)
    took = seconds(begun)
    left = len(client.every_port(network))
    say(f"deletion of {len(servers)} servers, which gives back {before - left} of {before} ports", took, "s")
    assert left == 0


@contextmanager
def deployed(folder: Path, transport_url: str, database_url: str, hosts: int) -> Iterator[tuple[NetworkClient, Hosts]]:
    usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": 60}}
    with Deployment(folder, transport_url, database_url, **usual) as deployment:
        deployment.manage("db", "upgrade")
        deployment.start()
        with computes.started(deployment, hosts, "tests.benchmarks.networks.computes") as process:
            said = Hosts(process, folder)
            client = NetworkClient(deployment.url)
            wait_for("all hosts", lambda: len(client.ask("GET", "/v2.1/os-hypervisors")["hypervisors"]) == hosts)
            yield client, said


def measure(client: NetworkClient, said: Hosts, hosts: int, ports: int, servers: int) -> None:
    client.ask("POST", "/v2.1/flavors", {"flavor": {"id": "1", "name": "m1", "vcpus": 1, "ram": 64, "disk": 1}})
    image = client.image("i", "raw", b"\0" * 1024 * 1024)
    blue, full = client.network("blue", "10.1.0.0/16"), client.network("full", "10.2.0.0/16")
    client.fill(image, blue, servers - 1)
    measure_group(client, said, image, blue, servers - 1, hosts)
    measure_removal(client, blue)
    measure_ports(client, full, ports)


def main() -> None:
    arguments = parse(
        "networks",
        __doc__,
        Option("hosts", 50, 2, "fake computes"),
        Option("ports", 10_000, PAGE, "of a network"),
        Option("servers", 1000, 4, "members of a group"),
        databases.OPTION,
    )
    hosts = arguments.hosts
    for folder, transport_url, database_url in databases.each(arguments.database):
        with deployed(folder, transport_url, database_url, hosts) as (client, said):
            measure(client, said, hosts, arguments.ports, arguments.servers)


if __name__ == "__main__":
    main()
