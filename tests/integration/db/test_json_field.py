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
# The last ones are no escapes: they have a backslash, or two of them.
FLAVORIDS = ("m1.small", "M1.small", 'with "quotes"', "a_b", "a\\b", "größe", "1", r"\u0000", r"\ufffd", "\\\\u0000")


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


def test_text_with_nul_hides_no_field_and_no_other_row(url: str) -> None:
    """A record of a release that did not refuse the character. Each query of its table failed on PostgreSQL."""
    database = Database(url)
    values = [
        {"flavorid": "m1", "other": "\0", "nul\0": 1},
        {"flavorid": "m2", "other": ["\0\0", "\\", "\\\0", "\\\\u0000\0"], "inner": [{"key": "x"}]},
        {"flavorid": "m3"},
    ]
    try:
        THINGS.create(database.engine)
        with database.write() as session:
            rows = [{"id": number, "value": json.dumps(value)} for number, value in enumerate(values, start=1)]
            session.execute(insert(THINGS), rows)
        with database.read() as session:
            query = select(json_field(THINGS.c.value, "flavorid")).order_by(json_field(THINGS.c.value, "flavorid"))
            assert session.scalars(query).all() == ["m1", "m2", "m3"]
            for json_path, ids in ((("inner", 0), [2]), (("other",), [1, 2])):
                has_it = json_field(THINGS.c.value, *json_path).is_not(None)
                assert session.scalars(select(THINGS.c.id).where(has_it).order_by(THINGS.c.id)).all() == ids
    finally:
        database.close()
