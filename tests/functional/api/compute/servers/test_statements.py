"""How many statements the answer about one server costs. Clients that wait for a server ask for it again and again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, update

from minova.db.models import Instance
from tests.functional.api.conftest import Cloud, at


@contextmanager
def selects(cloud: Cloud) -> Iterator[list[str]]:
    """The statements inside that read."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("SELECT"):
            statements.append(statement)

    event.listen(cloud.readonly.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(cloud.readonly.engine, "before_cursor_execute", note)


def test_a_server_without_ports_tags_and_group_costs_one_statement(stocked: Cloud) -> None:
    server = stocked.make_server()
    with selects(stocked) as statements:
        stocked.get(f"/v2.1/servers/{server['id']}", **at("2.96"))
    assert len(statements) == 1


def test_a_server_on_a_host_costs_its_zone_and_the_services_too(stocked: Cloud) -> None:
    server = stocked.make_server()
    with stocked.db.write() as session:
        session.execute(update(Instance).values(host="h1", node="h1"))
    with selects(stocked) as statements:
        stocked.get(f"/v2.1/servers/{server['id']}", **at("2.96"))
    assert len(statements) == 3
