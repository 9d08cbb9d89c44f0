"""One conductor purges, in batches, and another goes on when it is gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from minova.db import models
from tests.fakes.running_conductor import RunningConductor
from tests.functional.conductor.conductor_harness import START, ConductorHarness
from tests.tables import make_tables


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    harness = ConductorHarness(url, conductor__purge_batch_size=10, conductor__purge_pause=0.001)
    yield harness
    harness.close()


def work(conductor: RunningConductor, name: str) -> None:
    next(task for task in conductor.periodic_tasks() if task.name == name).work()


def add_changes(harness: ConductorHarness, count: int, at: float) -> None:
    rows = [{"node_id": 1, "at": at} for _ in range(count)]
    harness.db.run(lambda session: session.execute(insert(models.HostChange), rows))


def test_the_change_feed_is_trimmed_by_age_in_batches(harness: ConductorHarness) -> None:
    young = harness.count(models.HostChange)
    add_changes(harness, 35, START)
    harness.now = START + 601
    add_changes(harness, 3, harness.now)
    harness.tick(harness.conductor)
    assert young > 0
    assert harness.count(models.HostChange) == 3


def test_rows_that_readers_may_need_stay_and_so_does_the_newest(harness: ConductorHarness) -> None:
    before = harness.count(models.HostChange)
    add_changes(harness, 5, START)
    harness.tick(harness.conductor, 599)
    assert harness.count(models.HostChange) == before + 5
    harness.tick(harness.conductor, 2)
    assert harness.count(models.HostChange) == 1


def test_one_conductor_purges_until_its_lease_is_over(harness: ConductorHarness) -> None:
    other = harness.start("two")
    first, second = sorted([harness.conductor, other], key=lambda one: one.worker.id)
    add_changes(harness, 25, START - 1000)
    add_changes(harness, 1, START)
    before = harness.count(models.HostChange)
    work(second, "trim_host_changes")
    assert harness.count(models.HostChange) == before
    harness.now += 1000
    second.worker.renew()  # the first one is gone
    work(second, "trim_host_changes")
    assert harness.count(models.HostChange) == 1
    first.worker.renew()
    add_changes(harness, 1, harness.now - 1000)
    add_changes(harness, 1, harness.now - 1000)
    work(second, "trim_host_changes")
    assert harness.count(models.HostChange) == 3
    work(first, "trim_host_changes")
    assert harness.count(models.HostChange) == 1


def test_a_conductor_that_stops_ends_its_purge_between_two_batches(harness: ConductorHarness) -> None:
    add_changes(harness, 100, START - 1000)
    before = harness.count(models.HostChange)
    harness.conductor.collaborators.purge._stopping.set()
    work(harness.conductor, "trim_host_changes")
    assert harness.count(models.HostChange) == before - 10
