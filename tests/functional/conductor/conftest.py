from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.conductor.desk import Desk
from tests.tables import make_tables


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    url = f"sqlite:///{tmp_path}/minova.sqlite"
    make_tables(url)
    made = Desk(url)
    yield made
    made.close()
