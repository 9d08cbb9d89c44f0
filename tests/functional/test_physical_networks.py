"""Servers go only to hosts that have bridges for their networks, and every other host has its reason."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from minova.context import service_context
from minova.objects.catalogue.flavor import Flavor
from minova.objects.network.physical_networks import trait_of
from tests.cluster import Cluster
from tests.waiting import wait_for

HOSTS = ("one", "two", "three")
TINY = Flavor(flavorid="tiny", name="tiny", vcpus=1, memory_mb=64, root_gb=1)


class Client:
    def __init__(self, url: str) -> None:
        self._url = url
        self._http = urllib3.PoolManager()

    def __call__(self, method: str, path: str, **body: Any) -> Any:
        headers = {"OpenStack-API-Version": "compute 2.96, placement 1.39", "X-Roles": "admin"}
        patience = urllib3.Retry(10, status_forcelist=[503], allowed_methods=None, raise_on_status=False)
        more = {"json": body} if body else {}
        answer = self._http.request(method, self._url + path, headers=headers, retries=patience, **more)
        assert answer.status < 300, (path, answer.status, answer.data)
        return answer.json() if answer.data else None

    def network(self, name: str, **values: Any) -> str:
        return str(self("POST", "/network/v2.0/networks", network={"name": name, **values})["network"]["id"])

    def body(self, image: str, *networks: dict[str, str]) -> dict[str, Any]:
        return {"name": "vm", "flavorRef": "tiny", "imageRef": image, "networks": list(networks)}

    def boot(self, image: str, *networks: dict[str, str]) -> Any:
        """The server, once it is built or has failed."""
        server_id = self("POST", "/v2.1/servers", server=self.body(image, *networks))["server"]["id"]

        def ended() -> Any:
            server = self("GET", f"/v2.1/servers/{server_id}")["server"]
            return server if server["status"] in {"ACTIVE", "ERROR"} else None

        return wait_for("the build has ended", ended)

    def dry_run(self, image: str, *networks: dict[str, str]) -> Any:
        return self("POST", "/v2.1/servers/dry-run", server=self.body(image, *networks))["dry_run"]

    def reasons(self, image: str, *networks: dict[str, str]) -> dict[str, str]:
        """By host, why it is none for a server on these."""
        steps = self.dry_run(image, *networks)["diagnosis"]["steps"]
        return {lost["host"]: lost["reason"] for step in steps for lost in step["lost"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    mappings = {"dc1": "br0", "dc1.7": "br7"}
    with Cluster(tmp_path_factory.mktemp("cloud"), HOSTS, networks__bridge_mappings=mappings) as cluster:
        cluster.conductor.create_flavor(service_context(), flavor=TINY)
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Client:
    return Client(cluster.url)


@pytest.fixture(scope="module")
def image(client: Client) -> str:
    body = {"name": "i", "disk_format": "raw", "container_format": "bare"}
    image = str(client("POST", "/v2/images", **body)["id"])
    headers = {"Content-Type": "application/octet-stream"}
    url = f"{client._url}/v2/images/{image}/file"
    assert urllib3.request("PUT", url, body=b"\1" * 512, headers=headers).status == 204
    return image


@pytest.fixture(scope="module")
def networks(client: Client) -> dict[str, str]:
    flat = {"provider:network_type": "flat", "provider:physical_network": "dc1"}
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "dc1", "provider:segmentation_id": 7}
    network_by_type = {
        "flat": client.network("flat", **flat),
        "vlan": client.network("vlan", **vlan),
        "nat": client.network("nat"),
    }
    for number, network in enumerate(network_by_type.values()):
        subnet = {"network_id": network, "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
        client("POST", "/network/v2.0/subnets", subnet=subnet)
    return network_by_type


@pytest.fixture
def bridges(cluster: Cluster, client: Client) -> Iterator[Any]:
    """Sets the bridges that a host has, as if people made and removed them, and waits until the cloud knows it."""

    def provider_traits(host: str) -> set[str]:
        (provider,) = client("GET", f"/placement/resource_providers?name={host}")["resource_providers"]
        traits = client("GET", f"/placement/resource_providers/{provider['uuid']}/traits")["traits"]
        return {trait for trait in traits if trait.startswith("CUSTOM_PHYSNET_")}

    def set_bridges(host: str, **segments: str) -> None:
        there = {segment.replace("_", "."): bridge for segment, bridge in segments.items()}
        cluster.confs_of_computes[host].set_override("bridge_mappings", there, "networks")
        expected_traits = {trait_of(segment) for segment in there}
        wait_for(f"the traits of {host}", lambda: provider_traits(host) == expected_traits)

    yield set_bridges
    for host in HOSTS:
        set_bridges(host, dc1="br0", dc1_7="br7")


def delete(client: Client, server: Any) -> None:
    client("DELETE", f"/v2.1/servers/{server['id']}")
    wait_for("it is gone", lambda: server["id"] not in {s["id"] for s in client("GET", "/v2.1/servers")["servers"]})


def test_only_hosts_with_the_bridges_are_candidates(
    client: Client, image: str, networks: dict[str, str], bridges: Any
) -> None:
    bridges("one")
    bridges("two", dc1="br0")
    flat, vlan, nat = ({"uuid": networks[name]} for name in ("flat", "vlan", "nat"))
    assert client.reasons(image, flat) == {"one": "no bridge for physical network dc1"}
    assert client.reasons(image, flat, vlan) == {
        "one": "no bridge for physical network dc1, dc1.7",
        "two": "no bridge for physical network dc1.7",
    }
    assert client.reasons(image, nat) == {}
    server = client.boot(image, vlan)
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "three")
    delete(client, server)


def test_a_port_needs_the_bridge_of_its_network(
    client: Client, image: str, networks: dict[str, str], bridges: Any
) -> None:
    bridges("one")
    bridges("three")
    port = client("POST", "/network/v2.0/ports", port={"network_id": networks["flat"]})["port"]["id"]
    server = client.boot(image, {"port": port})
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "two")
    delete(client, server)
    client("DELETE", f"/network/v2.0/ports/{port}")


def test_without_any_bridge_no_build_is_tried(
    client: Client, image: str, networks: dict[str, str], bridges: Any
) -> None:
    for host in HOSTS:
        bridges(host)
    flat = {"uuid": networks["flat"]}
    answer = client.dry_run(image, flat)
    assert not answer["fits"]
    assert answer["reason"] == ("No valid host was found. 3 hosts: placement removed 3 (no bridge of its network).")
    server = client.boot(image, flat)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == answer["reason"]
    events = client("GET", f"/v2.1/servers/{server['id']}/os-instance-actions")["instanceActions"]
    assert [event["action"] for event in events] == ["create"]
    delete(client, server)
    capacity = client("POST", "/v2.1/servers/capacity", server=client.body(image, flat))["capacity"]
    assert capacity["total"] == 0
    assert client("POST", "/v2.1/servers/capacity", server=client.body(image))["capacity"]["total"] > 0


def test_an_unshelved_server_goes_where_its_networks_are(
    client: Client, image: str, networks: dict[str, str], bridges: Any
) -> None:
    bridges("two")
    bridges("three")
    server = client.boot(image, {"uuid": networks["vlan"]})
    assert server["OS-EXT-SRV-ATTR:host"] == "one"
    action = f"/v2.1/servers/{server['id']}/action"

    def status(wanted: str) -> Any:
        server_view = client("GET", f"/v2.1/servers/{server['id']}")["server"]
        return server_view if server_view["status"] == wanted and server_view["OS-EXT-STS:task_state"] is None else None

    client("POST", action, shelve=None)
    wait_for("it is shelved", lambda: status("SHELVED_OFFLOADED"))
    bridges("three", dc1_7="br7")
    bridges("one")
    client("POST", action, unshelve=None)
    assert wait_for("it is back", lambda: status("ACTIVE"))["OS-EXT-SRV-ATTR:host"] == "three"
    delete(client, server)


def test_the_traits_of_people_stay(cluster: Cluster, client: Client, bridges: Any) -> None:
    own = f"CUSTOM_{uuid.uuid4().hex[:8].upper()}"
    (provider,) = client("GET", "/placement/resource_providers?name=one")["resource_providers"]
    path = f"/placement/resource_providers/{provider['uuid']}/traits"
    client("PUT", f"/placement/traits/{own}")

    def give() -> Any:
        before = client("GET", path)
        return client(
            "PUT",
            path,
            traits=[*before["traits"], own],
            resource_provider_generation=before["resource_provider_generation"],
        )

    give()
    bridges("one")
    assert own in client("GET", path)["traits"]
