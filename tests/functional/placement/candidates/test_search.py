from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.db.engine import Database
from tests.functional.placement.candidate_cases import CandidateCases
from tests.functional.scheduler.cloud import fresh


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    yield database
    database.close()


class TestOnSqlite(CandidateCases):
    SEEDS = range(20)
