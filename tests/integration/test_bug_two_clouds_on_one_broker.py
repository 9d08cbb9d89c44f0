"""Two clouds were given one virtual host of one broker: the second does not start, and no message is executed in the other cloud."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from minova import errors
from minova.cmd import conductor
from minova.cmd.startup import clients
from minova.context import service_context
from minova.db.models import Instance, Service
from minova.messaging.rpc import Rpc
from minova.metrics import REGISTRY
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts import service
from minova.objects.requests.server_request import CreateServers
from minova.objects.servers.states import VmState
from tests.cluster import Cluster, configure, user
from tests.tables import make_tables
from tests.waiting import wait_for

FLAVOR = Flavor(flavorid="1", name="m1", vcpus=1, memory_mb=64, root_gb=1)
IMAGE = Image(id="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", name="i", status="active", disk_format="raw", size=0)
CREATE = CreateServers(name="server", flavor=FLAVOR, image=IMAGE, min_count=1, max_count=1)
OTHER_CLOUD = "0b9c6a52-0000-4000-8000-000000000002"


@pytest.fixture
def url(fresh_rabbit_url: Callable[[], str]) -> str:
    return fresh_rabbit_url()


@pytest.fixture
def first(tmp_path: Path, url: str) -> Iterator[Cluster]:
    with Cluster(tmp_path / "first", ["first"], transport_url=url) as cluster:
        yield cluster


@pytest.fixture
def stranger(tmp_path: Path, url: str) -> Iterator[Rpc]:
    """A service of another cloud, at the broker of the first one."""
    rpc = Rpc(configure(tmp_path / "second", host="second"), url)
    rpc.cloud.learn(OTHER_CLOUD)
    yield rpc
    rpc.close()


def refused(method: str) -> float:
    return REGISTRY.get_sample_value("minova_rpc_refused_total", {"method": method}) or 0.0


def active_servers(cluster: Cluster) -> set[str]:
    with cluster.db.read() as session:
        return set(session.scalars(select(Instance.uuid).where(Instance.vm_state == VmState.ACTIVE)))


def test_a_conductor_of_a_second_cloud_does_not_start(first: Cluster, tmp_path: Path, url: str) -> None:
    conf = configure(tmp_path / "second", host="controller")
    make_tables(conf.database.connection)
    rpc = Rpc(conf, url)
    try:
        with pytest.raises(errors.InvalidConfiguration, match="each needs its own"):
            conductor.compose(conf, rpc, threading.Event())
    finally:
        rpc.close()


def test_no_message_is_executed_in_the_other_cloud(first: Cluster, stranger: Rpc) -> None:
    """As if both clouds had started at the same time."""
    own = set(first.conductor.create_servers(user(), request=CREATE).instance_uuids)
    wait_for("an active server", lambda: active_servers(first) == own)
    (uuid,) = own
    theirs = clients.conductor(stranger)
    registration = service.Service(
        uuid="6f3b8f6e-0000-4000-8000-000000000003", host="second", binary="minova-compute", topic="compute"
    )
    with pytest.raises(errors.AnotherCloud):
        theirs.create_servers(user(), request=CREATE)
    with pytest.raises(errors.AnotherCloud):
        theirs.delete_server(user(), instance_uuid=uuid)
    with pytest.raises(errors.AnotherCloud):
        theirs.register_service(service_context(), service=registration)
    before = refused("terminate_instance")
    clients.compute(stranger)("first").terminate_instance(service_context(), instance_uuid=uuid, node=None)
    wait_for("the refusal", lambda: refused("terminate_instance") > before)
    assert active_servers(first) == own
    assert first.conductor.create_servers(user(), request=CREATE).instance_uuids
    with first.db.read() as session:
        assert set(session.scalars(select(Service.host).where(Service.binary == "minova-compute"))) == {"first"}
