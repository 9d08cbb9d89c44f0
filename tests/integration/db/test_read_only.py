"""The API's connection cannot write, whatever its code does: also after a transaction was rolled back."""

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError

from minova.db.engine import Database
from minova.db.models import Worker


@pytest.fixture(params=["postgresql_tables", "mariadb_tables"])
def url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


def test_a_read_only_database_refuses_to_write(url: str) -> None:
    database = Database(url, readonly=True)
    try:
        for _ in range(2):
            with pytest.raises(DBAPIError, match=r"(?i)read.only"), database.write() as session:
                session.execute(insert(Worker).values(id="w", host="h", lease_until=0.0))
            with database.read() as session:
                assert session.scalars(select(Worker)).all() == []
    finally:
        database.close()


def test_another_database_object_writes_all_the_same(url: str) -> None:
    database = Database(url)
    try:
        with database.write() as session:
            session.execute(insert(Worker).values(id="w", host="h", lease_until=0.0))
        with database.read() as session:
            assert session.scalars(select(Worker.host)).all() == ["h"]
    finally:
        database.close()
