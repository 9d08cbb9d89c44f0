"""One real conductor, RabbitMQ and PostgreSQL as processes of their own, and as many simulated computes as asked for.

The first one registers and audits its node, the rows of the others are made after its, and the conductor starts anew. Then, for
SECONDS, is measured what it takes of a core, what the database writes, how late the calls were made, and whether a living
service is ever taken for dead.

python -m tests.benchmarks.computes [HOSTS [SECONDS]]
"""

import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from sqlalchemy import Engine, create_engine, text

from minova.cmd import clients
from minova.compute.manager import AUDIT_INTERVAL, BINARY
from minova.conductor.liveness import Liveness
from minova.context import service_context
from minova.db.engine import Database
from minova.rpc import Rpc
from minova.service import until_available
from tests.benchmarks.computes.clones import clone
from tests.benchmarks.computes.simulation import Compute, Simulation
from tests.benchmarks.computes.wire import Wire
from tests.cluster import configure
from tests.integration.deployment import Deployment
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

DOWN_TIME = 60
LOOK_INTERVAL = 5.0
# Until everybody knows how often to beat and audit.
WARM_UP = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
# Only a transaction that writes takes a number.
_WRITES = text(
    "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, tup_inserted + tup_updated + tup_deleted"
    " FROM pg_stat_database WHERE datname = current_database()"
)


class Watch:
    """Looks again and again whom a conductor would take for dead."""

    def __init__(self, url: str) -> None:
        self.most = 0
        self.known = 0
        self._db = Database(url)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        liveness = Liveness(self._db, down_time=DOWN_TIME, clock=time.time)
        while not self._stopping.wait(LOOK_INTERVAL):
            self.most = max(self.most, len(liveness.down_hosts()))
            self.known = len(liveness.able_hosts())

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._db.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def written(engine: Engine) -> tuple[int, int]:
    """(transactions, rows) written since the database's beginning."""
    with engine.connect() as connection:
        row = connection.execute(_WRITES).one()
        return int(row[0]), int(row[1])


def ready(transport_url: str, folder: Path) -> None:
    rpc = Rpc(configure(folder, host="simulated"), transport_url)
    conductor = clients.conductor(rpc)
    until_available(
        "The conductor", lambda: conductor.instances_of_host(service_context(), host="any"), threading.Event()
    )
    rpc.close()


def benchmark(deployment: Deployment, url: str, transport_url: str, hosts: int, seconds: float) -> None:
    folder = deployment.folder / "simulated"
    ready(transport_url, folder)
    conf, db = configure(folder, host="simulated"), Database(url)
    names = [f"host-{number}" for number in range(hosts)]
    conductor = deployment.services["conductor"]
    with Wire(transport_url) as wire:
        computes = [Compute(name, conf, wire) for name in names]
        computes[0].begin()
        conductor.stop()
        clone(db, names[0], names[1:])
        conductor.start()
        ready(transport_url, folder)
        simulation = Simulation(computes)
        told = wire.heartbeat(service_context(), host=names[0], binary=BINARY, down_reason=None)
        beat, audit = told.heartbeat_interval, max(AUDIT_INTERVAL, told.audit_interval)
        simulation.begin(beat=beat, audit=audit)
        print(f"{hosts} computes beat every {beat:.0f} s, audit every {audit:.0f} s", flush=True)
        engine, watch = create_engine(url), Watch(url)
        simulation.run(WARM_UP)
        before, cpu, own, begun = written(engine), cpu_seconds(conductor.pid), time.process_time(), time.monotonic()
        simulation.run(seconds)
    lasted = time.monotonic() - begun
    spent, own = cpu_seconds(conductor.pid) - cpu, time.process_time() - own
    transactions, rows = (now - then for now, then in zip(written(engine), before, strict=True))
    watch.close()
    db.close()
    engine.dispose()
    late = sorted(simulation.late)
    print(f"calls a second        {simulation.calls / lasted:8.0f}   ({simulation.failed} failed)")
    print(f"conductor, of a core  {spent / lasted:8.0%}   {spent / max(simulation.calls, 1) * 1000:.2f} ms a call")
    print(f"simulation, of a core {own / lasted:8.0%}")
    print(f"transactions a second {transactions / lasted:8.0f}")
    print(f"rows written a second {rows / lasted:8.0f}")
    print(f"calls late by         {median(late):8.2f} s median, {late[int(len(late) * 0.99)]:.2f} s p99")
    print(f"taken for dead        {watch.most:8}   at most at any look; alive at the last {watch.known}")


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
