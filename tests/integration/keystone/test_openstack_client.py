"""The unchanged `openstack` client, which finds minova in the catalog of a real Keystone."""

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.integration.keystone import commands
from tests.integration.keystone.conftest import COMMANDS, openstack
from tests.servers.keystone import Keystone

FLAVOR = "flavor create story --id story --ram 128 --disk 1 --vcpus 1"
OF_COMPUTE_AND_IMAGE = ("openstack.compute.v2", "openstack.image.v2")
# Of the others that the client has for several services.
COMMON = ("availability zone", "extension", "limits", "quota", "versions")


def known_commands() -> set[str]:
    """Of the installed client, without those of its plugins."""
    groups = (*OF_COMPUTE_AND_IMAGE, "openstack.common")
    entries = [entry for group in groups for entry in metadata.entry_points(group=group)]
    named = {
        (entry.group, entry.name.replace("_", " "))
        for entry in entries
        if entry.dist is not None and entry.dist.name == "python-openstackclient"
    }
    return {name for group, name in named if group in OF_COMPUTE_AND_IMAGE or name.startswith(COMMON)}


def names_of(lines: Iterable[str], known: set[str]) -> set[str]:
    """The commands that these lines run."""
    command_names = set()
    for line in lines:
        words = shlex.split(line)
        words = words[2:] if words[0] in ("until", "keep") else words
        beginnings = [" ".join(words[:length]) for length in range(1, len(words) + 1)]
        command_names |= {max((name for name in beginnings if name in known), key=len, default="")} - {""}
    return command_names


def check_refusals(environment: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """The client ends with 1 and says the error."""
    done = subprocess.run(
        [sys.executable, COMMANDS],
        input=json.dumps([shlex.split(command) for command in refused]),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env=dict(environment),
    )
    for (command, error), (code, out, err) in zip(refused.items(), json.loads(done.stdout), strict=True):
        assert code == 1, f"openstack {command}\n{out}"
        assert error in err, f"openstack {command}\n{err}"


def test_each_command_of_the_client_is_run_or_refused() -> None:
    """A release of the client that adds one fails here."""
    all_commands = known_commands()
    moves = (*commands.OF_MOVES, *commands.OF_EVACUATIONS)
    run = names_of((*commands.OF_OPERATORS, *commands.OF_USERS, *commands.OF_CACHES, *moves), all_commands)
    refused = names_of(commands.REFUSED, all_commands)
    alike = {name for name in all_commands if name.startswith(commands.ALIKE)}
    assert run | refused | alike | commands.ELSEWHERE.keys() == all_commands
    assert not run & refused
    assert not (run | refused) & commands.ELSEWHERE.keys()


def test_commands_of_operators(cloud: Cluster, keystone: Keystone) -> None:
    openstack(keystone.client_environment(), *commands.OF_OPERATORS)


@pytest.mark.nightly("hundreds of commands; test_operators_and_users_commands has one of each resource")
def test_commands_of_users_and_their_refusals(cloud: Cluster, keystone: Keystone, tmp_path: Path) -> None:
    """What is refused leaves the server as it is."""
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    files = {"{disk}": str(disk), "{key}": str(tmp_path / "key")}
    lines = list(commands.OF_USERS)
    for variable, file in files.items():
        lines = [line.replace(variable, file) for line in lines]
    booted = next(number for number, line in enumerate(lines, 1) if line.startswith("server create"))
    openstack(keystone.client_environment(), FLAVOR)
    alice = keystone.client_environment("alice", "demo")
    openstack(alice, *lines[:booted])
    check_refusals(alice, commands.REFUSED | commands.MOVES_REFUSED)
    operator = keystone.client_environment()
    openstack(operator, *commands.OF_CACHES, f"flavor delete {FLAVOR.split()[2]}")
    openstack(alice, commands.ACTIVE, *lines[booted:])


@pytest.mark.nightly("a minute of commands; test_sdk.py resizes and migrates")
def test_commands_of_moves(cloud: Cluster, keystone: Keystone, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    cloud.add_compute("h2")
    for host in cloud.computes:
        driver = cloud.driver(host)
        # Until it is told to end.
        driver.live_rounds, driver.between_rounds = sys.maxsize, lambda: threading.Event().wait(0.1)
    operator = keystone.client_environment()
    openstack(
        operator,
        FLAVOR,
        "flavor create larger --id larger --ram 256 --disk 1 --vcpus 1",
        f"image create moving --disk-format raw --file {disk}",
        "server create vm --flavor story --image moving --no-network --host h2",
        commands.ACTIVE,
        *commands.OF_MOVES,
    )
    cloud.computes.pop("h2").stop()
    openstack(operator, *commands.OF_EVACUATIONS, "until h1 server show vm -f value -c OS-EXT-SRV-ATTR:host")
    cloud.add_compute("h2")
    openstack(
        operator,
        "until completed server migration list --server vm --type evacuation -f value -c Status",
        "compute service set h2 nova-compute --up",
        "server delete vm --wait",
        "image delete moving",
        "flavor delete story larger",
    )
    cloud.computes.pop("h2").stop()
    openstack(
        operator,
        "keep ID compute service list --host h2 -f value -c ID",
        "compute service delete $ID",
    )


def test_the_service_of_a_host_that_has_ended_is_deleted(cloud: Cluster, keystone: Keystone) -> None:
    cloud.add_compute("ended")
    cloud.computes.pop("ended").stop()
    services = answers(keystone, "admin", "admin", "compute service list --host ended")[0]
    openstack(keystone.client_environment(), f"compute service delete {services[0]['ID']}")
    assert answers(keystone, "admin", "admin", "compute service list --host ended") == [[]]


def answers(keystone: Keystone, user: str, project: str, *commands: str) -> list[Any]:
    out = openstack(keystone.client_environment(user, project), *(f"{command} -f json" for command in commands))
    return [json.loads(text) if text else None for text in out]


def test_operators_and_users_commands(cloud: Cluster, keystone: Keystone, tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"\1" * 4096)
    outputs = answers(
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
    assert {entry["Type"] for entry in outputs[0]} == {"identity", "compute", "image", "network", "placement"}
    assert (
        [host["Hypervisor Hostname"] for host in outputs[3]] == [provider["name"] for provider in outputs[7]] == ["h1"]
    )
    provider = outputs[7][0]["uuid"]
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
