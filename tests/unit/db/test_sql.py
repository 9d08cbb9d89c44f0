"""`in_list`: each database gets the values in its own way. Their answers are compared in tests/integration."""

from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.dialects import mysql, postgresql, sqlite

from minova.db.sql import in_list, use_plans_for_one

# These have no types.
DIALECTS: Any = (postgresql, sqlite, mysql)
THINGS = Table("things", MetaData(), Column("id", Integer), Column("name", String(36)))


@pytest.mark.parametrize(
    ("dialect", "spelling"),
    [
        (DIALECTS[0].dialect(), "things.name = ANY(%(some)s::VARCHAR(36)[])"),
        (DIALECTS[1].dialect(), "things.name IN (__[POSTCOMPILE_some])"),
        (DIALECTS[2].dialect(), "things.name IN (__[POSTCOMPILE_some])"),
    ],
    ids=["postgresql", "sqlite", "mysql"],
)
def test_its_spelling(dialect: Any, spelling: str) -> None:
    query = select(THINGS.c.id).where(in_list(THINGS.c.name))
    assert str(query.compile(dialect=dialect)).endswith(f"WHERE {spelling}")
    both = select(THINGS.c.id).where(in_list(THINGS.c.name), THINGS.c.id == THINGS.c.id)
    assert str(both.compile(dialect=dialect)).endswith(f"WHERE {spelling} AND things.id = things.id")


def test_bug_a_list_uses_no_index() -> None:
    engine = create_engine("sqlite://")
    hosts = Table("hosts", MetaData(), Column("uuid", String(36), primary_key=True), Column("memory", Integer))
    hosts.create(engine)
    query = select(hosts.c.memory).where(in_list(hosts.c.uuid), hosts.c.memory > 1)
    with engine.connect() as connection:
        text = str(query.params(some=["a"]).compile(engine, compile_kwargs={"render_postcompile": True}))
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ("a", 1)).all()
    engine.dispose()
    assert [row.detail for row in plan] == ["SEARCH hosts USING INDEX sqlite_autoindex_hosts_1 (uuid=?)"]


@pytest.mark.parametrize(("some", "found"), [([], []), ([2], [2]), ([3, 1, 9], [1, 3])])
def test_its_meaning_however_many_there_are(some: list[int], found: list[int]) -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        THINGS.create(connection)
        connection.execute(THINGS.insert(), [{"id": number} for number in (1, 2, 3)])
        query = select(THINGS.c.id).where(in_list(THINGS.c.id)).order_by(THINGS.c.id)
        assert list(connection.scalars(query, {"some": some})) == found
    engine.dispose()


@pytest.mark.parametrize(
    ("some", "condition"),
    [
        (["a"], "name = (%(some)s::VARCHAR(36)[])[1]"),
        ([], "name = ANY(%(some)s::VARCHAR(36)[])"),
        (["a", "b"], "name = ANY(%(some)s::VARCHAR(36)[])"),
    ],
    ids=["one", "none", "two"],
)
def test_postgresql_compares_with_the_value_of_a_list_of_one(some: list[str], condition: str) -> None:
    query = select(THINGS.c.id).where(in_list(THINGS.c.name))
    text = str(query.compile(dialect=DIALECTS[0].dialect()))
    sent, parameters = use_plans_for_one(None, None, text, {"some": some}, None, False)
    assert (sent.partition("things.")[2].partition("things.")[2], parameters) == (condition, {"some": some})
