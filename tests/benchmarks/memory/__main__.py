"""How much memory each service takes: with many servers that only run, and in the hour of a small cloud that creates and deletes.

The host is a fake one, and is audited every two seconds, thirty times as often as by default: 60 audits are an hour of usual ones. Resident memory is printed as audits, or creates and deletes, go by. It
should not grow after the first ones.
"""

import itertools
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import urllib3

from tests.benchmarks.boots.__main__ import Client
from tests.benchmarks.command_line import Option, parse
from tests.benchmarks.memory.clouds import Cloud, made
from tests.waiting import wait_for

TOGETHER = 50
LOOKS = 6
# Clients that create and delete at the same time, and servers that there are meanwhile.
CLIENTS = 2
SMALL = 30


class Filled:
    """A cloud with an image and a flavor."""

    def __init__(self, cloud: Cloud) -> None:
        self._client = Client(cloud.url)
        self._metrics = cloud.metrics
        self._image = self._client.image("i", "raw", b"\1" * 512)
        if not self._client.ask("GET", "/v2.1/flavors")["flavors"]:  # minova-standalone has made the usual ones
            flavor = {"id": "1", "name": "m1", "vcpus": 1, "ram": 64, "disk": 1}
            self._client.ask("POST", "/v2.1/flavors", {"flavor": flavor})

    def fill(self, servers: int) -> None:
        for _ in range(0, servers, TOGETHER):
            self._client.create("s", self._image, min(TOGETHER, servers))
        wait_for("active servers", lambda: self._running() >= servers, 1200)

    def replace(self, names: range) -> None:
        """Deletes and creates a server for each of the numbers."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self._replace, names))

    def _replace(self, number: int) -> None:
        (server_id,) = self._client.create(f"server-{number}", self._image)
        wait_for("ACTIVE", lambda: self._client.is_active(server_id))
        self._client.ask("DELETE", f"/v2.1/servers/{server_id}")
        wait_for("deleted", lambda: not self._client.ask("GET", f"/v2.1/servers?name=server-{number}$")["servers"])

    def _running(self) -> int:
        return int(self._client.ask("GET", "/v2.1/os-hypervisors/statistics")["hypervisor_statistics"]["running_vms"])

    def audits(self) -> int:
        page = urllib3.request("GET", self._metrics, timeout=60).data.decode()
        counts = (line for line in page.splitlines() if line.startswith('minova_audit_seconds_count{result="ok"}'))
        return int(sum(float(line.rpartition(" ")[2]) for line in counts))


def tell(what: str, processes: Mapping[str, int]) -> None:
    sizes = {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in processes.items()}
    print(f"{what:>20} " + " ".join(f"{name} {size:6.1f} MB " for name, size in sizes.items()), flush=True)


def audited(kind: str, folder: Path, servers: int, audits: int) -> None:
    """The processes are started again when all servers run: memory of the creates is another question."""
    with made(kind, folder) as cloud:
        with cloud.running():
            filled = Filled(cloud)
            filled.fill(servers)
        with cloud.running() as processes:
            for _ in range(LOOKS):
                until = filled.audits() + audits
                wait_for("audits", lambda: filled.audits() >= until, 1200)  # noqa: B023
                tell(f"{filled.audits()} audits", processes)


def churned(kind: str, folder: Path, creates: int) -> None:
    with made(kind, folder) as cloud, cloud.running() as processes:
        filled = Filled(cloud)
        filled.fill(SMALL)
        tell("0 creates", processes)
        steps = sorted({creates * look // LOOKS for look in range(LOOKS + 1)})
        for begin, end in itertools.pairwise(steps):
            filled.replace(range(begin, end))
            tell(f"{end} creates", processes)


def main() -> None:
    options = parse(
        "memory",
        __doc__,
        Option(
            "cloud",
            ["standalone", "apart"],
            ["standalone"],
            "one process, or one for each service",
            ("standalone", "apart"),
        ),
        Option("servers", 2000, 100, "servers that only run"),
        Option("audits", 10, 2, "audits between two figures"),
        Option("creates", 1600, 12, f"creates and deletes, beside {SMALL} servers"),
    )
    for kind in options.cloud:
        with tempfile.TemporaryDirectory(prefix="minova-memory-") as folder:
            print(f"{kind}, {options.servers} servers that only run:")
            audited(kind, Path(folder), options.servers, options.audits)
        with tempfile.TemporaryDirectory(prefix="minova-memory-") as folder:
            print(f"{kind}, {SMALL} servers, and others that are created and deleted:")
            churned(kind, Path(folder), options.creates)


if __name__ == "__main__":
    main()
