"""How large the rows of each table are.

Servers are created, built and deleted by a conductor over PostgreSQL, and as many hosts written; then each table's size, indexes included, is divided by its
rows. docs/operators/growth.md has the answers.
"""

import time

from sqlalchemy import text

from minova.db.engine import Database
from minova.db.models import Base
from minova.db.upgrade import upgrade
from minova.simulate.bench_cloud import host_records
from tests.benchmarks.command_line import Option, parse
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.scheduler.cloud import fill as fill_hosts
from tests.servers.postgresql import PostgreSQL

TOGETHER = 10


def fill(harness: ConductorHarness, servers: int) -> None:
    """One in ten is deleted."""
    for name in harness.hosts:
        harness.audit(name, vcpus=16 * servers, memory_mb=1024 * servers, local_gb=10 * servers)
    for number in range(servers // TOGETHER):
        for uuid in harness.create(TOGETHER if number % 2 else 1):
            host = harness.instance(uuid).host or harness.task(uuid).host  # type: ignore[union-attr]
            harness.build(str(host), uuid)
            if number % 10 == 0:
                harness.delete(uuid)
                harness.settle()
                harness.conductor.instance_deleted(CTX, instance_uuid=uuid, host=str(host))


def sizes(url: str, least: int) -> dict[str, tuple[int, int]]:
    """(rows, bytes) of each table that has enough rows to tell."""
    db = Database(url)
    size_by_table = {}
    with db.engine.connect() as connection:
        for name in sorted(Base.metadata.tables):
            rows = connection.execute(text(f"SELECT count(*) FROM {name}")).scalar() or 0
            size = connection.execute(text(f"SELECT pg_total_relation_size('{name}')")).scalar() or 0
            if rows >= least:
                size_by_table[name] = (rows, size)
    db.close()
    return size_by_table


def main() -> None:
    servers = parse("growth", __doc__, Option("servers", 1000, 100, "servers, and hosts")).servers
    with PostgreSQL() as server:
        url, hosts_url = server.fresh_url(), server.fresh_url()
        upgrade(url)
        upgrade(hosts_url)
        harness = ConductorHarness(url)
        fill(harness, servers)
        harness.close()
        db = Database(hosts_url)
        fill_hosts(db, host_records(servers), time.time())
        db.close()
        print(f"{'table':<32} {'rows':>8} {'bytes a row':>12}")
        for name, (rows, size) in {**sizes(hosts_url, 100), **sizes(url, 100)}.items():
            print(f"{name:<32} {rows:>8} {size / rows:>12.0f}", flush=True)


if __name__ == "__main__":
    main()
