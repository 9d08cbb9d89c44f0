"""The filter `ip` joined the addresses of every server: half a second with 200,000 servers."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.api_queries import addresses, instances, patterns
from minova.db.engine import Database
from minova.objects.network.vif import Vif, VifAddress
from tests.fakes.interfaces import network_of
from tests.functional.scheduler.cloud import SEEN, add_instance, count_rows, fresh, named

SERVERS = 40


def add_server_with_address(session: Session, name: str, *ip_addresses: str) -> None:
    network_id = session.scalars(select(models.Network.id).where(models.Network.uuid == network_of(session).uuid)).one()
    subnet_id = session.scalars(select(models.Subnet.id).where(models.Subnet.network_id == network_id)).one()
    add_instance(session, named(name))
    texts = dict.fromkeys(("name", "description", "device_id", "device_owner", "host", "status"), "")
    port = models.Port(
        uuid=named(f"port {name}"),
        network_id=network_id,
        project_id="p",
        mac_address=f"fa:16:3e:{named(name)[:2]}:{named(name)[2:4]}:{named(name)[4:6]}",
        instance_uuid=named(name),
        revision_number=1,
        admin_state_up=True,
        created_at=SEEN,
        updated_at=SEEN,
        **texts,
    )
    session.add(port)
    session.flush()
    for address in ip_addresses:
        row = {"subnet_id": subnet_id, "address": address, "port_id": port.id}
        session.execute(insert(models.IpAllocation).values(row))


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Server n of 40 has 10.7.0.n, and fd00::n."""
    database = fresh(f"sqlite:///{tmp_path_factory.mktemp('addresses')}/minova.sqlite")
    with database.write() as session:
        for number in range(SERVERS):
            add_server_with_address(session, f"s{number}", f"10.7.0.{number}", f"fd00::{number}")
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
    monkeypatch.setattr(addresses, "MAX_HAVING", most)
    monkeypatch.setattr(addresses, "FIRST", first)
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
        monkeypatch.setattr(addresses, "MAX_HAVING", most)
        monkeypatch.setattr(addresses, "FIRST", first)
        pages, marker = list[str](), None
        while page := found(db, "ip", expression, order=order, marker=marker, limit=4):
            pages += page
            marker = page[-1]
        assert pages == expected


def test_one_address_is_found_without_reading_all_servers(db: Database) -> None:
    with count_rows(db) as rows:
        assert found(db, "ip", "^10.7.0.7$") == [named("s7")]
    assert rows.fetched < SERVERS / 4


@pytest.fixture
def beside_neutron(tmp_path: Path) -> Database:
    """Server a has 10.7.0.1 in minova's own network; b, c and d have 10.7.0.1, 10.7.0.11 and fd00::1 in Neutron. The port of e with 10.7.0.1 is
    released.
    """
    database = fresh(f"sqlite:///{tmp_path}/minova.sqlite")
    with database.write() as session:
        add_server_with_address(session, "a", "10.7.0.1")
        for name, address in (("b", "10.7.0.1"), ("c", "10.7.0.11"), ("d", "fd00::1"), ("e", "10.7.0.1")):
            add_instance(session, named(name))
            vif = Vif(
                port_id=named(f"port {name}"),
                mac_address="fa:16:3e:10:7:1",
                network_id=named("n"),
                addresses=(VifAddress(subnet_id=named("s"), ip_address=address),),
            )
            row = {"instance_uuid": named(name), "nic": 0, "project_id": "p", "device_owner": "", "nic_request": {}}
            row |= {"made_for_instance": True, "vif": msgspec.to_builtins(vif), "port_id": vif.port_id}
            session.execute(insert(models.NeutronPort).values(released_at=SEEN if name == "e" else None, **row))
    return database


@pytest.mark.parametrize(
    ("key", "expression", "names"),
    [
        ("ip", "^10.7.0.1$", ["a", "b"]),
        ("ip", "10.7.0.1", ["a", "b", "c"]),
        ("ip", "^10[.]7[.]0[.](1|2)$", ["a", "b"]),
        ("ip", "fd00", []),
        ("ip6", "^FD00::1$", ["d"]),
        ("ip6", "10.7", []),
    ],
)
def test_bug_filter_found_no_server_whose_addresses_are_in_neutron(
    beside_neutron: Database, key: str, expression: str, names: list[str]
) -> None:
    assert found(beside_neutron, key, expression) == [named(name) for name in names]
    pages, marker = list[str](), None
    while page := found(beside_neutron, key, expression, marker=marker, limit=1):
        pages += page
        marker = page[-1]
    assert pages == [named(name) for name in names]
