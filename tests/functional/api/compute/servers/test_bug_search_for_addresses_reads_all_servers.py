"""The filter `ip` joined the addresses of every server: half a second with 200,000 servers."""

from pathlib import Path

import pytest
from sqlalchemy import insert, select

from minova.db import models
from minova.db.api_queries import instances, patterns
from minova.db.engine import Database
from tests.fakes.interfaces import network_of
from tests.functional.scheduler.cloud import SEEN, add_instance, count_rows, fresh, named

SERVERS = 40


@pytest.fixture
def db(tmp_path: Path) -> Database:
    """Server n of 40 has 10.7.0.n, and fd00::n."""
    database = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    with database.write() as session:
        network_id = session.scalars(
            select(models.Network.id).where(models.Network.uuid == network_of(session).uuid)
        ).one()
        subnet_id = session.scalars(select(models.Subnet.id).where(models.Subnet.network_id == network_id)).one()
        for number in range(SERVERS):
            add_instance(session, named(f"s{number}"))
            port = {
                "id": 1000 + number,
                "uuid": named(f"port {number}"),
                "network_id": network_id,
                "project_id": "p",
                "mac_address": f"fa:16:3e:00:00:{number:02x}",
                "instance_uuid": named(f"s{number}"),
                "revision_number": 1,
                "admin_state_up": True,
                "created_at": SEEN,
                "updated_at": SEEN,
            }
            texts = dict.fromkeys(("name", "description", "device_id", "device_owner", "host", "status"), "")
            session.execute(insert(models.Port).values(**texts, **port))
            for address in (f"10.7.0.{number}", f"fd00::{number}"):
                row = {"subnet_id": subnet_id, "address": address, "port_id": 1000 + number}
                session.execute(insert(models.IpAllocation).values(row))
    return database


def found(db: Database, key: str, expression: str, project_id: str | None = None) -> list[str]:
    instance_filter = instances.InstanceFilter(
        project_id=project_id, patterns=((key, patterns.parse(key, expression)),)
    )
    with db.read() as session:
        return [
            row.uuid
            for row in instances.instances(session, instance_filter, [("created_at", False)], None, 100, "nova")
        ]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("key", "expression", "numbers"),
    [
        ("ip", "^10.7.0.7$", [7]),
        ("ip", "10.7.0.3", [3, *range(30, 40)]),
        ("ip", "7.0.1[12]", [11, 12]),
        ("ip", "fd00", []),
        ("ip6", "FD00::5$", [5]),
        ("ip6", "10.7", []),
    ],
)
def test_both_ways_to_search_find_the_same(
    db: Database, monkeypatch: pytest.MonkeyPatch, many: bool, key: str, expression: str, numbers: list[int]
) -> None:
    """By the list of those that match, and by a query where they are many."""
    monkeypatch.setattr(instances, "MAX_HAVING", 0 if many else 500)
    assert found(db, key, expression) == [named(f"s{number}") for number in numbers]
    assert found(db, key, expression, "another project") == []


def test_one_address_is_found_without_reading_all_servers(db: Database) -> None:
    with count_rows(db) as rows:
        assert found(db, "ip", "^10.7.0.7$") == [named("s7")]
    assert rows.fetched < SERVERS / 4
