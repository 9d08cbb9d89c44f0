"""The filter `ip` joined the addresses of every server: half a second with 200,000 servers."""

from collections.abc import Sequence

import pytest
from sqlalchemy import insert, select

from minova.db import models
from minova.db.api_queries import instances, patterns
from minova.db.engine import Database
from tests.fakes.interfaces import network_of
from tests.functional.scheduler.cloud import SEEN, add_instance, count_rows, fresh, named

SERVERS = 40


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Server n of 40 has 10.7.0.n, and fd00::n."""
    database = fresh(f"sqlite:///{tmp_path_factory.mktemp('addresses')}/minova.sqlite")
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


def found(
    db: Database,
    key: str,
    expression: str,
    project_id: str | None = None,
    *,
    order: Sequence[tuple[str, bool]] = (("created_at", False),),
    marker: str | None = None,
    limit: int = 100,
) -> list[str]:
    instance_filter = instances.InstanceFilter(
        project_id=project_id, patterns=((key, patterns.parse(key, expression)),)
    )
    with db.read() as session:
        listed = instances.instances(session, instance_filter, order, marker, limit, "nova")
    return [row.uuid for row in listed]


# (the most that are named, how many are walked)
WAYS = {"named": (500, 2000), "walked": (0, 2000), "gathered": (0, 4)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("key", "expression", "numbers"),
    [
        ("ip", "^10.7.0.7$", [7]),
        ("ip", "10.7.0.3", [3, *range(30, 40)]),
        ("ip", "7.0.1[12]", [11, 12]),
        ("ip", "^10[.]7[.]0[.]1[12]$", [11, 12]),
        ("ip", r"^10\.7\.0\.(3|5)$", [3, 5]),
        ("ip", "^$", []),
        ("ip", "fd00", []),
        ("ip6", "FD00::5$", [5]),
        ("ip6", "10.7", []),
    ],
)
def test_all_ways_to_search_find_the_same(
    db: Database, monkeypatch: pytest.MonkeyPatch, way: str, key: str, expression: str, numbers: list[int]
) -> None:
    """Few that match are named in the query. Of many, the first are walked, or all are gathered."""
    most, first = WAYS[way]
    monkeypatch.setattr(instances, "MAX_HAVING", most)
    monkeypatch.setattr(instances, "FIRST", first)
    assert found(db, key, expression) == [named(f"s{number}") for number in numbers]
    assert found(db, key, expression, "another project") == []


@pytest.mark.parametrize("expression", ["7.0.3", "7[.]0[.]3"])
@pytest.mark.parametrize("key", ["created_at", "display_name", "task_state", "availability_zone"])
@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_many_are_in_the_order_of_few(
    db: Database, monkeypatch: pytest.MonkeyPatch, expression: str, key: str, descending: bool
) -> None:
    order = [(key, descending)]
    expected = found(db, "ip", expression, order=order)
    assert len(expected) == 11
    for most, first in WAYS.values():
        monkeypatch.setattr(instances, "MAX_HAVING", most)
        monkeypatch.setattr(instances, "FIRST", first)
        pages, marker = list[str](), None
        while page := found(db, "ip", expression, order=order, marker=marker, limit=4):
            pages += page
            marker = page[-1]
        assert pages == expected


def test_one_address_is_found_without_reading_all_servers(db: Database) -> None:
    with count_rows(db) as rows:
        assert found(db, "ip", "^10.7.0.7$") == [named("s7")]
    assert rows.fetched < SERVERS / 4
