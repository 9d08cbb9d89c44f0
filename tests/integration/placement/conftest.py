"""One database of each engine for all tests of a module: making its tables takes longer than most of them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import delete

from minova.db.engine import Database
from minova.db.models import Base
from tests.functional.scheduler.cloud import fresh


@pytest.fixture(scope="module", params=["fresh_postgresql_url", "fresh_mariadb_url"])
def kept_db(request: pytest.FixtureRequest) -> Iterator[Database]:
    database = fresh(request.getfixturevalue(request.param)())
    yield database
    database.close()


@pytest.fixture
def emptied_db(kept_db: Database) -> Database:
    with kept_db.write() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.connection().execute(delete(table))
    return kept_db
