"""One conductor purges, in batches, and another goes on when it is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from minova.conductor.manager import ConductorManager
from minova.db import models
from tests.functional.conductor.desk import START, Desk
from tests.tables import make_tables


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    made = Desk(url, conductor__purge_batch_size=10, conductor__purge_pause=0.001)
    yield made
    made.close()


def work(conductor: ConductorManager, name: str) -> None:
    next(task for task in conductor.periodic_tasks() if task.name == name).work()


def add_changes(desk: Desk, count: int, at: float) -> None:
    rows = [{"node_id": 1, "at": at} for _ in range(count)]
    desk.db.run(lambda session: session.execute(insert(models.HostChange), rows))


def test_the_change_feed_is_trimmed_by_age_in_batches(desk: Desk) -> None:
    young = desk.count(models.HostChange)
    add_changes(desk, 35, START)
    desk.now = START + 601
    add_changes(desk, 3, desk.now)
    desk.tick(desk.conductor)
    assert young > 0
    assert desk.count(models.HostChange) == 3


def test_rows_that_readers_may_need_stay_and_so_does_the_newest(desk: Desk) -> None:
    before = desk.count(models.HostChange)
    add_changes(desk, 5, START)
    desk.tick(desk.conductor, 599)
    assert desk.count(models.HostChange) == before + 5
    desk.tick(desk.conductor, 2)
    assert desk.count(models.HostChange) == 1


def test_one_conductor_purges_until_its_lease_is_over(desk: Desk) -> None:
    other = desk.start("two")
    first, second = sorted([desk.conductor, other], key=lambda one: one.worker.id)
    add_changes(desk, 25, START - 1000)
    add_changes(desk, 1, START)
    before = desk.count(models.HostChange)
    work(second, "trim_host_changes")
    assert desk.count(models.HostChange) == before
    desk.now += 1000
    second.worker.renew()  # the first one is gone
    work(second, "trim_host_changes")
    assert desk.count(models.HostChange) == 1
    first.worker.renew()
    add_changes(desk, 1, desk.now - 1000)
    add_changes(desk, 1, desk.now - 1000)
    work(second, "trim_host_changes")
    assert desk.count(models.HostChange) == 3
    work(first, "trim_host_changes")
    assert desk.count(models.HostChange) == 1


def test_a_conductor_that_stops_ends_its_purge_between_two_batches(desk: Desk) -> None:
    add_changes(desk, 100, START - 1000)
    before = desk.count(models.HostChange)
    desk.conductor._stopping.set()
    work(desk.conductor, "trim_host_changes")
    assert desk.count(models.HostChange) == before - 10
