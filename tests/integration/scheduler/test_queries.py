"""The queries of the refresh on PostgreSQL and MariaDB."""

from collections.abc import Iterator

import pytest

from minova.db.engine import Database
from tests.functional.scheduler.refresh.test_queries import *  # noqa: F403


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    database = Database(request.getfixturevalue(request.param))
    yield database
    database.close()
