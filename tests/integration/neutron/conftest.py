"""A real Neutron, and a cloud whose servers are on its networks."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import urllib3

from tests.cluster import Cluster
from tests.servers.neutron import Neutron
from tests.servers.private_server import free_ports
from tests.waiting import wait_for

HOST = "h1"
OPTIONS = """
[neutron]
backend = neutron
auth_type = none
endpoint_override = {url}
"""


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """What tests ask of minova, as an administrator who is in the project demo."""

    cluster: Cluster
    neutron: Neutron
    image: str
    flavor: str
    network: dict[str, Any]

    def ask(self, method: str, path: str, body: Any = None, status: int | None = None, version: str = "2.95") -> Any:
        headers = {"X-Auth-Token": "alice:demo", "OpenStack-API-Version": f"compute {version}"}
        url = f"{self.cluster.url}{path}"
        answer = urllib3.request(method, url, json=body, headers=headers, retries=False, timeout=90)
        assert answer.status == status if status is not None else answer.status < 300, answer.data
        return answer.json() if answer.data else None

    def create(self, name: str, networks: Any, status: int | None = None, **more: Any) -> Any:
        server = {"name": name, "imageRef": self.image, "flavorRef": self.flavor, "networks": networks, **more}
        return self.ask("POST", "/v2.1/servers", {"server": server}, status)

    def boot(self, name: str, networks: Any, **more: Any) -> str:
        return str(self.create(name, networks, **more)["server"]["id"])

    def act(self, server: str, action: str, version: str = "2.43", **arguments: Any) -> None:
        self.ask("POST", f"/v2.1/servers/{server}/action", {action: arguments}, 202, version)

    def show(self, server: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask("GET", f"/v2.1/servers/{server}")["server"]
        return shown

    def until(self, server: str, status: str) -> dict[str, Any]:
        def look() -> dict[str, Any]:
            shown = self.show(server)
            assert shown["status"] in (status, "BUILD"), shown.get("fault")
            return shown if shown["status"] == status else {}

        return wait_for(f"server {server} is {status}", look)

    def ports(self, server: str) -> list[dict[str, Any]]:
        return self.neutron.ports_of(server)

    def bound(self, server: str, count: int = 1) -> list[dict[str, Any]]:
        """Its ports, once they are bound to its host."""

        def look() -> list[dict[str, Any]]:
            ports = self.ports(server)
            assert self.show(server)["status"] != "ERROR", self.show(server)["fault"]
            return ports if len([port for port in ports if port["binding:vif_type"] == "ovs"]) == count else []

        return wait_for(f"{count} ports of {server} are bound", look)

    def delete(self, server: str) -> None:
        self.ask("DELETE", f"/v2.1/servers/{server}")
        wait_for("the server is deleted", lambda: self._is_gone(server))

    def _is_gone(self, server: str) -> bool:
        path = f"{self.cluster.url}/v2.1/servers/{server}"
        headers = {"X-Auth-Token": "alice:demo"}
        return urllib3.request("GET", path, headers=headers, retries=False, timeout=60).status == 404


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    folder = tmp_path_factory.mktemp("neutron")
    (port,) = free_ports(1)
    with Neutron(f"http://127.0.0.1:{port}/v2.1") as neutron:
        file = folder / "neutron.conf"
        file.write_text(OPTIONS.format(url=neutron.url))
        neutron.agent(HOST)
        network = neutron.network("blue", "10.9.0.0/24")
        options: dict[str, Any] = {"api__osapi_compute_listen_port": port, "heal_instance_info_cache_interval": 2}
        with Cluster(folder / "cloud", [HOST], files=[str(file)], **options) as cluster:
            yield Cloud(cluster=cluster, neutron=neutron, image=image(cluster), flavor=flavor(cluster), network=network)


def image(cluster: Cluster, data: bytes = b"\1" * 4096, disk_format: str = "raw") -> str:
    image_body = {"name": "guest", "disk_format": disk_format, "container_format": "bare", "visibility": "public"}
    headers = {"X-Auth-Token": "alice:demo"}
    created = urllib3.request("POST", f"{cluster.url}/v2/images", json=image_body, headers=headers, timeout=60).json()
    sent = urllib3.request(
        "PUT",
        f"{cluster.url}/v2/images/{created['id']}/file",
        body=data,
        headers=headers | {"Content-Type": "application/octet-stream"},
        timeout=60,
    )
    assert sent.status == 204, sent.data
    return str(created["id"])


def flavor(cluster: Cluster) -> str:
    flavor_body = {"flavor": {"name": "tiny", "ram": 128, "vcpus": 1, "disk": 1, "id": "tiny"}}
    created = urllib3.request(
        "POST", f"{cluster.url}/v2.1/flavors", json=flavor_body, headers={"X-Auth-Token": "alice:demo"}
    )
    assert created.status == 200, created.data
    return "tiny"
