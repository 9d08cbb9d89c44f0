from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.conductor.tasks import worker
from tests.faults.mover import Mover

# Leases are renewed a third as often as by default: most of the time of these tests goes into such looks, and rarer ones make what is
# shown no easier.
RENEWALS = 6


@pytest.fixture
def fewer_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RENEWALS", RENEWALS)


@pytest.fixture
def mover(tmp_path: Path) -> Iterator[Mover]:
    made = Mover(tmp_path)
    try:
        yield made
    finally:
        made.cloud.world.close()
