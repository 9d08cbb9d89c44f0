"""Law 1, tried: messages are lost, doubled and late, processes die anywhere, and yet nothing is left in transit."""

from functools import partial
from pathlib import Path

import pytest

from minova.objects.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.world import Faults

# Seconds of the fake clock: while faults happen, and then for everything that waits to be found.
STORM, QUIET = 300.0, 1200.0

STORMS = {
    "calm": Faults(),
    "messages are lost": Faults(lose=0.1),
    "casts come twice and late": Faults(double=0.3, delay=0.3),
    "processes die": Faults(kill=0.01),
    "clocks step": Faults(step=0.01),
    "all at once": Faults(lose=0.05, double=0.2, delay=0.2, kill=0.005, step=0.002),
}


def live(cloud: Cloud, faults: Faults, requests: int) -> None:
    """Users come and go while the storm lasts; then it is over and everybody who died comes back."""
    world = cloud.world
    world.run(30.0)
    world.faults = faults
    for number in range(1, requests + 1):
        count = world.random.choice([1, 1, 1, 2, 5])
        world.later(world.random.uniform(0, STORM), None, partial(cloud.create, number, count))
        if world.random.random() < 0.5:
            world.later(world.random.uniform(0, STORM * 1.2), None, cloud.delete_one)
        if world.random.random() < 0.3:
            state = world.random.choice([PowerState.SHUTDOWN, PowerState.CRASHED, PowerState.RUNNING])
            world.later(world.random.uniform(0, STORM * 1.2), None, partial(cloud.turn_one, state))
    world.run(STORM * 1.3)
    world.faults = Faults(others_first=faults.others_first)
    world.run(QUIET)


@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("seed", range(4))
def test_after_the_storm_all_invariants_hold(tmp_path: Path, storm: str, seed: int) -> None:
    cloud = Cloud(seed, tmp_path, hosts=3)
    try:
        live(cloud, STORMS[storm], requests=12)
        assert cloud.violations() == []
    finally:
        cloud.world.close()


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    stories = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        cloud = Cloud(7, tmp_path / name, hosts=2)
        try:
            live(cloud, STORMS["all at once"], requests=4)
            stories.append((cloud.world.random.random(), cloud.violations()))
        finally:
            cloud.world.close()
    assert stories[0] == stories[1]
