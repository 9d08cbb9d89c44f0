"""Boots that ask Placement for something: a trait and an aggregate written to a provider decide where they go."""

from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.context import service_context
from minova.db.models import Allocation, Instance, InstanceFault, ResourceProvider
from minova.objects.catalogue.flavor import Flavor
from minova.placement.providers import queries, traits
from tests.cluster import Cluster
from tests.waiting import wait_for

PLAIN = Flavor(flavorid="plain", name="plain", vcpus=1, memory_mb=64, root_gb=1)
FAST = Flavor(
    flavorid="fast", name="fast", vcpus=1, memory_mb=64, root_gb=1, extra_specs={"trait:CUSTOM_FAST": "required"}
)


class Api:
    def __init__(self, url: str) -> None:
        self._url, self._http = url, urllib3.PoolManager()

    def ask(self, method: str, path: str, **what: Any) -> tuple[int, Any]:
        answer = self._http.request(method, self._url + path, timeout=60, **what)
        return answer.status, answer.json() if answer.data else None

    def image(self, **properties: str) -> str:
        body = {"name": "i", "disk_format": "raw", "container_format": "bare", **properties}
        image = str(self.ask("POST", "/v2/images", json=body)[1]["id"])
        headers = {"Content-Type": "application/octet-stream"}
        assert self.ask("PUT", f"/v2/images/{image}/file", body=b"\1" * 512, headers=headers)[0] == 204
        return image

    def create(self, flavor: Flavor, image: str, **more: Any) -> str:
        server = {"name": "vm", "flavorRef": flavor.flavorid, "imageRef": image, **more}
        status, created = self.ask("POST", "/v2.1/servers", json={"server": server})
        assert status == 202, created
        return str(created["server"]["id"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cloud"), ("a", "b", "c")) as cluster:
        for flavor in (PLAIN, FAST):
            cluster.conductor.create_flavor(service_context(), flavor=flavor)
        yield cluster


def provider_of(session: Session, host: str) -> Any:
    uuid = session.scalars(select(ResourceProvider.uuid).where(ResourceProvider.name == host)).one()
    return queries.find(session, uuid)


def ended(cluster: Cluster, uuid: str) -> Instance:
    def look() -> Instance | None:
        with cluster.db.read() as session:
            instance = session.scalars(select(Instance).where(Instance.uuid == uuid)).one()
            return instance if instance.task_state is None else None

    server_view = wait_for(uuid, look)
    assert server_view is not None
    return server_view


def test_a_required_trait_takes_a_boot_to_the_host_that_has_it(cluster: Cluster) -> None:
    api = Api(cluster.url)
    image = api.image()
    refused = api.create(FAST, image)
    assert ended(cluster, refused).vm_state == "error"
    with cluster.db.read() as session:
        fault = session.scalars(select(InstanceFault).where(InstanceFault.instance_uuid == refused)).one()
        assert "placement removed 3" in fault.message

    def give(session: Session) -> None:
        traits.make(session, "CUSTOM_FAST")
        traits.set_traits(session, provider_of(session, "b"), ["CUSTOM_FAST"])

    cluster.db.run(give)
    for _ in range(2):
        uuid = api.create(FAST, image)
        assert (ended(cluster, uuid).vm_state, ended(cluster, uuid).host) == ("active", "b")
        with cluster.db.read() as session:
            held = select(ResourceProvider.name).join(Allocation, Allocation.provider_id == ResourceProvider.id)
            assert set(session.scalars(held.where(Allocation.consumer_uuid == uuid))) == {"b"}


def test_hardware_that_no_host_has_is_a_reason_and_no_failed_build(cluster: Cluster) -> None:
    api = Api(cluster.url)
    image = api.image(hw_video_model="xen")
    refused = ended(cluster, api.create(PLAIN, image))
    assert (refused.vm_state, refused.host) == ("error", None)
    with cluster.db.read() as session:
        fault = session.scalars(select(InstanceFault).where(InstanceFault.instance_uuid == refused.uuid)).one()
        assert "placement removed 3 (traits not as asked for)" in fault.message


def test_a_zone_keeps_a_boot_to_the_hosts_of_its_aggregates(cluster: Cluster) -> None:
    api = Api(cluster.url)
    aggregate = {"name": "n", "availability_zone": "north"}
    status, created = api.ask("POST", "/v2.1/os-aggregates", json={"aggregate": aggregate})
    assert status == 200, created
    body = {"add_host": {"host": "c"}}
    assert api.ask("POST", f"/v2.1/os-aggregates/{created['aggregate']['id']}/action", json=body)[0] == 200
    image = api.image()
    for _ in range(2):
        uuid = api.create(PLAIN, image, availability_zone="north")
        assert (ended(cluster, uuid).vm_state, ended(cluster, uuid).host) == ("active", "c")
