"""The clock of a real database server steps by an hour: leases, deadlines and heartbeats lose one interval at most."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, text

from minova.cmd.conductor import make_manager
from minova.db import clock, models
from minova.db.api_queries import services
from minova.db.engine import Database
from minova.db.servers import tasks
from minova.db.upgrade import upgrade
from minova.objects.hosts.service import Service
from tests.cluster import configure
from tests.fakes.running_conductor import RunningConductor, running
from tests.functional.conductor.conductor_harness import CTX
from tests.functional.conductor.fakes import FakeHost, FakeScheduler
from tests.functional.scheduler.cloud import named
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.stepped_clock import SteppedClock

HOUR = 3600.0
# A summer-time zone: its clock shows an hour twice in autumn.
ZONE = {"TZ": "Europe/Zurich", "PGTZ": "Europe/Zurich"}


@pytest.fixture
def steps(tmp_path: Path) -> SteppedClock:
    return SteppedClock(tmp_path / "clock")


@pytest.fixture(params=[PostgreSQL, MariaDB])
def db(request: pytest.FixtureRequest, steps: SteppedClock) -> Iterator[Database]:
    with request.param(environment={**steps.environment, **ZONE}) as server:
        upgrade(server.url)
        database = Database(server.url)
        yield database
        database.close()


@pytest.fixture
def conductor(db: Database, tmp_path: Path) -> RunningConductor:
    manager = running(
        make_manager(
            configure(tmp_path, host="one"), db, FakeScheduler(db), FakeHost, host="one", spawn=lambda work: work()
        )
    )
    manager.init_host()
    for host in ("a", "b"):
        service = Service(uuid=named(host), host=host, binary="minova-compute", topic="compute")
        manager.register_service(CTX, service=service)
    return manager


def now(db: Database) -> float:
    with db.read() as session:
        return float(session.scalar(select(db.now())) or 0.0)


def test_a_step_of_the_server_costs_one_interval(
    db: Database, steps: SteppedClock, conductor: RunningConductor
) -> None:
    before = now(db)
    for offset in (HOUR, 0.0, -HOUR):
        steps.step_to(offset)
        assert abs(now(db) - before) < 60
        for task in conductor.periodic_tasks():
            if task.interval < 60:
                task.work()
        assert abs(now(db) - before) < 60
        with db.read() as session:
            service_list = services.services(session, 60.0, db)
            assert (service_list.down, service_list.in_doubt) == (frozenset(), frozenset())
            assert session.scalar(select(models.Worker.lease_until > db.now()))
    assert db.run(lambda session: tasks.take_over(session, named("another"), db.now(), 10)) == []


def test_advances_at_the_same_time_do_not_add_up(db: Database) -> None:
    before = now(db)
    for _ in range(20):
        db.advance_clock()
    assert now(db) - before < 20 * clock.MAX_STEP / 2


def test_sessions_are_in_utc(db: Database) -> None:
    zone = "SELECT @@session.time_zone" if db.dialect == "mysql" else "SHOW timezone"
    with db.read() as session:
        assert session.scalar(text(zone)) in {"+00:00", "UTC"}
