"""The ordinary `openstack` client and openstacksdk, unchanged, against the Network API."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minova.api.server import ApiService
from tests.functional.api.conftest import Cloud

CLIENT = Path(__file__).parents[3] / "openstack_commands.py"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    cloud = Cloud(tmp_path, osapi_compute_listen_port=0)
    service = ApiService(cloud.conf, cloud.app)
    service.start()
    yield f"http://127.0.0.1:{service.port}/network"
    service.stop()
    cloud.close()


def openstack(url: str, *commands: str) -> list[Any]:
    """What each printed, read as JSON where it is asked for it, or its error if it failed."""
    login = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "admin"]
    words_of_commands = json.dumps([[*login, *command.split()] for command in commands])
    done = subprocess.run(
        [sys.executable, str(CLIENT)], input=words_of_commands, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    answers: list[Any] = []
    for command, (code, out, err) in zip(commands, json.loads(done.stdout), strict=True):
        answers.append(err if code else json.loads(out) if "-f json" in command else out)
    return answers


def test_client_makes_lists_shows_changes_and_deletes(url: str) -> None:
    blue, front, first_port, listed, subnets, ports, shown, in_use, changed, quiet, *_, left = openstack(
        url,
        "network create blue --mtu 1400 --share -f json",
        "subnet create front --network blue --subnet-range 10.1.0.0/24 --dns-nameserver 9.9.9.9 -f json",
        "port create one --network blue --fixed-ip subnet=front,ip-address=10.1.0.15 -f json",
        "network list --long -f json",
        "subnet list --network blue -f json",
        "port list --network blue -f json",
        "port show one -f json",
        "network delete blue",
        "network set --name green blue",
        "port set --fixed-ip subnet=front,ip-address=10.1.0.16 one",
        "extension list --network -f json",
        "port delete one",
        "subnet delete front",
        "network delete green",
        "network list -f json",
    )
    assert (blue["name"], blue["mtu"], blue["shared"], blue["provider:network_type"]) == ("blue", 1400, True, "local")
    assert (front["network_id"], front["gateway_ip"], front["allocation_pools"]) == (
        blue["id"],
        "10.1.0.1",
        [{"start": "10.1.0.2", "end": "10.1.0.254"}],
    )
    assert first_port["fixed_ips"] == [{"subnet_id": front["id"], "ip_address": "10.1.0.15"}]
    assert [(row["Name"], row["Subnets"], row["State"]) for row in listed] == [("blue", [front["id"]], True)]
    assert [(row["Name"], row["Subnet"]) for row in subnets] == [("front", "10.1.0.0/24")]
    assert [(row["Name"], row["MAC Address"]) for row in ports] == [("one", first_port["mac_address"])]
    assert shown["id"] == first_port["id"]
    assert "1 of 1 networks failed to delete" in in_use
    assert changed == quiet == ""
    assert left == []


def test_client_works_with_security_groups(url: str) -> None:
    web, opened, rules, _, port, groups, changed, shown, *quiet, left = openstack(
        url,
        "security group create web --description d -f json",
        "security group rule create web --protocol tcp --dst-port 22 --remote-ip 10.0.0.0/8 -f json",
        "security group rule list web -f json",
        "network create blue -f json",
        "port create one --network blue --security-group web --allowed-address ip-address=10.1.0.9 -f json",
        "security group list -f json",
        "port set --no-security-group --security-group default one",
        "port show one -f json",
        "security group set --name front web",
        "security group rule create front --ethertype IPv6 --protocol ipv6-icmp --egress",
        "security group rule create default --remote-group front --protocol icmp --icmp-type 8",
        "port delete one",
        "security group list -f json",
    )
    assert (web["name"], web["description"], len(web["rules"])) == ("web", "d", 2)
    assert (opened["protocol"], opened["port_range_min"], opened["remote_ip_prefix"]) == ("tcp", 22, "10.0.0.0/8")
    assert [(row["IP Protocol"], row["Port Range"], row["Direction"]) for row in rules][-1] == (
        "tcp",
        "22:22",
        "ingress",
    )
    assert port["security_group_ids"] == [web["id"]]
    assert [pair["ip_address"] for pair in port["allowed_address_pairs"]] == ["10.1.0.9"]
    assert sorted(row["Name"] for row in groups) == ["default", "web"]
    assert changed == ""
    assert shown["security_group_ids"] == [row["ID"] for row in groups if row["Name"] == "default"]
    assert not any("rror" in said for said in quiet)
    assert sorted(row["Name"] for row in left) == ["default", "front"]


def test_chains_of_the_client_end(url: str) -> None:
    """Commands of several requests: what follows the first one must not fail, and leave half of it."""
    tagged_network, tagged, networks_by_tag, pinned, cleared, left = openstack(
        url,
        "network create blue --tag red --tag new --disable-port-security -f json",
        "network set --tag more blue",
        "network list --tags red,more -f json",
        "port create one --network blue --tag front --extra-dhcp-option name=bootfile-name,value=a -f json",
        "network unset --all-tag blue",
        "network list --any-tags red,more -f json",
    )
    assert (sorted(tagged_network["tags"]), tagged_network["port_security_enabled"]) == (["new", "red"], False)
    assert tagged == ""
    assert [row["Name"] for row in networks_by_tag] == ["blue"]
    assert (pinned["tags"], pinned["extra_dhcp_opts"][0]["opt_value"]) == (["front"], "a")
    assert (cleared, left) == ("", [])


def test_client_filters_listings(url: str) -> None:
    """Each filter of the client has an effect: the API refuses those that it does not have."""
    commands = (
        "network create blue --tag x",
        "network create red --share --disable",
        "subnet create front --network blue --subnet-range 10.1.0.0/24 --tag x",
        "subnet create six --network red --subnet-range fd00::/64 --ip-version 6 --no-dhcp --gateway none",
        "security group create web --tag x",
        "security group rule create web --protocol tcp --dst-port 22",
        "port create one --network blue --security-group web --device d --host host1 --tag x",
        "port create two --network red --no-security-group",
    )
    ones = {
        **dict.fromkeys(
            ["--name blue", "--enable", "--no-share", "--tags x", "--provider-network-type local --tags x"], "network"
        ),
        **dict.fromkeys(
            ["--ip-version 4", "--dhcp", "--gateway 10.1.0.1", "--subnet-range 10.1.0.0/24", "--network blue"], "subnet"
        ),
        **dict.fromkeys(["--host host1", "--device-id d", "--fixed-ip subnet=front"], "port"),
        "--any-tags x": "security group",
    }
    nones = {
        **dict.fromkeys(["--external", "--status DOWN"], "network"),
        **dict.fromkeys(["--status ACTIVE", "--mac-address fa:16:3e:00:00:00", "--name three"], "port"),
        "--share": "security group",
    }
    filters = [*ones.items(), *nones.items()]
    answers = openstack(url, *commands, *(f"{kind} list {options} -f json" for options, kind in filters))[
        len(commands) :
    ]
    row_counts = {(kind, options): len(rows) for (options, kind), rows in zip(filters, answers, strict=True)}
    assert row_counts == {(kind, options): int(options in ones) for options, kind in filters}
    ((group,),) = openstack(url, "security group list --tags x -f json")
    ((port,),) = openstack(url, f"port list --security-group {group['ID']} -f json")
    assert port["Name"] == "one"
