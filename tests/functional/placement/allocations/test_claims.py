from pathlib import Path

import pytest

from minova.db.engine import Database
from tests.functional.placement.cases import ClaimCases
from tests.functional.placement.group_cases import GroupCases
from tests.functional.scheduler.cloud import fresh


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return fresh(f"sqlite:///{tmp_path}/minova.sqlite")


class TestOnSqlite(ClaimCases, GroupCases):
    pass
