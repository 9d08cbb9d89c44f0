from collections.abc import Iterator
from pathlib import Path

import pytest

import minova.conductor.manager
import minova.scheduler.manager
from minova.conductor.tasks import worker
from tests.faults.mover import Mover

# Leases are renewed a third as often as by default: most of the time of these tests goes into such looks, and rarer ones make what is
# shown no easier.
RENEWALS = 6
# Seconds, each a second or less by default: half of all statements of these tests came from these looks.
ADVANCE_INTERVAL, WATCH_INTERVAL = 2.0, 3.0


@pytest.fixture(autouse=True)
def rarer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minova.conductor.manager, "ADVANCE_INTERVAL", ADVANCE_INTERVAL)
    monkeypatch.setattr(minova.scheduler.manager, "WATCH_INTERVAL", WATCH_INTERVAL)
    monkeypatch.setattr(worker, "RENEWALS", RENEWALS)


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    new_mover = Mover(tmp_path)
    try:
        yield new_mover
    finally:
        new_mover.cloud.world.close()
