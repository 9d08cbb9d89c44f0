"""Server groups and availability zones through API, conductor, two schedulers and six computes at once."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from minova.context import service_context
from minova.objects.catalogue.flavor import Flavor
from tests.cluster import BOOK_BUS, Cluster
from tests.functional.test_cloud import People, violations
from tests.waiting import wait_for

HOSTS = tuple(f"host-{number}" for number in range(6))
TINY = Flavor(flavorid="tiny", name="tiny", vcpus=1, memory_mb=64, root_gb=1)

Json = dict[str, Any]


class Cloud:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._people = People(cluster.url)
        self.ask = self._people.ask
        self._image = self._people.image()

    def group(self, policy: str, **rules: int) -> str:
        body = {"server_group": {"name": "g", "policy": policy, "rules": rules}}
        headers = {"OpenStack-API-Version": "compute 2.64"}
        return str(self.ask("POST", "/v2.1/os-server-groups", json=body, headers=headers)["server_group"]["id"])

    def zone(self, name: str, *hosts: str) -> int:
        body = {"aggregate": {"name": name, "availability_zone": name}}
        aggregate = int(self.ask("POST", "/v2.1/os-aggregates", json=body)["aggregate"]["id"])
        for host in hosts:
            self.act(aggregate, add_host={"host": host})
        return aggregate

    def act(self, aggregate: int, **action: Json) -> None:
        self.ask("POST", f"/v2.1/os-aggregates/{aggregate}/action", json=action)

    def boot(self, count: int = 1, group: str | None = None, **more: Any) -> None:
        server = {"name": "vm", "flavorRef": "tiny", "imageRef": self._image, "min_count": count}
        body: Json = {"server": server | more}
        if group is not None:
            body["os:scheduler_hints"] = {"group": group}
        self.ask("POST", "/v2.1/servers", json=body)

    def boot_each(self, count: int, group: str) -> None:
        """So many requests at the same time."""
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda _: self.boot(1, group), range(count)))

    def servers(self) -> list[Json]:
        servers: list[Json] = self.ask("GET", "/v2.1/servers/detail?limit=100")["servers"]
        return servers

    def settled(self, count: int) -> list[Json]:
        """All servers, when so many have ended to be built."""

        def ask() -> list[Json]:
            servers = self.servers()
            return servers if [server["status"] in ("ACTIVE", "ERROR") for server in servers] == [True] * count else []

        built_servers = wait_for(f"{count} servers are built", ask)
        wait_for("usage is told", lambda: not violations(self.cluster))
        return built_servers

    def delete(self, servers: list[Json]) -> None:
        for server in servers:
            self.ask("DELETE", f"/v2.1/servers/{server['id']}")
        gone = {server["id"] for server in servers}
        wait_for("they are deleted", lambda: not gone & {server["id"] for server in self.servers()})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("cloud")
    sizes: Json = {"fake_memory_mb": 4096, "fake_vcpus": 8}
    with Cluster(folder, HOSTS, transport_url=BOOK_BUS, schedulers=2, **sizes) as cluster:
        cluster.conductor.create_flavor(service_context(), flavor=TINY)
        yield Cloud(cluster)


@pytest.fixture
def cloud(running: Cloud) -> Iterator[Cloud]:
    yield running
    running.delete(running.servers())


def hosts_of(servers: list[Json]) -> Counter[str]:
    return Counter(server["OS-EXT-SRV-ATTR:host"] for server in servers if server["status"] == "ACTIVE")


def reasons(servers: list[Json]) -> list[str]:
    return [server["fault"]["message"] for server in servers if server["status"] == "ERROR"]


@pytest.mark.parametrize(("rules", "most"), [({}, 1), ({"max_server_per_host": 2}, 2)])
def test_anti_affinity_holds_under_parallel_requests_and_gives_places_back(
    cloud: Cloud, rules: dict[str, int], most: int
) -> None:
    group, room = cloud.group("anti-affinity", **rules), most * len(HOSTS)
    cloud.boot_each(room + 2, group)
    servers = cloud.settled(room + 2)
    assert hosts_of(servers) == dict.fromkeys(HOSTS, most)
    assert len(reasons(servers)) == 2
    assert all("ServerGroupAntiAffinityFilter removed" in reason for reason in reasons(servers)), reasons(servers)
    members = cloud.ask("GET", f"/v2.1/os-server-groups/{group}")["server_group"]["members"]
    assert len(members) == room + 2
    left = [server for server in servers if server["status"] == "ERROR"]
    active_server = next(server for server in servers if server["status"] == "ACTIVE")
    cloud.delete([*left, active_server])
    cloud.boot(1, group)
    assert hosts_of(cloud.settled(room)) == dict.fromkeys(HOSTS, most)


def test_affinity_holds_under_parallel_requests(cloud: Cloud) -> None:
    group = cloud.group("affinity")
    cloud.boot_each(6, group)
    cloud.boot(3, group)
    assert [*hosts_of(cloud.settled(9)).values()] == [9]


def test_one_request_for_many_of_a_group(cloud: Cloud) -> None:
    cloud.boot(6, cloud.group("anti-affinity"))
    assert hosts_of(cloud.settled(6)) == dict.fromkeys(HOSTS, 1)
    cloud.boot(5, cloud.group("affinity"))
    assert max(hosts_of(cloud.settled(11)).values()) >= 5


def test_more_than_a_policy_allows_at_once_get_nothing(cloud: Cloud) -> None:
    cloud.boot(7, cloud.group("anti-affinity"))
    servers = cloud.settled(7)
    assert not hosts_of(servers)
    assert all("Only 6 of 7 instances had one." in reason for reason in reasons(servers))


def test_zones_hold_and_a_change_is_seen_at_once(cloud: Cloud) -> None:
    north, south = cloud.zone("north", *HOSTS[:2]), cloud.zone("south", HOSTS[2])
    try:
        cloud.boot(4, availability_zone="north")
        cloud.boot(2, availability_zone="south")
        cloud.boot(3, availability_zone="nova")
        servers = cloud.settled(9)
        places = {(server["OS-EXT-AZ:availability_zone"], server["OS-EXT-SRV-ATTR:host"]) for server in servers}
        by_zone = {zone: {host for name, host in places if name == zone} for zone, _ in places}
        assert by_zone["north"] == {*HOSTS[:2]}
        assert by_zone["south"] == {HOSTS[2]}
        assert by_zone["nova"] <= {*HOSTS[3:]}
        cloud.delete(servers)
        cloud.act(north, remove_host={"host": HOSTS[0]})
        cloud.boot(4, availability_zone="north")
        assert hosts_of(cloud.settled(4)) == {HOSTS[1]: 4}
    finally:
        cloud.delete(cloud.servers())
        for aggregate, hosts in ((north, HOSTS[1:2]), (south, HOSTS[2:3])):
            for host in hosts:
                cloud.act(aggregate, remove_host={"host": host})
            cloud.ask("DELETE", f"/v2.1/os-aggregates/{aggregate}")


def test_soft_policies_do_as_they_can(cloud: Cloud) -> None:
    group = cloud.group("soft-anti-affinity")
    for number in range(7):
        cloud.boot(1, group)
        cloud.settled(number + 1)
    assert sorted(hosts_of(cloud.settled(7)).values()) == [1, 1, 1, 1, 1, 2]
