"""Two clouds were given one virtual host of one broker: the second does not start, and no message is executed in the other cloud."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.cmd import conductor
from minova.db.models import Instance, Service
from minova.messaging.rpc import Rpc
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.requests.server_request import CreateServers
from tests.cluster import Cluster, configure, user
from tests.tables import make_tables

pytestmark = pytest.mark.timeout(600)
FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
CREATES = 10


@pytest.fixture
def url(fresh_rabbit_url: Callable[[], str]) -> str:
    return fresh_rabbit_url()


@pytest.fixture
def first(tmp_path: Path, url: str) -> Iterator[Cluster]:
    with Cluster(tmp_path / "first", ["first"], transport_url=url) as cluster:
        yield cluster


def test_a_conductor_of_a_second_cloud_does_not_start(first: Cluster, tmp_path: Path, url: str) -> None:
    conf = configure(tmp_path / "second", host="controller")
    make_tables(conf.database.connection)
    rpc = Rpc(conf, url)
    try:
        with pytest.raises(errors.InvalidConfiguration, match="each needs its own"):
            conductor.compose(conf, rpc, threading.Event())
    finally:
        rpc.close()


def test_no_message_is_executed_in_the_other_cloud(
    first: Cluster, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if both had started at the same time. A refused create may be repeated, and is not executed anywhere."""
    monkeypatch.setattr(conductor, "require_own_broker", lambda conf, rpc: None)
    with Cluster(tmp_path / "second", ["second"], transport_url=url) as second:
        made: dict[str, set[str]] = {}
        for cluster in (first, second):
            made[cluster.hosts[0]] = set()
            for number in range(CREATES):
                request = CreateServers(
                    name=f"{cluster.hosts[0]}-{number}", flavor=FLAVOR, image=IMAGE, min_count=1, max_count=1
                )
                try:
                    answer = cluster.conductor.create_servers(user(), request=request)
                except errors.AnotherCloud:
                    continue
                made[cluster.hosts[0]].update(answer.instance_uuids)
        for cluster in (first, second):
            (own,) = cluster.hosts
            with cluster.db.read() as session:
                rows = {row.uuid: row for row in session.scalars(select(Instance))}
                computes = set(session.scalars(select(Service.host).where(Service.binary == "minova-compute")))
            assert rows.keys() == made[own]
            assert {row.display_name.rpartition("-")[0] for row in rows.values()} <= {own}
            assert computes == {own}
