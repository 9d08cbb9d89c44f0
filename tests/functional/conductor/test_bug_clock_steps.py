"""A clock that stepped by an hour, the database's or a conductor's, made living services down and dead ones up, gave builds up,
and let leases lapse or last.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from minova.db import clock, models
from minova.db.api_queries import services
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.tables import make_tables

HOUR = 3600.0
STEPS = [HOUR, -HOUR]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url, wall=True, instance_build_timeout=300)
    yield harness
    harness.close()


def pass_time(
    harness: ConductorHarness, seconds: int, *conductors: RunningConductor, beating: tuple[str, ...] = ("a", "b", "c")
) -> None:
    """Second by second, with every periodic task but the rare ones."""
    for second in range(seconds):
        harness.now += 1
        for conductor in conductors or (harness.conductor,):
            if second % 10 == 0:
                for host in beating:
                    conductor.heartbeat(CTX, host=host, binary="minova-compute")
            for task in conductor.periodic_tasks():
                if task.interval < 60:
                    task.work()
        harness.settle()


def down(harness: ConductorHarness) -> set[str]:
    with harness.db.read() as session:
        service_list = services.services(session, 60.0, harness.db)
        return {row.host for row in service_list.rows if not service_list.is_up(row)}


def cloud_now(harness: ConductorHarness) -> float:
    with harness.db.read() as session:
        return float(session.scalar(select(harness.db.now())) or 0.0)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("whose", ["step", "host_step"])
def test_a_step_costs_nothing_but_one_interval(harness: ConductorHarness, whose: str, step: float) -> None:
    other = harness.start("two")
    (uuid,) = harness.create()
    pass_time(harness, 30, harness.conductor, other)
    before = cloud_now(harness)
    setattr(harness, whose, step)
    assert before - clock.MAX_STEP <= cloud_now(harness) <= before + clock.MAX_STEP
    pass_time(harness, 30, harness.conductor, other)
    assert before + 25 <= cloud_now(harness) <= before + 30 + clock.MAX_STEP
    assert down(harness) == set()
    assert harness.state(uuid) == "building/scheduling on None"
    assert harness.allocated() == {uuid: "a"}
    with harness.db.read() as session:
        assert session.scalars(select(models.Task.epoch)).all() == [1]
    harness.build("a", uuid)
    assert harness.state(uuid) == "active/None on a"


@pytest.mark.parametrize("step", STEPS)
def test_a_dead_host_is_down_in_time_although_the_clock_steps(harness: ConductorHarness, step: float) -> None:
    pass_time(harness, 20)
    pass_time(harness, 30, beating=("b", "c"))
    harness.step = step
    pass_time(harness, 40, beating=("b", "c"))
    assert down(harness) == {"a"}


@pytest.mark.parametrize("step", STEPS)
def test_the_tasks_of_a_dead_conductor_are_taken_over_in_time(harness: ConductorHarness, step: float) -> None:
    other = harness.start("two")
    (uuid,) = harness.create()
    harness.kill("one")
    pass_time(harness, 5, other)
    harness.step = step
    pass_time(harness, 35, other)
    with harness.db.read() as session:
        task = session.scalars(select(models.Task).where(models.Task.instance_uuid == uuid)).one()
        assert task.worker_id == other.worker.id


def test_while_no_conductor_works_nothing_grows_older(harness: ConductorHarness) -> None:
    (uuid,) = harness.create()
    pass_time(harness, 5)
    before = cloud_now(harness)
    harness.now += 900
    assert cloud_now(harness) <= before + clock.MAX_STEP
    pass_time(harness, 5, beating=())
    assert down(harness) == set()
    assert harness.allocated() == {uuid: "a"}


def test_beside_workers_of_the_last_release_the_clock_follows_the_wall_clock(harness: ConductorHarness) -> None:
    """They compare leases and heartbeats with it."""
    harness.db.run(lambda session: session.add(models.Worker(id="old", host="old", lease_until=harness.now)))
    harness.now = cloud_now(harness) + 900
    harness.db.advance_clock()
    assert abs(cloud_now(harness) - harness.now) < 1


def test_people_are_shown_wall_time(harness: ConductorHarness) -> None:
    pass_time(harness, 5)
    harness.step = HOUR
    pass_time(harness, 21)
    with harness.db.read() as session:
        shown = services.services(session, 60.0, harness.db).last_seen.values()
    assert all(harness.now + harness.step - 10 <= at <= harness.now + harness.step for at in shown)
