"""Users of a real Keystone on networks of a real Neutron, which decides by their tokens what they see and change. Its agent is a stand-in."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import urllib3

from tests.cluster import Cluster
from tests.integration.keystone.conftest import openstack
from tests.servers.keystone import PASSWORD, Keystone, of_project
from tests.servers.neutron import Neutron
from tests.waiting import wait_for

HOST = "n1"
# As docs/operators/neutron.md has it.
OPTIONS = """
[neutron]
backend = neutron
auth_type = password
auth_url = {keystone}
username = nova
password = {password}
user_domain_name = Default
project_name = service
project_domain_name = Default
endpoint_override = {neutron}
"""


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    keystone: Keystone
    neutron: Neutron
    url: str
    tokens: dict[tuple[str, str], str] = {}

    def client(self, user: str, project: str, *commands: str) -> list[Any]:
        """What the `openstack` client answers. The catalog is the other tests'."""
        own = {
            "OS_COMPUTE_ENDPOINT_OVERRIDE": f"{self.url}/v2.1",
            "OS_IMAGE_ENDPOINT_OVERRIDE": f"{self.url}/image/v2",
            "OS_NETWORK_ENDPOINT_OVERRIDE": f"{self.neutron.url}/v2.0",
        }
        environment = self.keystone.client_environment(user, project) | own
        out = openstack(environment, *(f"{command} -f json" for command in commands))
        return [json.loads(text) if text else None for text in out]

    def ask(self, user: str, project: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        if (user, project) not in self.tokens:
            self.tokens[user, project] = self.keystone.token(user, scope=of_project(project))
        headers = {"X-Auth-Token": self.tokens[user, project], "OpenStack-API-Version": "compute 2.43"}
        answer = urllib3.request(method, f"{self.url}{path}", json=body, headers=headers, retries=False, timeout=90)
        return answer.status, answer.json() if answer.data else None


@pytest.fixture(scope="module")
def cloud(
    keystone: Keystone,
    keystone_options: str,
    tmp_path_factory: pytest.TempPathFactory,
    fresh_rabbit_url: Callable[[], str],
) -> Iterator[Cloud]:
    """bob is a member of the project other."""
    folder = tmp_path_factory.mktemp("neutron")
    nova = keystone.add_user("nova", service="service")
    keystone.grant(nova, "service", "admin")
    keystone.add_user("bob", other="member")
    with Neutron(keystone=keystone) as neutron:
        neutron.agent(HOST)
        file = folder / "neutron.conf"
        file.write_text(OPTIONS.format(keystone=keystone.url, password=PASSWORD, neutron=neutron.url))
        files = [keystone_options, str(file)]
        more: dict[str, Any] = {"heal_instance_info_cache_interval": 2}
        with Cluster(folder / "cloud", [HOST], transport_url=fresh_rabbit_url(), files=files, **more) as cluster:
            yield Cloud(keystone=keystone, neutron=neutron, url=cluster.url)


@pytest.mark.nightly("a minute; tests/integration/neutron has the ports of servers each day")
def test_users_boot_on_networks_that_neutron_shows_them(cloud: Cloud, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    cloud.client("admin", "admin", "flavor create neutron-tiny --ram 128 --disk 1")
    (foreign, _, _) = cloud.client(
        "bob",
        "other",
        "network create bobs",
        "subnet create bobs --network bobs --subnet-range 10.6.0.0/24",
        "security group create secret",
    )
    *_, group, image, created = cloud.client(
        "alice",
        "demo",
        "network create alices",
        "subnet create alices --network alices --subnet-range 10.5.0.0/24",
        "security group create web",
        f"image create neutron-guest --disk-format raw --file {disk}",
        "server create vm --flavor neutron-tiny --image neutron-guest --network alices --security-group web",
    )
    server = created["id"]
    path = f"/v2.1/servers/{server}"

    def bound() -> list[dict[str, Any]]:
        return [port for port in cloud.neutron.ports_of(server) if port["binding:vif_type"] == "ovs"]

    (port,) = wait_for("its port is bound", bound)
    assert (port["project_id"], port["security_groups"]) == (cloud.keystone.id_of("projects", "demo"), [group["id"]])
    cloud.neutron.wired(HOST, port["id"])
    shown = wait_for(
        "it is active", lambda: (now := alices(cloud, "GET", path)["server"])["status"] == "ACTIVE" and now
    )
    assert list(shown["addresses"]) == ["alices"]
    # Without them if Neutron is too slow.
    wait_for(
        "its group is shown", lambda: alices(cloud, "GET", path)["server"].get("security_groups") == [{"name": "web"}]
    )

    # Groups and addresses, with the token of alice.
    def act(**action: Any) -> int:
        return cloud.ask("alice", "demo", "POST", f"{path}/action", action)[0]

    assert act(addSecurityGroup={"name": "default"}) == 202
    assert act(removeSecurityGroup={"name": group["id"]}) == 202
    assert [
        security_group["name"]
        for security_group in alices(cloud, "GET", f"{path}/os-security-groups")["security_groups"]
    ] == ["default"]
    assert act(addSecurityGroup={"name": "secret"}) == 404
    assert act(addFixedIp={"networkId": port["network_id"]}) == 202
    wait_for("it has two", lambda: len(alices(cloud, "GET", path)["server"]["addresses"]["alices"]) == 2)

    # What is bob's.
    server_body = {"name": "x", "imageRef": image["id"], "flavorRef": shown["flavor"]["id"]}
    theirs = cloud.neutron.port(foreign["id"], cloud.keystone.id_of("projects", "other"))
    for refused, said in (
        ({"networks": [{"uuid": foreign["id"]}]}, f"Network {foreign['id']} could not be found"),
        ({"networks": [{"port": theirs["id"]}]}, f"Port id {theirs['id']} could not be found"),
        ({"networks": [{"uuid": port["network_id"]}], "security_groups": [{"name": "secret"}]}, "not found: 'secret'"),
    ):
        status, answer = cloud.ask("alice", "demo", "POST", "/v2.1/servers", {"server": {**server_body, **refused}})
        assert (status, said in answer["badRequest"]["message"]) == (400, True), answer
    # Of all networks there is one that she may use.
    status, answer = cloud.ask(
        "alice", "demo", "POST", "/v2.1/servers", {"server": {**server_body, "networks": "auto"}}
    )
    assert status == 202, answer
    for uuid in (server, answer["server"]["id"]):
        alices(cloud, "DELETE", f"/v2.1/servers/{uuid}")
        wait_for("its ports are deleted", lambda uuid=uuid: not cloud.neutron.ports_of(uuid))  # type: ignore[misc]


def alices(cloud: Cloud, method: str, path: str) -> Any:
    status, answer = cloud.ask("alice", "demo", method, path)
    assert status < 300, answer
    return answer
