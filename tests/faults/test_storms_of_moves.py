"""Servers move while messages are lost, doubled and late, and processes die: nothing is left in transit, and all books agree.

Each seed has its storm. MINOVA_STORMS_OF_MOVES: how many seeds are tried (tools/check nightly: 200). Each takes eight seconds on a
quiet machine.
"""

import os
from pathlib import Path

import pytest

from minova.objects.servers.states import PowerState
from tests.faults.cloud import Cloud
from tests.faults.mover import PROMPT
from tests.faults.storms import MOVES, STORMS, live, violations
from tests.faults.test_crash_table import unfinished

pytestmark = pytest.mark.timeout(600)
SEEDS = int(os.environ.get("MINOVA_STORMS_OF_MOVES", "1"))
# A rename waits for the end of all moves of its host, and no conductor ends one while all are dead. The first is the core.
NAMES = ("all at once", *(name for name in STORMS if name not in {"all at once", "hosts are renamed"}))


def copies(cloud: Cloud) -> list[str]:
    """Guests that run more than once."""
    running: dict[str, list[str]] = {}
    for host in cloud.hosts:
        for domain in cloud.drivers[host].domains():
            if domain.power_state == PowerState.RUNNING:
                running.setdefault(domain.uuid, []).append(host)
    return [f"{uuid} runs on {hosts}" for uuid, hosts in running.items() if len(hosts) > 1]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_storm_servers_that_moved_are_in_one_place(tmp_path: Path, seed: int) -> None:
    name = NAMES[seed % len(NAMES)]
    storm = STORMS[name]
    cloud = Cloud(seed, tmp_path, hosts=3, **(PROMPT | storm.overrides))
    try:
        live(cloud, storm, requests=2, kinds=MOVES, acts=6)
        assert [*violations(cloud, storm), *unfinished(cloud), *copies(cloud)] == [], name
    finally:
        cloud.world.close()
