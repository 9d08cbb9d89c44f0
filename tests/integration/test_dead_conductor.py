"""Two conductors as processes: a standstill of 8 s costs the one none of its tasks, and its death gives them to the other within 10 s."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import select

from minova import conf as configuration
from minova.contracts.conductor import ConductorApi
from minova.db.engine import Database
from minova.db.models.tasks import Task, Worker
from minova.messaging.rpc import Rpc
from tests.cluster import user
from tests.functional.conductor.conductor_harness import request
from tests.integration.deployment import Executable
from tests.waiting import wait_for

LEASE = 9.0  # seconds: the default of [conductor] worker_lease
STANDSTILL = 8.0
TAKEN_WITHIN = 10.0
RENEWED_EVERY = 0.5
SERVERS = 5
# How often a conductor is stopped until it renews its lease in time, on a machine that is too busy for that.
TRIES = 4


class Seen(NamedTuple):
    """At one moment by the cloud clock: the hosts of the conductors that own the tasks, and until when each lease lasts."""

    at: float
    owners: dict[str, str]
    leases: dict[str, float]


class Conductors:
    """`one` and `two`, with no service beside them: tasks wait for a scheduler all the time."""

    def __init__(self, folder: Path, transport_url: str, database_url: str) -> None:
        options = {"transport_url": transport_url, "report_interval": 1}
        self.running = {
            name: Executable(
                "minova-conductor",
                folder / name,
                {
                    "DEFAULT": {**options, "host": name, "state_path": folder / name},
                    "database": {"connection": database_url},
                    "conductor": {"schedule_timeout": 600},
                },
            )
            for name in ("one", "two")
        }
        self.running["one"].manage("db", "upgrade")
        self._db = Database(database_url)
        self._rpc = Rpc(configuration.load([], "test", files=[]), transport_url)
        for executable in self.running.values():
            executable.start()
        for name, executable in self.running.items():
            wait_for(f"{name} to start", lambda log=executable: " started" in log.log, 120)  # type: ignore[misc]

    def create(self, name: str) -> set[str]:
        """Servers whose tasks are that conductor's."""
        conductor = self._rpc.client(ConductorApi, server=name, timeout=60)
        return set(conductor.create_servers(user(), request=request(SERVERS)).instance_uuids)

    def look(self) -> Seen:
        with self._db.read() as session:
            at = session.scalar(select(self._db.now()))
            workers = {row.id: row for row in session.scalars(select(Worker))}
            tasks = session.scalars(select(Task)).all()
        owners = {task.instance_uuid: workers[task.worker_id].host for task in tasks}
        assert at is not None
        return Seen(at, owners, {row.host: row.lease_until for row in workers.values()})

    def close(self) -> None:
        for executable in self.running.values():
            executable.kill()
        self._rpc.close()
        self._db.close()

    @property
    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{each.log[-4000:]}" for name, each in self.running.items())


@pytest.fixture
def conductors(
    tmp_path: Path, fresh_rabbit_url: Callable[[], str], fresh_postgresql_url: Callable[[], str]
) -> Iterator[Conductors]:
    conductors = Conductors(tmp_path, fresh_rabbit_url(), fresh_postgresql_url())
    yield conductors
    conductors.close()


def stand_still(conductors: Conductors, name: str) -> bool:
    """Stop that conductor for a while. False: it got its lease renewed too late, so that another one may have its tasks."""
    seen = conductors.look()
    while seen.leases[name] - seen.at < LEASE - 0.1:
        seen = conductors.look()
    conductors.running[name].signal(signal.SIGSTOP)
    time.sleep(STANDSTILL)
    conductors.running[name].signal(signal.SIGCONT)
    stopped = conductors.look()
    while (seen := conductors.look()).leases[name] == stopped.leases[name]:
        if seen.at > stopped.leases[name]:
            return False
    return True


def test_a_conductor_that_stands_still_keeps_its_tasks_and_a_dead_one_does_not(conductors: Conductors) -> None:
    of_one, of_two = conductors.create("one"), conductors.create("two")
    before = conductors.look().owners
    assert before == dict.fromkeys(of_one, "one") | dict.fromkeys(of_two, "two")

    for _ in range(TRIES):
        if stand_still(conductors, "one"):
            break
        wait_for("the tasks of two", lambda: set(conductors.look().owners.values()) == {"two"}, 60)
        of_one, of_two = conductors.create("one"), of_two | of_one
    else:
        raise AssertionError(f"one does not renew its lease in time\n{conductors.logs}")
    until = time.monotonic() + 3
    while time.monotonic() < until:
        assert {uuid for uuid, owner in conductors.look().owners.items() if owner == "one"} == of_one, conductors.logs
        time.sleep(0.2)

    conductors.running["one"].kill()
    killed = time.monotonic()
    latest, gap = conductors.look().leases["two"], RENEWED_EVERY
    while True:
        seen = conductors.look()
        # How long the other conductor needs for what it does twice a second: on a busy machine it looks later for tasks, too.
        gap = max(gap, LEASE - (latest - seen.at)) if seen.leases["two"] == latest else gap
        latest = seen.leases["two"]
        if set(seen.owners.values()) == {"two"}:
            break
        assert time.monotonic() - killed < 60, conductors.logs
        time.sleep(0.05)
    took = time.monotonic() - killed
    print(f"taken over after {took:.1f} s; the other one's renewals lay up to {gap:.1f} s apart")
    assert took < TAKEN_WITHIN + gap - RENEWED_EVERY, conductors.logs
    assert set(seen.owners) == of_one | of_two
