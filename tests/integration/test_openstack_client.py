"""The unchanged `openstack` client works against minova with `http_basic`: one process runs all commands."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import urllib3

from tests.cluster import Cluster
from tests.waiting import wait_for

COMMANDS = Path(__file__).parents[1] / "openstack_commands.py"
# As docs/reference/compatibility.md tells operators.
CLOUDS = """
clouds:
  minova:
    auth_type: http_basic
    auth: {{username: alice, password: secret, endpoint: "{url}/v3"}}
    compute_endpoint_override: {url}/v2.1
    image_endpoint_override: {url}/v2
    network_endpoint_override: {url}/network
"""
# The client asks for a network on its own with `networks: auto`, and then there must be one.
NETWORK = ("network create blue -f json", "subnet create blue4 --network blue --subnet-range 10.0.0.0/24 -f json")


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A test gives further options as the fixture's parameter."""
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    users = tmp_path / "htpasswd"
    users.write_text("".join(f"{user}:{hashed}\n" for user in ("alice", "compute")))
    options: dict[str, Any] = {
        "api__auth_strategy": "http_basic",
        "api__http_basic_auth_user_file": str(users),
        "api__admin_users": ["alice", "compute"],
        "glance__username": "compute",
        "glance__password": "secret",
        **getattr(request, "param", {}),
    }
    with Cluster(tmp_path / "cloud", ["h1"], **options) as cluster:
        yield cluster


def openstack(folder: Path, *commands: str) -> list[str]:
    """The output of each command; an AssertionError with the client's words if one fails."""
    words = json.dumps([command.split() for command in commands])
    environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml"), "OS_CLOUD": "minova"}
    done = subprocess.run(
        [sys.executable, COMMANDS], input=words, capture_output=True, text=True, timeout=120, check=True, cwd=folder, env=environment
    )  # fmt: skip
    results: list[Any] = json.loads(done.stdout)
    for command, (code, out, err) in zip(commands, results, strict=True):
        assert not code, f"openstack {command}\n{out}\n{err}"
    return [out for _, out, _ in results]


