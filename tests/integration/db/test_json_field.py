"""A field of a JSON text is compared alike by every database: exact, and whatever characters it has."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, insert, select

from minova.db.engine import Database
from minova.db.models.types import LongText
from minova.db.sql import json_field

THINGS = Table(
    "things", MetaData(), Column("id", Integer, primary_key=True), Column("value", LongText),
    mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin",
)  # fmt: skip
FLAVORIDS = ("m1.small", "M1.small", 'with "quotes"', "a_b", "a\\b", "größe", "1")


@pytest.fixture(params=["postgresql", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    fresh: Callable[[], str] = request.getfixturevalue(f"fresh_{request.param}_url")
    return fresh()


def test_a_field_equals_its_own_value_and_no_other(url: str) -> None:
    database = Database(url)
    try:
        THINGS.create(database.engine)
        rows = [{"value": json.dumps({"name": "other", "flavorid": flavorid})} for flavorid in FLAVORIDS]
        with database.write() as session:
            session.execute(insert(THINGS), [{"id": number, **row} for number, row in enumerate(rows, start=1)])
        with database.read() as session:
            for number, flavorid in enumerate(FLAVORIDS, start=1):
                query = select(THINGS.c.id).where(json_field(THINGS.c.value, "flavorid") == flavorid)
                assert session.scalars(query).all() == [number]
            assert session.scalars(select(THINGS.c.id).where(json_field(THINGS.c.value, "absent") == "1")).all() == []
    finally:
        database.close()
