"""Statements over all instances of a large cloud: the filter `ip` of listings, and the audit of Placement.

Instances on 1,000 nodes, each with a port, an address and an allocation.
"""

import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from sqlalchemy import insert, select, text, update

from minova.db import models
from minova.db.api_queries import instances, patterns
from minova.db.engine import Database
from minova.db.upgrade import upgrade
from minova.placement.audit import gather
from tests.benchmarks.command_line import Option, parse
from tests.fakes.interfaces import network_of
from tests.functional.scheduler.cloud import SEEN, add_host, flavor, named
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL

NODES, PROJECTS, CHUNK = 1000, 10, 2000
USED = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}
# Room for all instances.
NODE: dict[str, Any] = {"vcpus": 4000, "memory_mb": 4_000_000, "local_gb": 40_000, "cpu_allocation_ratio": 1.0}


def address(number: int) -> str:
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def fill(db: Database, count: int) -> None:
    with db.write() as session:
        for number in range(NODES):
            add_host(session, f"host-{number}", announce=False, **NODE)
        network = network_of(session)
        network_id = session.scalars(select(models.Network.id).where(models.Network.uuid == network.uuid)).one()
        subnet_id = session.scalars(select(models.Subnet.id).where(models.Subnet.network_id == network_id)).one()
        providers = dict.fromkeys(range(NODES), 0)
        for row in session.execute(select(models.ResourceProvider.name, models.ResourceProvider.id)):
            providers[int(row[0].removeprefix("host-"))] = row[1]
    for first in range(0, count, CHUNK):
        with db.write() as session:
            for model, rows in _rows(range(first, min(first + CHUNK, count)), network_id, subnet_id, providers):
                session.execute(insert(model), rows)
    with db.write() as session:
        each = {number: len(range(number, count, NODES)) for number in range(NODES)}
        for number, provider_id in providers.items():
            for name, amount in USED.items():
                where = (models.Inventory.provider_id == provider_id, models.Inventory.resource_class == name)
                session.execute(update(models.Inventory).where(*where).values(used=each[number] * amount))


def uuid_of(number: int) -> str:
    """Returns one that comes at random in the order of the instances, as each does in a real cloud."""
    return str(uuid.UUID(int=random.Random(number).getrandbits(128)))


def _rows(
    numbers: range, network_id: int, subnet_id: int, providers: dict[int, int]
) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    uuids = {number: uuid_of(number) for number in numbers}
    common = {
        "hostname": "i",
        "user_id": "u",
        "flavor": flavor(),
        "image_ref": named("image"),
        "vm_state": "active",
        "reservation_id": "r-1",
        "created_at": SEEN,
    }
    yield (
        models.Instance,
        [
            {
                **common,
                "uuid": uuids[number],
                "display_name": f"server-{number}",
                "project_id": f"p{number % PROJECTS}",
                "host": f"host-{number % NODES}",
                "node": f"host-{number % NODES}",
            }
            for number in numbers
        ],
    )
    port = {
        "network_id": network_id,
        "name": "",
        "description": "",
        "admin_state_up": True,
        "device_owner": "compute:nova",
        "host": "",
        "status": "ACTIVE",
        "revision_number": 1,
        "nic": 0,
        "created_at": SEEN,
        "updated_at": SEEN,
    }
    yield (
        models.Port,
        [
            {
                **port,
                "id": 1000 + number,
                "uuid": uuid_of((1 << 32) + number),
                "project_id": f"p{number % PROJECTS}",
                "mac_address": f"fa:16:3e:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}",
                "device_id": uuids[number],
                "instance_uuid": uuids[number],
            }
            for number in numbers
        ],
    )
    yield (
        models.IpAllocation,
        [{"subnet_id": subnet_id, "address": address(number), "port_id": 1000 + number} for number in numbers],
    )
    yield models.Consumer, [{"uuid": uuids[number], "claim_number": 1} for number in numbers]
    yield (
        models.Allocation,
        [
            {
                "consumer_uuid": uuids[number],
                "provider_id": providers[number % NODES],
                "resource_class": name,
                "used": amount,
            }
            for number in numbers
            for name, amount in USED.items()
        ],
    )


def by_address(db: Database, expression: str, project_id: str | None, expected: int | None) -> Callable[[], None]:
    instance_filter = instances.InstanceFilter(
        project_id=project_id, patterns=(("ip", patterns.parse("ip", expression)),)
    )

    def ask() -> None:
        with db.read() as session:
            listed = instances.instances(session, instance_filter, [("created_at", True)], None, 50, "nova")
        assert expected in (None, len(listed)), len(listed)

    return ask


def audit(db: Database) -> None:
    with db.read() as session:
        assert gather.findings(session) == []


def measure(db: Database, count: int, rounds: int) -> None:
    middle = count // 2
    questions: dict[str, Callable[[], None]] = {
        "ip of one server, of its project": by_address(db, f"^{address(middle)}$", f"p{middle % PROJECTS}", 1),
        "ip of one server, of all projects": by_address(db, f"^{address(middle)}$", None, 1),
        "ip that no server has": by_address(db, "192.168.0.1", None, 0),
        "ip of a range": by_address(db, "10.0.1.", None, 50),
        "ip of all servers": by_address(db, "10.", None, 50),
        "audit of Placement": lambda: audit(db),
    }
    for name, ask in questions.items():
        ask()
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            ask()
            times.append((time.perf_counter() - begun) * 1000)
        print(
            f"| {db.engine.dialect.name} | {name} | {median(times):.1f} | {sorted(times)[int(len(times) * 0.99)]:.1f} |"
        )


@contextmanager
def database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/minova.sqlite"
        return
    server = PostgreSQL() if kind == "postgresql" else MariaDB()
    with server:
        yield server.fresh_url()


def main() -> None:
    arguments = parse(
        "statements",
        __doc__,
        Option("instances", 200_000, 1000, "of the cloud"),
        Option("rounds", 20, 2, "of each question"),
        Option("database", ["postgresql"], ["sqlite"], "databases", ("postgresql", "mariadb", "sqlite")),
    )
    count, rounds = arguments.instances, arguments.rounds
    for kind in arguments.database:
        with database(kind) as url:
            upgrade(url)
            db = Database(url)
            begun = time.monotonic()
            fill(db, count)
            with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(
                    text("ANALYZE TABLE instances, ports, allocations" if kind == "mariadb" else "ANALYZE")
                )
            print(f"{count} instances written in {time.monotonic() - begun:.0f} s\n")
            print("| database | question | median ms | p99 ms |\n| --- | --- | --- | --- |")
            measure(db, count, rounds)
            db.close()


if __name__ == "__main__":
    main()
