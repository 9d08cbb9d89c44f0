"""A clock that stepped by an hour, the database's or a conductor's, made living services down and dead ones up, gave builds up,
and let leases lapse or last.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from minova.conductor.manager import ConductorManager
from minova.db import clock, models
from minova.db.api_queries import services
from tests.functional.conductor.desk import CTX, Desk
from tests.tables import make_tables

HOUR = 3600.0
STEPS = [HOUR, -HOUR]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    desk = Desk(url, wall=True, instance_build_timeout=300)
    yield desk
    desk.close()


def pass_time(
    desk: Desk, seconds: int, *conductors: ConductorManager, beating: tuple[str, ...] = ("a", "b", "c")
) -> None:
    """Second by second, with every periodic task but the rare ones."""
    for second in range(seconds):
        desk.now += 1
        for conductor in conductors or (desk.conductor,):
            if second % 10 == 0:
                for host in beating:
                    conductor.heartbeat(CTX, host=host, binary="minova-compute")
            for task in conductor.periodic_tasks():
                if task.interval < 60:
                    task.work()
        desk.settle()


def down(desk: Desk) -> set[str]:
    with desk.db.read() as session:
        found = services.services(session, 60.0, desk.db)
        return {row.host for row in found.rows if not found.is_up(row)}


def cloud_now(desk: Desk) -> float:
    with desk.db.read() as session:
        return float(session.scalar(select(desk.db.now())) or 0.0)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("whose", ["step", "host_step"])
def test_a_step_costs_nothing_but_one_interval(desk: Desk, whose: str, step: float) -> None:
    other = desk.start("two")
    (uuid,) = desk.create()
    pass_time(desk, 30, desk.conductor, other)
    before = cloud_now(desk)
    setattr(desk, whose, step)
    assert before - clock.MAX_STEP <= cloud_now(desk) <= before + clock.MAX_STEP
    pass_time(desk, 30, desk.conductor, other)
    assert before + 25 <= cloud_now(desk) <= before + 30 + clock.MAX_STEP
    assert down(desk) == set()
    assert desk.state(uuid) == "building/scheduling on None"
    assert desk.allocated() == {uuid: "a"}
    with desk.db.read() as session:
        assert session.scalars(select(models.Task.epoch)).all() == [1]
    desk.build("a", uuid)
    assert desk.state(uuid) == "active/None on a"


@pytest.mark.parametrize("step", STEPS)
def test_a_dead_host_is_down_in_time_although_the_clock_steps(desk: Desk, step: float) -> None:
    pass_time(desk, 20)
    pass_time(desk, 30, beating=("b", "c"))
    desk.step = step
    pass_time(desk, 40, beating=("b", "c"))
    assert down(desk) == {"a"}


@pytest.mark.parametrize("step", STEPS)
def test_the_tasks_of_a_dead_conductor_are_taken_over_in_time(desk: Desk, step: float) -> None:
    other = desk.start("two")
    (uuid,) = desk.create()
    desk.kill("one")
    pass_time(desk, 5, other)
    desk.step = step
    pass_time(desk, 35, other)
    with desk.db.read() as session:
        task = session.scalars(select(models.Task).where(models.Task.instance_uuid == uuid)).one()
        assert task.worker_id == other.worker.id


def test_while_no_conductor_works_nothing_grows_older(desk: Desk) -> None:
    (uuid,) = desk.create()
    pass_time(desk, 5)
    before = cloud_now(desk)
    desk.now += 900
    assert cloud_now(desk) <= before + clock.MAX_STEP
    pass_time(desk, 5, beating=())
    assert down(desk) == set()
    assert desk.allocated() == {uuid: "a"}


def test_beside_workers_of_the_last_release_the_clock_follows_the_wall_clock(desk: Desk) -> None:
    """They compare leases and heartbeats with it."""
    desk.db.run(lambda session: session.add(models.Worker(id="old", host="old", lease_until=desk.now)))
    desk.now = cloud_now(desk) + 900
    desk.db.advance_clock()
    assert abs(cloud_now(desk) - desk.now) < 1


def test_people_are_shown_wall_time(desk: Desk) -> None:
    pass_time(desk, 5)
    desk.step = HOUR
    pass_time(desk, 21)
    with desk.db.read() as session:
        shown = services.services(session, 60.0, desk.db).last_seen.values()
    assert all(desk.now + desk.step - 10 <= at <= desk.now + desk.step for at in shown)
