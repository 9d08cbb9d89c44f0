from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.db import schema
from tests.functional.conductor.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    schema.upgrade(url)
    made = Desk(url)
    yield made
    made.close()
