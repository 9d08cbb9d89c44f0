"""The audit of Placement on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from minova.db.engine import Database
from tests.functional.placement.audit_cases import AuditCases
from tests.functional.scheduler.cloud import fresh


@pytest.fixture(params=["fresh_postgresql_url", "fresh_mariadb_url"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    made = fresh(request.getfixturevalue(request.param)())
    yield made
    made.close()


class TestOnServers(AuditCases):
    pass
