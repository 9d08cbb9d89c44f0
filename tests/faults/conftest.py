from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import minova.conductor.manager
import minova.scheduler.manager
from minova.conductor.hosts import services
from minova.conductor.tasks import worker
from minova.scheduler import extensions
from tests.faults.mover import Mover

# Leases are renewed a sixth as often as by default: most of the time of these tests goes into such looks, and rarer ones make what is
# shown no easier.
RENEWALS = 3
# Seconds, each a second or less by default: half of all statements of these tests came from these looks.
ADVANCE_INTERVAL, FLUSH_INTERVAL, WATCH_INTERVAL = 2.0, 2.0, 6.0


_READ = extensions._of_other_packages


@cache
def _of_other_packages(group: str) -> list[tuple[str, Any]]:
    """Each start of a scheduler would read three times what all installed packages say of themselves."""
    return [*_READ(group)]


@pytest.fixture(autouse=True)
def rarer_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minova.conductor.manager, "ADVANCE_INTERVAL", ADVANCE_INTERVAL)
    for module in (minova.conductor.manager, services):
        monkeypatch.setattr(module, "FLUSH_INTERVAL", FLUSH_INTERVAL)
    monkeypatch.setattr(minova.scheduler.manager, "WATCH_INTERVAL", WATCH_INTERVAL)
    monkeypatch.setattr(worker, "RENEWALS", RENEWALS)
    monkeypatch.setattr(extensions, "_of_other_packages", _of_other_packages)


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    new_mover = Mover(tmp_path)
    try:
        yield new_mover
    finally:
        new_mover.cloud.world.close()
