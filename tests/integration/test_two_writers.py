"""A cloud whose two conductors and two schedulers write at two nodes of one Galera cluster. `tools/check nightly`: 80 groups."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from minova.cmd import conductor, scheduler
from minova.context import service_context
from minova.db.models import Instance, InstanceGroup, InstanceGroupMember
from minova.objects.catalogue.flavor import Flavor
from tests.cluster import BOOK_BUS, Cluster, configure
from tests.functional.test_cloud import People, settled, violations
from tests.servers.galera import Galera
from tests.waiting import wait_for

GROUPS = int(os.environ.get("MINOVA_GALERA_GROUPS", "6"))
HOSTS = ("h0", "h1", "h2")
MEMBERS = 3
FLAVOR = Flavor(flavorid="small", name="small", vcpus=1, memory_mb=64, root_gb=1)


class TwoWriters(Cluster):
    """The API and one conductor and scheduler are at the first node, the others at the second."""

    def __init__(self, folder: Path, urls: tuple[str, str], **overrides: Any) -> None:
        super().__init__(folder, HOSTS, transport_url=BOOK_BUS, database_url=urls[0], **overrides)
        self._second_url = urls[1]

    def _start(self) -> None:
        super()._start()
        options = {**self._overrides, "database__connection": self._second_url}
        own = configure(self.folder / "second", host="second", **options)
        for service in (conductor, scheduler):
            self._run(service.compose(own, self.rpc(service.__name__.rpartition(".")[2], own), self._stopping))


@pytest.fixture
def cloud(galera: Galera, tmp_path: Path) -> Iterator[TwoWriters]:
    sizes: dict[str, Any] = {"fake_memory_mb": 1_000_000, "fake_vcpus": 1000, "fake_local_gb": 10_000}
    with TwoWriters(tmp_path, galera.fresh_urls(), **sizes) as cluster:
        cluster.conductor.create_flavor(service_context(), flavor=FLAVOR)
        yield cluster


def broken_policies(cloud: Cluster) -> list[str]:
    query = (
        select(InstanceGroup.name, InstanceGroup.policy, Instance.host)
        .join(InstanceGroupMember, InstanceGroupMember.group_id == InstanceGroup.id)
        .join(Instance, Instance.uuid == InstanceGroupMember.instance_uuid)
        .where(Instance.host.is_not(None))
    )
    hosts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with cloud.db.read() as session:
        for name, policy, host in session.execute(query):
            hosts[name, policy][str(host)] += 1
    assert len(hosts) == GROUPS
    return [
        f"{policy} {dict(counts)}"
        for (_, policy), counts in hosts.items()
        if (len(counts) > 1 if policy == "affinity" else max(counts.values()) > 1)
    ]


def test_members_of_groups_are_where_their_policy_wants_them(cloud: TwoWriters) -> None:
    people = People(cloud.url)
    image = people.image()
    groups = [
        people.ask(
            "POST",
            "/v2.1/os-server-groups",
            json={"server_group": {"name": str(number), "policies": [("affinity", "anti-affinity")[number % 2]]}},
        )["server_group"]["id"]
        for number in range(GROUPS)
    ]

    def create(group: str) -> None:
        server = {"name": "member", "flavorRef": FLAVOR.flavorid, "imageRef": image}
        people.ask("POST", "/v2.1/servers", json={"server": server, "os:scheduler_hints": {"group": group}})

    with ThreadPoolExecutor(4 * MEMBERS) as threads:
        list(threads.map(create, [group for group in groups for _ in range(MEMBERS)]))
    assert settled(cloud) == {"active": GROUPS * MEMBERS}
    assert broken_policies(cloud) == []
    wait_for("the books to be right", lambda: violations(cloud) == [])
