"""One real conductor, RabbitMQ and PostgreSQL as processes of their own, and as many simulated computes as asked for.

Each registers, audits its node, and from then on beats as often as the conductor tells it and audits every minute. Shown
are the conductor's share of a core, what the database writes, how late the calls were made, and whether a living service was
ever taken for dead.

python -m tests.benchmarks.computes [HOSTS [SECONDS]]
"""

import heapq
import os
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import create_engine, text

from minova.cmd import clients
from minova.compute.manager import AUDIT_INTERVAL, BINARY
from minova.compute.nodes import settings_from
from minova.compute.resource_tracker import ResourceTracker
from minova.conductor.liveness import Liveness
from minova.context import service_context
from minova.db.engine import Database
from minova.objects.service import Service
from minova.rpc import Rpc
from minova.service import until_available
from tests.cluster import configure
from tests.fakes.hypervisor import Hypervisor
from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

THREADS = 16
DOWN_TIME = 60
LOOK_INTERVAL = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
_WRITES = text(
    "SELECT xact_commit, tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = current_database()"
)


class Compute:
    """A tracker as a compute has it, on a fake hypervisor without domains."""

    def __init__(self, host: str, conf: Any, conductor: Any) -> None:
        self.host = host
        self._conductor = conductor
        self._tracker = ResourceTracker(settings_from(conf, host), host, Hypervisor(host), conductor)

    def begin(self) -> float:
        """Seconds to the next beat."""
        service = Service(
            uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, self.host)), host=self.host, binary=BINARY, topic="compute"
        )
        told = self._conductor.register_service(service_context(), service=service)
        self.audit()
        return float(told.heartbeat_interval)

    def beat(self) -> float:
        told = self._conductor.heartbeat(service_context(), host=self.host, binary=BINARY, down_reason=None)
        return float(told.heartbeat_interval)

    def audit(self) -> float:
        self._tracker.update_available_resource(service_context())
        return AUDIT_INTERVAL


class Simulation:
    """Threads that make each call when its time has come, earliest first."""

    def __init__(self, computes: list[Compute]) -> None:
        self._computes = computes
        self._due: list[tuple[float, int, str]] = []
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self.late: list[float] = []
        self.calls = 0
        self.failed = 0

    def begin(self) -> float:
        """All register and audit once; seconds that took."""
        begun = time.monotonic()
        waiting = list(range(len(self._computes)))

        def work() -> None:
            while True:
                with self._lock:
                    if not waiting:
                        return
                    number = waiting.pop()
                interval = until_available("The conductor", self._computes[number].begin, self.stopping)
                spread = number / len(self._computes)
                with self._lock:
                    now = time.monotonic()
                    heapq.heappush(self._due, (now + interval * spread, number, "beat"))
                    heapq.heappush(self._due, (now + AUDIT_INTERVAL * spread, number, "audit"))

        self._in_threads(work)
        return time.monotonic() - begun

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds

        def work() -> None:
            while time.monotonic() < until:
                with self._lock:
                    now = time.monotonic()
                    at, number, what = self._due[0] if self._due else (until, 0, "")
                    ready = at <= now and bool(self._due)
                    if ready:
                        heapq.heappop(self._due)
                if not ready:
                    time.sleep(max(0.0, min(0.01, at - now)))
                    continue
                self._call(at, number, what)

        self._in_threads(work)

    def _call(self, at: float, number: int, what: str) -> None:
        late = time.monotonic() - at
        interval = 10.0
        try:
            interval = getattr(self._computes[number], what)()
        except Exception as error:  # noqa: BLE001  - the figures say how many
            print(f"{what}: {error}", file=sys.stderr)
            self.failed += 1
        with self._lock:
            self.calls += 2 if what == "audit" else 1
            self.late.append(late)
            heapq.heappush(self._due, (time.monotonic() + interval, number, what))

    def _in_threads(self, work: Any) -> None:
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def watch_for_dead(db: Database, stopping: threading.Event, most: list[int]) -> None:
    liveness = Liveness(db, down_time=DOWN_TIME, clock=time.time)
    while not stopping.wait(LOOK_INTERVAL):
        most.append(len(liveness.down_hosts()))


def benchmark(deployment: Deployment, url: str, transport_url: str, hosts: int, seconds: float) -> None:
    conf = configure(deployment.folder / "simulated", host="simulated")
    rpc = Rpc(conf, transport_url)
    conductor = clients.conductor(rpc)
    simulation = Simulation([Compute(f"host-{number}", conf, conductor) for number in range(hosts)])
    took = simulation.begin()
    print(f"{hosts} computes registered and audited in {took:.0f} s", flush=True)
    engine, db = create_engine(url), Database(url)
    pid = deployment.services["conductor"].pid
    stopping, down = threading.Event(), [0]
    watcher = threading.Thread(target=watch_for_dead, args=(db, stopping, down))
    watcher.start()
    before, cpu = written(engine), cpu_seconds(pid)
    begun = time.monotonic()
    simulation.run(seconds)
    lasted = time.monotonic() - begun
    after, spent = written(engine), cpu_seconds(pid) - cpu
    stopping.set()
    watcher.join()
    late = sorted(simulation.late)
    print(f"calls a second       {simulation.calls / lasted:8.0f}   ({simulation.failed} failed)")
    print(f"conductor, of a core {spent / lasted:8.0%}   {spent / max(simulation.calls, 1) * 1000:.2f} ms a call")
    print(f"commits a second     {(after[0] - before[0]) / lasted:8.0f}")
    print(f"rows written, 1/s    {(after[1] - before[1]) / lasted:8.0f}")
    print(f"calls late by        {median(late):8.2f} s median, {late[int(len(late) * 0.99)]:.2f} s p99")
    print(f"taken for dead       {max(down):8}   most at any look")
    rpc.close()
    db.close()
    engine.dispose()


def written(engine: Any) -> tuple[int, int]:
    with engine.connect() as connection:
        row = connection.execute(_WRITES).one()
        return int(row[0]), int(row[1])


def main() -> None:
    hosts, seconds = (int(word) for word in (sys.argv[1:] + ["10000", "180"][len(sys.argv) - 1 :]))
    with RabbitMQ() as rabbit, PostgreSQL() as database, tempfile.TemporaryDirectory() as folder:
        url, transport_url = database.fresh_url(), rabbit.fresh_url()
        usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": DOWN_TIME}}
        with Deployment(Path(folder), transport_url, url, **usual) as deployment:
            deployment.manage("db", "upgrade")
            deployment.services = {"conductor": deployment.services["conductor"]}
            deployment.start()
            benchmark(deployment, url, transport_url, hosts, seconds)


if __name__ == "__main__":
    main()