def test_servers_flavors_and_images(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(CLOUDS.format(url=cluster.url))
    (tmp_path / "disk.raw").write_bytes(b"\1" * 4096)
    (tmp_path / "script").write_text("#!/bin/sh\n")
    given = "--key-name mine --user-data script --use-config-drive --password s3cret"
    _, *answers = openstack(
        tmp_path,
        "keypair create mine --private-key id",
        "flavor create tiny --ram 128 --disk 1 --property hw:cpu_policy=shared -f json",
        "flavor list -f json",
        "image create guest --disk-format raw --file disk.raw --property os_distro=debian -f json",
        "image list --property os_distro=debian --sort name:asc -f json",
        "image list --property os_distro=ubuntu -f json",
        "image set guest --name other --property a/b=c --tag t --protected --private --hidden --min-ram 64",
        "image set other --unprotected --unhidden --shared --deactivate",
        "image set other --activate",
        "image unset other --property a/b --tag t",
        "image set other --name guest",
        "image show guest -f json",
        "image create staged --disk-format raw --file disk.raw --import",
        *NETWORK,
        f"server create web-1 --flavor tiny --image guest {given} --wait -f json",
        "server list -f json",
        "server list --name ^web-[0-9]+$ -f json",
        "server list --ip 10.0.0.7 -f json",
        "server list --key-name nobodys -f json",
        "server show web-1 -f json",
        "compute service list --service nova-compute -f json",
        "server delete web-1 --wait",
        "server list -f json",
    )
    (
        _,
        flavors,
        _,
        debian,
        ubuntu,
        _,
        _,
        _,
        _,
        _,
        image,
        _,
        _,
        _,
        created,
        listed,
        matching,
        by_ip,
        by_key,
        shown,
        services,
        _,
        left,
    ) = (json.loads(answer if answer.startswith(("[", "{")) else "null") for answer in answers)
    assert [flavor["Name"] for flavor in flavors] == ["tiny"]
    assert ([image["Name"] for image in debian], ubuntu) == (["guest"], [])
    assert {key: image[key] for key in ("name", "status", "protected", "visibility", "min_ram", "tags")} == {
        "name": "guest",
        "status": "active",
        "protected": False,
        "visibility": "shared",
        "min_ram": 64,
        "tags": [],
    }
    assert "a/b" not in image["properties"]
    assert (created["status"], shown["status"], shown["name"]) == ("ACTIVE", "ACTIVE", "web-1")
    assert (shown["key_name"], shown["config_drive"]) == ("mine", "True")
    assert [server["Name"] for server in listed] == [server["Name"] for server in matching] == ["web-1"]
    # A filter that was dropped would list every server here, and `server delete` would get them.
    assert (by_ip, by_key, left) == ([], [], [])
    assert [service["Binary"] for service in services] == ["nova-compute"]


@pytest.mark.nightly("tests/integration/keystone/commands.py has its commands")
@pytest.mark.parametrize("cluster", [{"reclaim_instance_interval": 3600}], indirect=True)
def test_server_actions(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(CLOUDS.format(url=cluster.url))
    (tmp_path / "disk.raw").write_bytes(b"\1" * 4096)
    openstack(
        tmp_path,
        "flavor create tiny --ram 128 --disk 1",
        "image create guest --disk-format raw --file disk.raw",
        "image create rescuer --disk-format raw --file disk.raw",
        *NETWORK,
        "server create vm --flavor tiny --image guest --wait",
    )
    commands = {
        "stop": "SHUTOFF",
        "start": "ACTIVE",
        "pause": "PAUSED",
        "unpause": "ACTIVE",
        "suspend": "SUSPENDED",
        "resume": "ACTIVE",
        "reboot --soft --wait": "ACTIVE",
        "reboot --hard --wait": "ACTIVE",
        "rescue --image rescuer": "RESCUE",
        "unrescue": "ACTIVE",
        "set --password new": "ACTIVE",
        "dump create": "ACTIVE",
        "rebuild --image rescuer --name vm --property role=web --wait": "ACTIVE",
        # Offloaded at once, as by default.
        "shelve --wait": "SHELVED_OFFLOADED",
        "unshelve --wait": "ACTIVE",
    }
    openstack(tmp_path, "server image create vm --name shot --wait", "server backup create vm --name saved --wait")
    *_, images = openstack(tmp_path, "image list --status active -f json")
    assert {"shot", "saved"} < {image["Name"] for image in json.loads(images or "[]")}
    for command, status in commands.items():
        openstack(tmp_path, f"server {command} vm")
        server = wait_for(command, lambda: idle_server(cluster.url))
        assert server["status"] == status, command
    added = ("server add network vm blue", "port create own --network blue", "server add port vm own")
    *_, ports = openstack(tmp_path, *added, "port list --network blue -f json")
    uuid = idle_server(cluster.url)["id"]
    assert len(json.loads(ports)) == len(interfaces(cluster.url, uuid)) == 3
    openstack(tmp_path, "server remove port vm own")
    wait_for("two interfaces", lambda: len(interfaces(cluster.url, uuid)) == 2, 30)
    openstack(tmp_path, "server remove network vm blue")
    wait_for("no interface", lambda: interfaces(cluster.url, uuid) == [], 30)
    left, _ = openstack(tmp_path, "port list --network blue -f json", "port delete own")
    assert [port["Name"] for port in json.loads(left)] == ["own"]
    openstack(tmp_path, "server delete vm")
    wait_for(
        "the soft deletion",
        lambda: of_alice(f"{cluster.url}/v2.1/servers/{uuid}")["server"]["status"] == "SOFT_DELETED",
    )
    openstack(tmp_path, f"server restore {uuid}")
    wait_for("the restore", lambda: idle_server(cluster.url)["status"] == "ACTIVE")
    openstack(tmp_path, "server delete vm --force --wait")
    assert of_alice(f"{cluster.url}/v2.1/servers")["servers"] == []


def of_alice(url: str) -> Any:
    return urllib3.request("GET", url, headers=urllib3.make_headers(basic_auth="alice:secret")).json()


def interfaces(url: str, uuid: str) -> list[Any]:
    attachments: list[Any] = of_alice(f"{url}/v2.1/servers/{uuid}/os-interface")["interfaceAttachments"]
    return attachments


def idle_server(url: str) -> Any:
    """The one server, if nothing is done to it."""
    (server,) = of_alice(f"{url}/v2.1/servers/detail")["servers"]
    return server if server["OS-EXT-STS:task_state"] is None else None
