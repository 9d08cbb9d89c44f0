"""The audit of Placement on PostgreSQL and MariaDB."""

import pytest

from minova.db.engine import Database
from tests.functional.placement.audit_cases import AuditCases


@pytest.fixture
def db(emptied_db: Database) -> Database:
    return emptied_db


class TestOnServers(AuditCases):
    pass
