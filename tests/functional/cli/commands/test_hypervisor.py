"""`minova hypervisor list --long|show|stats|audit` against an API that keeps books, and against minova-api itself."""

import json
import re

import pytest

from tests.fakes.api_server import ApiServer
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.functional.cli.terminal import Terminal
from tests.functional.cli.test_catalogue import HYPERVISOR

AUDIT = {
    "corrected": [
        {"figure": "memory_mb_used", "kept": "512", "found": "1024"},
        {"figure": "allocations", "kept": "id-of-web holds nothing", "found": "allocate VCPU=2"},
    ],
    "conflicts": ["instance i has what another has: CPU 3"],
    "orphans": {"stranger": 256},
    "strays": [],
    "power_states": [],
}
OVERVIEW = {
    "numa_cells": [
        {
            "id": 0,
            "memory_mb": 4096,
            "memory_mb_used": 1024,
            "shared_cpus": [],
            "shared_vcpus_used": 0,
            "pinned_cpus": [0, 1, 2],
            "free_cpus": [3, 7],
            "pages": [{"size_kb": 2048, "total": 512, "used": 64, "reserved": 8, "free": 440}],
        },
        {
            "id": 1,
            "memory_mb": 4096,
            "memory_mb_used": 0,
            "shared_cpus": [8, 9],
            "shared_vcpus_used": 3,
            "pinned_cpus": [],
            "free_cpus": [],
            "pages": [],
        },
    ],
    "pci_device_pools": [
        {
            "vendor_id": "8086",
            "product_id": "10ed",
            "dev_type": "type-VF",
            "numa_node": 0,
            "count": 3,
            "tags": [["net", "a"]],
        }
    ],
    "pci_devices": [
        {
            "address": address,
            "vendor_id": "8086",
            "product_id": "10ed",
            "dev_type": "type-VF",
            "numa_node": None,
            "status": "allocated",
            "instance_uuid": owner,
        }
        for address, owner in (("0000:81:00.1", "id-of-web"), ("0000:81:00.2", "id-of-nobody"))
    ],
    "servers": [
        {
            "id": "id-of-web",
            "name": "web",
            "status": "ACTIVE",
            "task_state": "deleting",
            "vcpus": 2,
            "memory_mb": 512,
            "disk_gb": 5,
        }
    ],
    "bridges": {"dc1": "br0", "dc1.7": "br7"},
    "ports": [
        {
            "id": f"port-{number}",
            "server_id": "id-of-web",
            "mac_address": f"fa:16:3e:00:00:0{number}",
            "network_id": f"network-{number}",
            "network_name": "front" if segment else "",
            "network_type": "vlan" if segment else "local",
            "segment": segment,
            "fixed_ips": addresses,
        }
        for number, segment, addresses in ((1, "dc1.7", ["10.0.0.5", "fd00::5"]), (2, None, []))
    ],
    "moves": [
        {
            "id": "m",
            "server_id": "id-of-web",
            "migration_type": "resize",
            "status": "migrating",
            "source_node": "node1",
            "dest_node": "node2",
        }
    ],
    "last_audit": {"audited_at": "2026-11-21T12:30:00Z", **AUDIT},
    "unexpected_guests": [{"id": "g", "name": "db", "why": "it is newer than its row", "power_state": "running"}],
}


@pytest.fixture
def busy(api: ApiServer) -> ApiServer:
    api.hypervisors = [HYPERVISOR, {**HYPERVISOR, "id": 2, "hypervisor_hostname": "node2", "state": "down"}]
    api.overviews[1] = OVERVIEW
    api.audits[1] = AUDIT
    return api


SHOWN = [
    "cell 0: memory 1024 of 4096 MB; pinned CPUs 0-2, free 3,7; 2048 KiB pages: 64 of 512 used, 8 kept",
    "cell 1: memory 0 of 4096 MB; shared CPUs 8-9 with 3 vCPUs; pinned CPUs none, free none",
    "8086:10ed type-VF of cell 0: 3 free, net=a",
    "0000:81:00.1 8086:10ed type-VF: allocated by web",
    "0000:81:00.2 8086:10ed type-VF: allocated by id-of-nobody",
    "id-of-web web: ACTIVE (deleting), 2 vCPUs, 512 MB, 5 GB",
    "id-of-web: resize from node1 to node2, migrating",
    "2026-11-21T12:30:00Z",
    "memory_mb_used: was 512, is 1024",
    "allocations: id-of-web holds nothing: allocate VCPU=2",
    "instance i has what another has: CPU 3",
    "stranger: 256 MB",
    "dc1='br0', dc1.7='br7'",
    "port-1 of web: fa:16:3e:00:00:01, 10.0.0.5 fd00::5 on front (vlan, on dc1.7)",
    "g (db), running: it is newer than its row",
    "port-2 of web: fa:16:3e:00:00:02, no address on network-2 (local)",
]


