"""How many statements the answer about one server costs. Clients that wait for a server ask for it again and again."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import event, update

from minova.db.models import Aggregate, AggregateHost, Instance
from tests.functional.api.conftest import Cloud, at

AT = datetime(2026, 1, 1)  # noqa: DTZ001  - as rows have it
NIL = "00000000-0000-0000-0000-000000000000"


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


def test_a_server_on_a_host_costs_the_services_too_and_the_zone_only_in_an_aggregate(stocked: Cloud) -> None:
    server = stocked.make_server()
    counts, zones = [], []
    for metadata in (None, {"availability_zone": "north"}):
        with stocked.db.write() as session:
            session.execute(update(Instance).values(host="h1", node="h1"))
            if metadata is not None:
                session.add(Aggregate(id=1, uuid=NIL, name="n", created_at=AT, metadata_=metadata))
                session.flush()
                session.add(AggregateHost(aggregate_id=1, host="h1"))
        with selects(stocked) as statements:
            answer = stocked.get(f"/v2.1/servers/{server['id']}", **at("2.96"))
        counts.append(len(statements))
        zones.append(answer["server"]["OS-EXT-AZ:availability_zone"])
    assert counts == [2, 3]
    assert zones == ["nova", "north"]
