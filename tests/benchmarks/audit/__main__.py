"""Time and calls of an audit, and time of a claim, with 1, 100 and 500 instances on a node.

On a fake hypervisor and on libvirt's test driver with as many domains; the conductor on SQLite, in the same process: the
figures are of the work itself, without a bus.
"""

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, cast

from minova import virt
from minova.cmd.compute import make_manager as make_compute_manager
from minova.cmd.conductor import make_manager
from minova.compute.images.source import ImageSource
from minova.context import service_context
from minova.db.engine import Database
from minova.db.upgrade import upgrade
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.server_request import CreateServers
from minova.scheduler.manager import SchedulerManager
from tests.benchmarks.command_line import Option, parse
from tests.cluster import configure
from tests.fakes.hypervisor import Hypervisor
from tests.fakes.running_conductor import running

HOST = "node"
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=1, root_gb=0)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
RATIOS: dict[str, Any] = {"cpu_allocation_ratio": 100.0, "ram_allocation_ratio": 10.0, "reserved_host_memory_mb": 0}


class Counted:
    """The conductor as a compute sees it, with the number of its calls by name."""

    def __init__(self, conductor: Any) -> None:
        self._conductor = conductor
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._conductor, name)

        def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return method(*args, **named)

        return call


class Node:
    """One compute beside a conductor and a scheduler, all in this thread."""

    def __init__(self, folder: Path, libvirt: bool) -> None:
        conf = configure(folder, host=HOST, **RATIOS)
        url = f"sqlite:///{folder}/minova.sqlite"
        upgrade(url)
        self.db = Database(url)
        self._waiting: list[Callable[[], None]] = []
        scheduler = SchedulerManager(conf, self.db, None, host="s")
        self._conductor = running(
            make_manager(
                conf,
                self.db,
                cast(Any, scheduler),
                lambda _: cast(Any, self.compute),
                host="conductor",
                spawn=self._waiting.append,
            )
        )
        self._conductor.init_host()
        if libvirt:
            conf.set_override("compute_driver", "libvirt")
            conf.set_override("virt_type", "test", group="libvirt")
            conf.set_override("connection_uri", "test:///default", group="libvirt")
        self.driver: Any = virt.load(conf) if libvirt else Hypervisor(HOST)
        self.counted = Counted(self._conductor)
        self.compute = make_compute_manager(
            conf,
            self.driver,
            cast(Any, self.counted),
            host=HOST,
            images=cast(ImageSource, None),
            spawn=self._waiting.append,
        )
        self.compute.init_host()
        self.compute.pre_start_hook()
        self._settle()
        (self.tracker,) = self.compute._nodes.trackers()
        self.claims: list[float] = []
        self._time_claims()

    def _time_claims(self) -> None:
        claim = self.tracker.instance_claim

        def timed(*args: Any) -> Any:
            begun = time.perf_counter()
            instance_claim = claim(*args)
            self.claims.append(time.perf_counter() - begun)
            return instance_claim

        self.tracker.instance_claim = timed  # type: ignore[assignment, method-assign]

    def boot(self, count: int) -> None:
        request = CreateServers(name="vm", flavor=FLAVOR, image=IMAGE, min_count=count, max_count=count)
        self._conductor.create_servers(service_context(), request=request)
        self._settle()
        self.compute.report_changes()

    def _settle(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()

    def audit(self) -> float:
        begun = time.perf_counter()
        self.compute.update_available_resource()
        return time.perf_counter() - begun

    def close(self) -> None:
        for domain in self.driver.domains():
            if domain.ours:
                self.driver.destroy(domain.uuid)
        self.driver.close()
        self.db.close()


def shown(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{median(ordered) * 1000:9.1f} ms {ordered[int(len(ordered) * 0.99)] * 1000:9.1f} ms"


def main() -> None:
    arguments = parse(
        "audit",
        __doc__,
        Option("instances", [1, 100, 500], [1], "numbers of instances on the node, rising"),
        Option("rounds", 30, 2, "audits, and claims, of each"),
    )
    logging.disable(logging.WARNING)
    columns = f"{'audit, median':>12} {'p99':>10} {'calls':>6} {'claim, median':>14} {'p99':>10}"
    print(f"{'driver':14} {'instances':>9} {columns}")
    for name, libvirt in (("fake", False), ("libvirt test", True)):
        with tempfile.TemporaryDirectory() as folder:
            node = Node(Path(folder), libvirt)
            there = 0
            for size in arguments.instances:
                node.boot(size - there)
                audits = [node.audit() for _ in range(arguments.rounds + 1)][1:]
                node.counted.calls.clear()
                node.audit()
                calls = node.counted.calls.total()
                node.claims.clear()
                for _ in range(arguments.rounds):
                    node.boot(1)
                there = size + arguments.rounds
                print(f"{name:14} {size:9} {shown(audits)} {calls:6} {shown(node.claims)}", flush=True)
            node.close()


if __name__ == "__main__":
    main()