@pytest.mark.usefixtures("busy")
def test_show_tells_cells_devices_servers_and_the_last_audit_in_words(cli: Cli) -> None:
    out = succeed(cli("hypervisor", "show", "node1")).out
    assert [line for line in SHOWN if line not in out] == []
    assert "█" not in out
    assert re.search(r"\| vcpus_used +\| 3 ", out)


@pytest.mark.usefixtures("busy")
def test_show_gives_programs_all_of_it_as_it_is(cli: Cli) -> None:
    shown = json_output(cli("hypervisor", "show", "node1", "-f", "json"))
    assert (shown["vcpus_used"], shown["numa_cells"], shown["pci_devices"]) == (
        3,
        OVERVIEW["numa_cells"],
        OVERVIEW["pci_devices"],
    )
    assert (shown["last_audit"], shown["last_audit_corrected"]) == ("2026-11-21T12:30:00Z", AUDIT["corrected"])


@pytest.mark.usefixtures("busy")
def test_a_hypervisor_that_was_never_audited(cli: Cli) -> None:
    shown = json_output(cli("hypervisor", "show", "node2", "-f", "json"))
    assert (shown["last_audit"], "last_audit_corrected" in shown, "moves" in shown) == (None, False, False)


def test_a_terminal_gets_bars_of_what_may_be_used(busy: ApiServer) -> None:
    with Terminal("--url", busy.url, "hypervisor", "show", "node1", columns=140) as terminal:
        assert terminal.wait() == 0
    assert re.search(r"vcpus_used +\| 3 of 32  \S*[█▏▎▍▌▋▊▉#]", terminal.text)
    assert re.search(r"memory_mb_used +\| 4608 of 16000 .* 29%", terminal.text)


@pytest.mark.usefixtures("busy")
def test_the_long_list_tells_when_each_was_audited(cli: Cli, busy: ApiServer) -> None:
    busy.audits[1] = {"audited_at": "2026-11-21T12:30:00Z", "corrected": 2, "orphans": 1}
    first, second = json_output(cli("hypervisor", "list", "--long", "-f", "json"))
    names = ("Free RAM MB", "Service Host", "Last Audit", "Corrected", "Orphans")
    assert [first[name] for name in names] == [11392, "host1", "2026-11-21T12:30:00Z", 2, 1]
    assert [second[name] for name in names] == [11392, "host1", None, None, None]
    assert "Last Audit" not in cli("hypervisor", "list").out


@pytest.mark.usefixtures("busy")
def test_stats_tell_how_many_hypervisors_are_up(cli: Cli) -> None:
    shown = json_output(cli("hypervisor", "stats", "-f", "json"))
    assert (shown["count"], shown["up"], shown["down"], shown["disabled"], shown["vcpus_used"]) == (2, 1, 1, 0, 6)


@pytest.mark.usefixtures("busy")
def test_an_audit_says_what_it_corrected(cli: Cli) -> None:
    out = succeed(cli("hypervisor", "audit", "node1")).out
    assert [line for line in ("memory_mb_used: was 512, is 1024", "stranger: 256 MB", "CPU 3") if line not in out] == []
    assert json.loads(cli("hypervisor", "audit", "1", "-f", "json").out)["corrected"] == AUDIT["corrected"]


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        ("node3", "There is no hypervisor with the name or ID 'node3'"),
        ("host1", "2 hypervisors have the name 'host1'. Say which by ID: 1, 2"),
    ],
)
def test_an_audit_of_none_or_of_two(cli: Cli, busy: ApiServer, wanted: str, result: str) -> None:
    answer = cli("hypervisor", "audit", wanted)
    assert (answer.code, result in answer.err) == (1, True)


def test_an_audit_that_finds_nothing_says_so(cli: Cli, busy: ApiServer) -> None:
    busy.audits[1] = {**AUDIT, "corrected": [], "conflicts": [], "orphans": {}}
    out = succeed(cli("hypervisor", "audit", "node1")).out
    assert re.search(r"corrected +\| nothing", out)
