from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.conductor.conductor_harness import ConductorHarness
from tests.tables import make_tables


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ConductorHarness]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    made = ConductorHarness(url)
    yield made
    made.close()
