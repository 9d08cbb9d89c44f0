"""Law 1, tried: messages are lost, doubled and late, processes die anywhere, clocks step, and yet nothing is left in transit.

Each seed has its storm. MINOVA_SEEDS: how many seeds are tried: one for each storm, in tools/check nightly 1,000.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.cloud import Cloud
from tests.faults.storms import STORMS, live, violations

# Half a minute for a story on a busy machine.
pytestmark = pytest.mark.timeout(600)

NAMES = tuple(STORMS)
SEEDS = int(os.environ.get("MINOVA_SEEDS") or len(NAMES))
# Storms of each day: together they have every kind of fault.
DAILY = (
    "all at once",
    "answers to commits are lost",
    "clocks step and processes die",
    "processes die while drivers are slow",
    "several hosts die together",
    "versions are mixed",
)
OTHER_STORM = pytest.mark.nightly("the storms of each day have every kind of fault between them")


def stories() -> Iterator[Any]:
    for seed in range(SEEDS):
        name = NAMES[seed % len(NAMES)]
        yield pytest.param(seed, id=f"{seed}-{name}", marks=() if name in DAILY else OTHER_STORM)


@pytest.mark.parametrize("seed", [*stories()])
def test_after_the_storm_all_invariants_hold(tmp_path: Path, seed: int) -> None:
    name = NAMES[seed % len(NAMES)]
    storm = STORMS[name]
    cloud = Cloud(seed, tmp_path, hosts=3, **storm.overrides)
    try:
        live(cloud, storm, requests=12)
        assert violations(cloud, storm) == [], name
    finally:
        cloud.world.close()


@pytest.mark.nightly("two storms; a seed that tells another story shows itself in the others")
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
