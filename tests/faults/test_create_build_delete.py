"""Law 1, tried: messages are lost, doubled and late, processes die anywhere, clocks step, and yet nothing is left in transit.

Each seed has its storm. MINOVA_SEEDS: how many seeds are tried: by day as many as there are storms, in tools/check nightly 1,000.
"""

import os
from pathlib import Path

import pytest

from tests.faults.cloud import Cloud
from tests.faults.storms import STORMS, live, violations

# Half a minute for a story on a busy machine.
pytestmark = pytest.mark.timeout(600)

NAMES = tuple(STORMS)
SEEDS = int(os.environ.get("MINOVA_SEEDS") or len(NAMES))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_the_storm_all_invariants_hold(tmp_path: Path, seed: int) -> None:
    name = NAMES[seed % len(NAMES)]
    storm = STORMS[name]
    cloud = Cloud(seed, tmp_path, hosts=3, **storm.overrides)
    try:
        live(cloud, storm, requests=12)
        assert violations(cloud, storm) == [], name
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
