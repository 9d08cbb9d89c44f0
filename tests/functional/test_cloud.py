"""Fifty computes and two hundred boots at once, in one process: servers that find room are ACTIVE, the others learn why not."""

import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3
from sqlalchemy import func, select

from minova.api.compute.servers.create import REQUEST_UUID
from minova.context import service_context
from minova.db.models import (
    Allocation,
    ComputeNode,
    DiagnosisRow,
    Instance,
    InstanceDiagnosis,
    InstanceFault,
    Inventory,
    Task,
)
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.diagnosis import Diagnosis
from tests.cluster import BOOK_BUS, Cluster
from tests.waiting import wait_for

HOSTS, BOOTS = 50, 200
# Requests beyond the room that there is.
TOO_MANY = 20
RESERVED_MB = 512
# Of the first, each host has room for four, so that the two hundred fill the cloud to its last megabyte.
SMALL = Flavor(flavorid="small", name="small", vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(flavorid="large", name="large", vcpus=1, memory_mb=2048, root_gb=2)
ROOM = 4 * SMALL.memory_mb
USED = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


class People:
    """Speaks to the API as many people at the same time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._http = urllib3.PoolManager(maxsize=32)
        self._names = itertools.count()

    def ask(self, method: str, path: str, **what: Any) -> Any:
        """A call that may be repeated: a busy cloud answers 503 after some seconds."""
        patience = urllib3.Retry(10, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
        answer = self._http.request(method, self._url + path, timeout=60, retries=patience, **what)
        assert answer.status < 300, (path, answer.status, answer.data)
        return answer.json() if answer.data else None

    def image(self) -> str:
        body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
        image = str(self.ask("POST", "/v2/images", json=body)["id"])
        self.ask(
            "PUT", f"/v2/images/{image}/file", body=b"\1" * 512, headers={"Content-Type": "application/octet-stream"}
        )
        return image

    def create(self, flavor: Flavor, image: str, count: int = 1) -> None:
        server = {"name": f"vm{next(self._names)}", "flavorRef": flavor.flavorid, "imageRef": image}
        more = {"min_count": count, "max_count": count}
        # Under this header a repeated request makes no second server.
        headers = {REQUEST_UUID: str(uuid.uuid4())}
        self.ask("POST", "/v2.1/servers", json={"server": server | more}, headers=headers)

    def create_each(self, flavor: Flavor, image: str, count: int) -> None:
        """So many requests of one server each, sixteen at a time."""
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: self.create(flavor, image), range(count)))

    def delete_all(self) -> None:
        servers = self.ask("GET", "/v2.1/servers?limit=1000")["servers"]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda server: self.ask("DELETE", f"/v2.1/servers/{server['id']}"), servers))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    hosts = [f"host-{number}" for number in range(HOSTS)]
    folder = tmp_path_factory.mktemp("cloud")
    sizes: dict[str, Any] = {"fake_memory_mb": RESERVED_MB + ROOM, "fake_vcpus": 4}
    with Cluster(folder, hosts, transport_url=BOOK_BUS, schedulers=2, **sizes) as cluster:
        for flavor in (SMALL, LARGE):
            cluster.conductor.create_flavor(service_context(), flavor=flavor)
        yield cluster


@pytest.fixture(scope="module")
def image(cluster: Cluster) -> str:
    return People(cluster.url).image()


@pytest.fixture
def people(cluster: Cluster) -> Iterator[People]:
    people = People(cluster.url)
    yield people
    people.delete_all()
    wait_for("all is given back", lambda: not states(cluster) and not usage_in_rows(cluster), 60)


def states(cluster: Cluster) -> Counter[str]:
    """How many servers are in which state; those at work count as `in transit`."""
    with cluster.db.read() as session:
        rows = session.execute(select(Instance.vm_state, Instance.task_state).where(Instance.deleted_at.is_(None)))
        return Counter("in transit" if task_state else vm_state for vm_state, task_state in rows)


def settled(cluster: Cluster) -> Counter[str]:
    def ask() -> Counter[str]:
        states_now = states(cluster)
        return Counter() if states_now["in transit"] or not usage_is_told(cluster) else states_now

    return wait_for("all builds have ended", ask, 120)


def usage_is_told(cluster: Cluster) -> bool:
    """A node that gives a claim back writes its row after the conductor has been told of the build."""
    return violations(cluster) == []


def usage_in_rows(cluster: Cluster) -> list[str]:
    """Where anything counts as used although there is no server."""
    with cluster.db.read() as session:
        leftovers = [f"allocation of {uuid}" for uuid in session.scalars(select(Allocation.consumer_uuid))]
        leftovers += [f"task of {uuid}" for uuid in session.scalars(select(Task.instance_uuid))]
        leftovers += [f"inventory {i.resource_class}" for i in session.scalars(select(Inventory)) if i.used]
        for node in session.scalars(select(ComputeNode)):
            if (node.vcpus_used, node.memory_mb_used, node.local_gb_used) != (0, RESERVED_MB, 0):
                leftovers.append(f"usage of {node.host}")
    return leftovers + [f"domain on {host}" for host in cluster.computes if cluster.driver(host).domains()]


def violations(cluster: Cluster) -> list[str]:
    """Where usage is not the sum of the flavors, anywhere, or a node is over its limits."""
    with cluster.db.read() as session:
        problems: list[str] = []
        active = list(
            session.scalars(select(Instance).where(Instance.vm_state == "active", Instance.deleted_at.is_(None)))
        )
        for node in session.scalars(select(ComputeNode)):
            flavors = [instance.flavor for instance in active if instance.host == node.host]
            expected = {kind: sum(getattr(flavor, name) for flavor in flavors) for kind, name in USED.items()}
            told = {
                "VCPU": node.vcpus_used,
                "MEMORY_MB": node.memory_mb_used - RESERVED_MB,
                "DISK_GB": node.local_gb_used,
            }
            if told != expected:
                problems.append(f"{node.host}: node row {told} != flavors {expected}")
            if node.running_vms != len(flavors) or len(cluster.driver(node.host).domains()) != len(flavors):
                problems.append(f"{node.host}: {node.running_vms} running, {len(flavors)} instances")
            if (
                node.free_ram_mb < 0
                or node.free_disk_gb < 0
                or node.vcpus_used > node.vcpus * node.cpu_allocation_ratio
            ):
                problems.append(f"{node.host} is over its limits")
        problems += placed_wrongly(session, active)
    return problems


def placed_wrongly(session: Any, active: list[Instance]) -> list[str]:
    rows = session.execute(select(Allocation.consumer_uuid, Allocation.resource_class, Allocation.used))
    expected_rows = {(i.uuid, kind, getattr(i.flavor, name)) for i in active for kind, name in USED.items()}
    problems = [f"allocation {row}" for row in sorted({tuple(row) for row in rows} ^ expected_rows)]
    sums = {
        (provider, kind): used
        for provider, kind, used in session.execute(
            select(Allocation.provider_id, Allocation.resource_class, func.sum(Allocation.used)).group_by(
                Allocation.provider_id, Allocation.resource_class
            )
        )
    }
    for inventory in session.scalars(select(Inventory)):
        there = sums.get((inventory.provider_id, inventory.resource_class), 0)
        if inventory.used != there or there > inventory.capacity:
            problems.append(
                f"{inventory.resource_class}: {inventory.used} used of {inventory.capacity}, {there} allocated"
            )
    return problems


@pytest.mark.nightly("requests of one server fill the same cloud")
def test_two_hundred_in_one_request_fill_fifty_computes(cluster: Cluster, people: People, image: str) -> None:
    people.create(SMALL, image, BOOTS)
    assert settled(cluster) == {"active": BOOTS}
    assert violations(cluster) == []


def test_two_hundred_requests_at_once_fill_fifty_computes(cluster: Cluster, people: People, image: str) -> None:
    people.create_each(SMALL, image, BOOTS)
    assert settled(cluster) == {"active": BOOTS}
    assert violations(cluster) == []


def test_with_too_little_room_the_right_number_is_active_and_the_rest_learn_why(
    cluster: Cluster, people: People, image: str
) -> None:
    room = HOSTS * (ROOM // LARGE.memory_mb)
    people.create_each(LARGE, image, room + TOO_MANY)
    assert settled(cluster) == {"active": room, "error": TOO_MANY}
    assert violations(cluster) == []
    reasons, told = refused_requests(cluster)
    assert len(reasons) == len(told) == TOO_MANY
    for said in told.values():
        assert said.startswith(f"No valid host was found. {HOSTS} hosts: ")
    for reason in reasons.values():
        assert reason.hosts == HOSTS
        assert sum(step.before - step.after for step in reason.steps) == HOSTS
        lost = [host.reason for step in reason.steps for host in step.lost]
        assert len(lost) == HOSTS
        assert all("2048" in words for words in lost), lost[0]


@pytest.mark.nightly("the test above asks for more than there is room for, by requests of one server each")
def test_a_request_for_more_than_there_is_room_for_gets_nothing(cluster: Cluster, people: People, image: str) -> None:
    people.create(LARGE, image, BOOTS)
    assert settled(cluster) == {"error": BOOTS}
    assert violations(cluster) == []
    _, told = refused_requests(cluster)
    assert len(told) == BOOTS
    assert all("Only 100 of 200 instances had one." in said for said in told.values()), set(told.values())


def refused_requests(cluster: Cluster) -> tuple[dict[str, Diagnosis], dict[str, str]]:
    """Of each server in ERROR: its Diagnosis, and its fault's words."""
    with cluster.db.read() as session:
        lost = set(
            session.scalars(select(Instance.uuid).where(Instance.vm_state == "error", Instance.deleted_at.is_(None)))
        )
        rows = session.execute(select(InstanceDiagnosis.instance_uuid, DiagnosisRow.value).join(DiagnosisRow))
        faults = session.execute(select(InstanceFault.instance_uuid, InstanceFault.message))
        return (
            {uuid: value for uuid, value in rows if uuid in lost},
            {uuid: message for uuid, message in faults if uuid in lost},
        )
