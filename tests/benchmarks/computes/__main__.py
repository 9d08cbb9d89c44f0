"""One real conductor, RabbitMQ and PostgreSQL as processes of their own, and as many simulated computes as asked for.

The first one registers and audits its node, the rows of the others are made after its, and the conductor starts anew. Then it is measured for some time what it takes of a core, what the database writes, how late the calls were made, and whether a living
service is ever taken for dead.
"""

import os
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

from sqlalchemy import text

from minova.cmd.startup import clients
from minova.compute.manager import AUDIT_INTERVAL, BINARY
from minova.conductor.hosts.liveness import Liveness
from minova.context import service_context
from minova.db.engine import Database
from minova.messaging.rpc import Rpc
from minova.service import until_available
from tests.benchmarks.command_line import Option, parse
from tests.benchmarks.computes.clones import clone
from tests.benchmarks.computes.simulation import Compute, Simulation
from tests.benchmarks.computes.wire import Wire
from tests.cluster import configure
from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

DOWN_TIME = 60
LOOK_INTERVAL = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")
# Only a transaction that writes takes a number.
_WRITES = text(
    "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, tup_inserted + tup_updated + tup_deleted"
    " FROM pg_stat_database WHERE datname = current_database()"
)


class Watch:
    """Looks again and again whom a conductor would take for dead."""

    def __init__(self, db: Database) -> None:
        self.most = 0
        self.known = 0
        self._db = db
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        liveness = Liveness(self._db, down_time=DOWN_TIME, clock=time.time)
        while not self._stopping.wait(LOOK_INTERVAL):
            self.most = max(self.most, len(liveness.down_hosts()))
            self.known = len(liveness.present_hosts())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def written(db: Database) -> tuple[int, int]:
    """(transactions, rows) written since the database's beginning."""
    with db.read() as session:
        row = session.execute(_WRITES).one()
        return int(row[0]), int(row[1])


def ready(deployment: Deployment) -> None:
    """Wait until its conductor answers."""
    rpc = Rpc(configure(deployment.folder / "simulated", host="simulated"), deployment.transport_url)
    conductor = clients.conductor(rpc)
    until_available(
        "The conductor", lambda: conductor.instances_of_host(service_context(), host="any"), threading.Event()
    )
    rpc.close()


def begun(deployment: Deployment, db: Database, wire: Wire, hosts: int) -> Simulation:
    """The rows are those of a cloud that has long been there; the conductor has just started."""
    conf = configure(deployment.folder / "simulated", host="simulated")
    names = [f"host-{number}" for number in range(hosts)]
    computes = [Compute(name, conf, wire) for name in names]
    computes[0].begin()
    conductor = deployment.services["conductor"]
    conductor.stop()
    clone(db, names[0], names[1:])
    conductor.start()
    ready(deployment)
    answer = wire.heartbeat(service_context(), host=names[0], binary=BINARY, down_reason=None)
    beat, audit = answer.heartbeat_interval, max(AUDIT_INTERVAL, answer.audit_interval)
    print(f"{hosts} computes beat every {beat:.0f} s, audit every {audit:.0f} s", flush=True)
    simulation = Simulation(computes)
    simulation.begin(beat=beat, audit=audit)
    return simulation


def benchmark(deployment: Deployment, db: Database, hosts: int, seconds: float, warm_up: float) -> None:
    ready(deployment)
    with Wire(deployment.transport_url) as wire:
        simulation = begun(deployment, db, wire, hosts)
        pid = deployment.services["conductor"].pid
        with Watch(db) as watch:
            simulation.run(warm_up)
            before = (*written(db), cpu_seconds(pid), time.process_time(), time.monotonic())
            simulation.run(seconds)
            after = (*written(db), cpu_seconds(pid), time.process_time(), time.monotonic())
    transactions, rows, spent, own, lasted = (now - then for now, then in zip(after, before, strict=True))
    late = sorted(simulation.late)
    print(f"calls a second        {simulation.calls / lasted:8.0f}   ({simulation.failed} failed)")
    print(f"conductor, of a core  {spent / lasted:8.0%}   {spent / max(simulation.calls, 1) * 1000:.2f} ms a call")
    print(f"simulation, of a core {own / lasted:8.0%}")
    print(f"transactions a second {transactions / lasted:8.0f}")
    print(f"rows written a second {rows / lasted:8.0f}")
    print(f"calls late by         {median(late):8.2f} s median, {late[int(len(late) * 0.99)]:.2f} s p99")
    print(f"taken for dead        {watch.most:8}   at most at any look; alive at the last {watch.known}")


def main() -> None:
    arguments = parse(
        "computes",
        __doc__,
        Option("hosts", 10_000, 2, "simulated computes"),
        Option("seconds", 180, 10, "of the measurement"),
        Option("warm-up", 60, 1, "seconds until all computes know how often to beat and audit"),
    )
    with RabbitMQ() as rabbit, PostgreSQL() as database, tempfile.TemporaryDirectory() as folder:
        url, transport_url = database.fresh_url(), rabbit.fresh_url()
        usual = {"DEFAULT": {"debug": "false", "report_interval": 10, "service_down_time": DOWN_TIME}}
        with Deployment(Path(folder), transport_url, url, **usual) as deployment:
            deployment.manage("db", "upgrade")
            deployment.services = {"conductor": deployment.services["conductor"]}
            deployment.start()
            db = Database(url)
            try:
                benchmark(deployment, db, arguments.hosts, arguments.seconds, arguments.warm_up)
            finally:
                db.close()


if __name__ == "__main__":
    main()
