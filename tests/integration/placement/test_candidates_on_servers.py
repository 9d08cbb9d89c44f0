"""Allocation candidates on PostgreSQL and MariaDB."""

import pytest

from minova.db.engine import Database
from tests.functional.placement.candidate_cases import CandidateCases


@pytest.fixture
def db(emptied_db: Database) -> Database:
    return emptied_db


class TestOnServers(CandidateCases):
    pass
