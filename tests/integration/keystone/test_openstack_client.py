"""The unchanged `openstack` client, which finds minova in the catalog of a real Keystone."""

import json
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.integration.keystone.conftest import openstack
from tests.servers.keystone import Keystone


def answers(keystone: Keystone, user: str, project: str, *commands: str) -> list[Any]:
    out = openstack(keystone.client_environment(user, project), *(f"{command} -f json" for command in commands))
    return [json.loads(text) if text else None for text in out]


def test_operators_and_users_commands(cloud: Cluster, keystone: Keystone, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    made = answers(
        keystone,
        "admin",
        "admin",
        "catalog list",
        "flavor create tiny --ram 128 --disk 1",
        "compute service list",
        "hypervisor list",
        "aggregate create agg --zone blue",
        "availability zone list",
        "quota show --compute demo",
        "resource provider list",
        "resource class list",
        "trait list",
    )
    assert {entry["Type"] for entry in made[0]} == {"identity", "compute", "image", "network", "placement"}
    assert [host["Hypervisor Hostname"] for host in made[3]] == [provider["name"] for provider in made[7]] == ["h1"]
    provider = made[7][0]["uuid"]
    inventory, usage, candidates = answers(
        keystone,
        "admin",
        "admin",
        f"resource provider inventory list {provider}",
        f"resource provider usage show {provider}",
        "allocation candidate list --resource VCPU=1 --os-placement-api-version 1.29",
    )
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= {row["resource_class"] for row in inventory}
    assert (len(usage), len(candidates)) == (len(inventory), 1)
    _, image, server, servers, images, shown, addresses = answers(
        keystone,
        "alice",
        "demo",
        "network create private",
        f"image create guest --disk-format raw --file {disk}",
        "server create vm --flavor tiny --image guest --no-network --wait",
        "server list",
        "image list",
        "server show vm",
        "network list",
    )
    assert (server["status"], shown["name"]) == ("ACTIVE", "vm")
    assert shown["project_id"] == image["owner"] == keystone.id_of("projects", "demo")
    assert shown["user_id"] == keystone.id_of("users", "alice")
    assert ([row["Name"] for row in servers], [(row["Name"], row["Status"]) for row in images]) == (
        ["vm"],
        [("guest", "active")],
    )
    assert {row["Name"] for row in addresses} >= {"private"}
    openstack(keystone.client_environment("alice", "demo"), "server delete vm --wait", "image delete guest")
    openstack(keystone.client_environment(), "flavor delete tiny", "aggregate delete agg")
