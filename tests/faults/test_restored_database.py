"""The database goes back in time while servers are made, stopped, started, rebuilt and deleted: nothing that runs dies."""

import os
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from minova.conductor.tasks.history import CONFIRM
from tests.faults.cloud import CONTROLLERS, Cloud
from tests.faults.restores import have_reported, in_transit, is_lost, recover
from tests.faults.storms import DOUBLE, STORM, STORMS
from tests.faults.world import DOWN_FOR, HANGS, Faults

pytestmark = pytest.mark.timeout(600)
# As many as seeds of storms, by fifty: tools/check nightly tries 20.
SEEDS = max(1, int(os.environ.get("MINOVA_SEEDS", "50")) // 50)
# tools/check nightly tries 40. The first one is the core.
SEEDS_OF_STORMS = SEEDS if SEEDS == 1 else SEEDS * 2
ROOMY: dict[str, object] = {"fake_vcpus": 64, "fake_memory_mb": 65536, "fake_local_gb": 1000, "report_interval": 10}
ACTIONS = (
    "stop",
    "start",
    "rebuild",
    "reboot_hard",
    "shelve",
    "unshelve",
    "soft_delete",
    "restore",
    "suspend",
    "resume",
)


# Seconds: more than between two renewals.
LOOK = 14.0
OTHER_PAIR = pytest.mark.nightly("each day has both restarts and both ages, in two pairs of the four")


def busy(cloud: Cloud, first: int, seconds: float) -> None:
    """Users make servers, and act on them."""
    world = cloud.world
    for number in range(first, first + 6):
        world.later(world.random.uniform(0, seconds / 2), None, partial(cloud.create, number, 2))
        for _ in range(4):
            kind = world.random.choice(ACTIONS)
            world.later(world.random.uniform(0, seconds), None, partial(cloud.act_on_one, kind))
    world.run(seconds)


@pytest.mark.parametrize(
    ("restart", "lost"),
    [
        pytest.param(False, 60.0, id="services live on, a backup of a minute ago"),
        pytest.param(True, 5.0, id="services start again, a replica that lacks 5 s"),
        pytest.param(False, 5.0, id="services live on, a replica that lacks 5 s", marks=OTHER_PAIR),
        pytest.param(True, 60.0, id="services start again, a backup of a minute ago", marks=OTHER_PAIR),
    ],
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_that_runs_dies(tmp_path: Path, seed: int, restart: bool, lost: float) -> None:
    cloud = Cloud(seed, tmp_path, hosts=3, **ROOMY)
    world = cloud.world
    try:
        world.run(30.0)
        busy(cloud, 1, 90.0)
        cloud.back_up()
        busy(cloud, 100, lost)
        world.run(0.5)
        before = cloud.running()
        cloud.restore()
        if restart:
            world.keep_down([*CONTROLLERS["conductor"], *CONTROLLERS["scheduler"], *cloud.hosts], 20.0)
            world.run(20.0)
        world.run(20.0 + CONFIRM)
        since = cloud.safe_since()
        world.run(600.0)
        assert before - cloud.running() == set()
        assert since is not None
        recover(cloud)
        world.run(600.0)
        assert cloud.safe_since() is None
        assert before - cloud.running() == set()
        assert [violation for violation in cloud.violations() if not is_lost(violation)] == []
        assert cloud.unexpected() == []
    finally:
        world.close()


def test_bug_host_that_restarted_in_the_lost_time_never_reports(tmp_path: Path) -> None:
    """The conductors live on: they know the process of the host from the database that is lost."""
    cloud = Cloud(1, tmp_path, hosts=1, **ROOMY)
    world = cloud.world
    try:
        world.run(30.0)
        cloud.back_up()
        cloud.create(1, 1)
        world.keep_down(cloud.hosts, 1.0)
        world.run(max(DOWN_FOR) + 30.0)
        before = cloud.running()
        assert before
        cloud.restore()
        world.run(200.0)
        assert have_reported(cloud)
        recover(cloud)
        world.run(30.0)
        assert (cloud.running(), cloud.violations()) == (before, [])
    finally:
        world.close()


# With these storms the database goes back, too. The first is that of the core.
NAMES = (
    "processes die while drivers are slow",
    "all at once",
    "messages are lost",
    "casts come late",
    "processes die",
    "drivers are slow and hang",
    "hypervisors go away",
    "answers to commits are lost",
)


@pytest.mark.parametrize("seed", range(SEEDS_OF_STORMS))
def test_nothing_that_runs_dies_in_a_storm(tmp_path: Path, seed: int) -> None:
    """Each message may come twice, and the storm goes on in safe mode."""
    name = NAMES[seed % len(NAMES)]
    cloud = Cloud(seed, tmp_path, hosts=3, **ROOMY)
    world = cloud.world
    try:
        world.run(30.0)
        world.faults = msgspec.structs.replace(STORMS[name].faults, double=DOUBLE)
        busy(cloud, 1, 90.0)
        cloud.back_up()
        busy(cloud, 100, world.random.choice([5.0, 60.0]))
        before = cloud.running() - in_transit(cloud)
        cloud.restore()
        world.run(STORM)
        world.faults = Faults()
        world.run(max(DOWN_FOR) + HANGS + CONFIRM)
        assert before - cloud.running() == set(), name
        if cloud.safe_since() is not None:  # something is missing
            recover(cloud)
        world.run(600.0)
        assert cloud.safe_since() is None, name
        assert before - cloud.running() == set(), name
        assert [violation for violation in cloud.violations() if not is_lost(violation)] == [], name
        assert cloud.unexpected() == [], name
    finally:
        world.close()


@pytest.mark.parametrize("restart", [False, True], ids=["services live on", "services start again"])
def test_another_database_is_left_alone(tmp_path: Path, restart: bool) -> None:
    """All services meet the database of another cloud in place of their own: it is not changed, and no guest is."""
    cloud = Cloud(1, tmp_path, hosts=2, **ROOMY)
    world, file = cloud.world, tmp_path / "minova.sqlite"
    try:
        world.run(30.0)
        busy(cloud, 1, 60.0)
        world.run(60.0)
        before = cloud.running()
        assert before
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("UPDATE cloud SET uuid = 'another'")
            for table in ("images", "tasks", "instances"):
                connection.execute(f"DELETE FROM {table}")
        if restart:
            world.keep_down([*CONTROLLERS["conductor"], *CONTROLLERS["scheduler"]], 20.0)
        # A conductor that lives looks whose the database is when it renews its lease, and may write until then.
        world.run(LOOK)
        rows = content(file)
        world.run(300.0)
        assert content(file) == rows
        assert cloud.running() == before
    finally:
        world.close()


def content(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())
