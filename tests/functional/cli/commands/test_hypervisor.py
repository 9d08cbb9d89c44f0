"""`minova hypervisor list --long|show|stats|audit`."""

import json
import re
from datetime import datetime
from typing import Any

import msgspec
import pytest

from minova.db import models
from minova.objects.hosts.node_audit import Drift, NodeAudit
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.objects.hosts.pci import PciDevice, PciDevicePool
from minova.objects.servers.migration import Migration
from minova.objects.unexpected.guest_record import GuestMark
from tests.functional.api.conftest import Cloud
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.functional.cli.hosts import add_node, add_service
from tests.functional.cli.terminal import Terminal

AT = datetime.fromisoformat("2026-11-21T12:30:00")
AUDIT = NodeAudit(
    corrected=(
        Drift(figure="memory_mb_used", kept="512", found="1024"),
        Drift(figure="allocations", kept="id-of-web holds nothing", found="allocate VCPU=2"),
    ),
    conflicts=("instance i has what another has: CPU 3",),
    orphans={"stranger": 256},
)
CELLS = NUMATopology(
    (
        NUMACell(
            id=0,
            cpuset=frozenset(),
            pcpuset=frozenset({0, 1, 2, 3, 7}),
            memory=4096,
            memory_usage=1024,
            pinned_cpus=frozenset({0, 1, 2}),
            mempages=(NUMAPages(size_kb=2048, total=512, used=64, reserved=8),),
        ),
        NUMACell(id=1, cpuset=frozenset({8, 9}), pcpuset=frozenset(), memory=4096, memory_usage=0, cpu_usage=3),
    )
)
KIND: dict[str, Any] = {"vendor_id": "8086", "product_id": "10ed", "dev_type": "type-VF"}


def builtins(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.fixture
def nodes(cloud: Cloud) -> Cloud:
    """`node1`, whose host is up, and `node2`, whose host is down."""
    for number, silent in ((1, 0), (2, 999)):
        add_service(cloud, number, f"host{number}", silent=silent)
        add_node(cloud, number, f"host{number}", f"node{number}")
    return cloud


@pytest.fixture
def busy(nodes: Cloud) -> Cloud:
    """`node1` has a server on two networks, a move, cells, devices, an audit and a guest that no row knows."""
    nodes.with_catalogue()
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "dc1", "provider:segmentation_id": 7}
    networks = []
    for number, values in enumerate(({"name": "front", **vlan}, {"name": "back"})):
        network_id = nodes.ask("POST", "/network/v2.0/networks", {"network": values})[1]["network"]["id"]
        subnet = {"network_id": network_id, "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
        assert nodes.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})[0] == 201
        networks.append({"uuid": network_id})
    web = nodes.make_server("web", networks=networks)["id"]
    nodes.conductor.edit(web, host="host1", node="node1", vm_state="active", task_state="deleting")
    devices = [
        PciDevice(address=f"0000:81:00.{number}", **KIND, status="allocated", instance_uuid=owner)
        for number, owner in ((1, web), (2, "id-of-nobody"))
    ]
    with nodes.db.write() as session:
        node = session.get_one(models.ComputeNode, 1)
        node.numa_topology = builtins(CELLS)
        node.pci_device_pools = [builtins(PciDevicePool(**KIND, count=3, numa_node=0, tags=(("net", "a"),)))]
        node.bridges = {"dc1": "br0", "dc1.7": "br7"}
        for device in devices:
            owner = device.instance_uuid
            session.add(models.PciDevice(node_id=1, address=device.address, instance_uuid=owner, value=device))
        session.add(models.NodeAudit(node_id=1, audited_at=AT, found=AUDIT))
        session.add(move_of(web))
        mark = GuestMark(uuid="g", name="db", node="node1", power_state=1)
        session.add(models.UnexpectedGuest(host="host1", uuid="g", reason="no_row", mark=mark, seen_at=AT))
    nodes.consoles.audits["host1", "node1"] = AUDIT
    return nodes


def move_of(server_id: str) -> models.Migration:
    flavor = {"flavorid": "1", "name": "f", "vcpus": 1, "memory_mb": 1, "root_gb": 1}
    columns = {
        "uuid": "move",
        "instance_uuid": server_id,
        "migration_type": "resize",
        "status": "migrating",
        "source_compute": "host1",
        "source_node": "node1",
        "dest_compute": "host2",
        "dest_node": "node2",
    }
    value = msgspec.convert({**columns, "old_flavor": flavor, "new_flavor": flavor}, Migration)
    return models.Migration(**columns, value=value, created_at=AT)


SHOWN = [
    "cell 0: memory 1024 of 4096 MB; pinned CPUs 0-2, free 3,7; 2048 KiB pages: 64 of 512 used, 8 kept",
    "cell 1: memory 0 of 4096 MB; shared CPUs 8-9 with 3 vCPUs; pinned CPUs none, free none",
    "8086:10ed type-VF of cell 0: 3 free, net=a",
    "0000:81:00.1 8086:10ed type-VF: allocated by web",
    "0000:81:00.2 8086:10ed type-VF: allocated by id-of-nobody",
    "{web} web: ACTIVE (deleting), 1 vCPUs, 128 MB, 1 GB",
    "{web}: resize from node1 to node2, migrating",
    "2026-11-21T12:30:00Z",
    "memory_mb_used: was 512, is 1024",
    "allocations: id-of-web holds nothing: allocate VCPU=2",
    "instance i has what another has: CPU 3",
    "stranger: 256 MB",
    "dc1='br0', dc1.7='br7'",
    "of web: fa:16:3e:",
    ", 10.0.0.2 on front (vlan, on dc1.7)",
    ", 10.1.0.2 on back (local)",
    "g (db), running: the database does not know it",
]


def test_show_tells_cells_devices_servers_and_the_last_audit_in_words(busy: Cloud, minova: Cli) -> None:
    out = succeed(minova("hypervisor", "show", "node1")).out
    web = busy.get("/v2.1/servers?all_tenants=1")["servers"][0]["id"]
    assert [line for line in SHOWN if line.format(web=web) not in out] == []
    assert "█" not in out
    assert re.search(r"\| vcpus_used +\| 3 ", out)


def test_a_port_without_an_address_says_so(busy: Cloud, minova: Cli) -> None:
    with busy.db.write() as session:
        session.query(models.IpAllocation).delete()
    assert succeed(minova("hypervisor", "show", "node1")).out.count(", no address on ") == 2


def test_show_gives_programs_all_of_it_as_it_is(busy: Cloud, minova: Cli) -> None:
    shown = json_output(minova("hypervisor", "show", "node1", "-f", "json"))
    overview = busy.get("/v2.1/os-hypervisors/1/overview")["overview"]
    assert [cell["free_cpus"] for cell in shown["numa_cells"]] == [[3, 7], []]
    for name in ("numa_cells", "pci_devices", "ports", "moves"):
        assert len(shown[name]) == len(overview[name]) > 0
        assert shown[name] == overview[name]
    assert (shown["vcpus_used"], shown["last_audit"]) == (3, "2026-11-21T12:30:00Z")
    assert shown["last_audit_corrected"] == builtins(AUDIT.corrected)


@pytest.mark.usefixtures("nodes")
def test_a_hypervisor_that_was_never_audited(minova: Cli) -> None:
    shown = json_output(minova("hypervisor", "show", "node2", "-f", "json"))
    assert (shown["last_audit"], "last_audit_corrected" in shown, "moves" in shown) == (None, False, False)


@pytest.mark.usefixtures("nodes")
def test_a_terminal_gets_bars_of_what_may_be_used(minova_url: str) -> None:
    with Terminal("--url", minova_url, "hypervisor", "show", "node1", columns=140) as terminal:
        assert terminal.wait() == 0
    assert re.search(r"vcpus_used +\| 3 of 32  \S*[█▏▎▍▌▋▊▉#]", terminal.text)
    assert re.search(r"memory_mb_used +\| 4608 of 16000 .* 29%", terminal.text)


@pytest.mark.usefixtures("busy")
def test_the_long_list_tells_when_each_was_audited(minova: Cli) -> None:
    first, second = json_output(minova("hypervisor", "list", "--long", "-f", "json"))
    names = ("Free RAM MB", "Service Host", "Last Audit", "Corrected", "Orphans")
    assert [first[name] for name in names] == [11392, "host1", "2026-11-21T12:30:00Z", 2, 1]
    assert [second[name] for name in names] == [11392, "host2", None, 0, 0]
    assert "Last Audit" not in minova("hypervisor", "list").out


@pytest.mark.usefixtures("nodes")
def test_stats_tell_how_many_hypervisors_are_up(minova: Cli) -> None:
    shown = json_output(minova("hypervisor", "stats", "-f", "json"))
    assert (shown["count"], shown["up"], shown["down"], shown["disabled"], shown["vcpus_used"]) == (2, 1, 1, 0, 6)


@pytest.mark.usefixtures("busy")
def test_an_audit_says_what_it_corrected(minova: Cli) -> None:
    out = succeed(minova("hypervisor", "audit", "node1")).out
    assert [line for line in ("memory_mb_used: was 512, is 1024", "stranger: 256 MB", "CPU 3") if line not in out] == []
    audited = json.loads(minova("hypervisor", "audit", "1", "-f", "json").out)
    assert audited["corrected"] == builtins(AUDIT.corrected)


@pytest.mark.parametrize(
    ("wanted", "result"),
    [
        ("node3", "There is no hypervisor with the name or ID 'node3'"),
        ("host1", "2 hypervisors have the name 'host1'. Say which by ID: 1, 4"),
    ],
)
def test_an_audit_of_none_or_of_two(nodes: Cloud, minova: Cli, wanted: str, result: str) -> None:
    add_node(nodes, 4, "host1", "node4")
    answer = minova("hypervisor", "audit", wanted)
    assert (answer.code, result in answer.err) == (1, True)


def test_an_audit_that_finds_nothing_says_so(nodes: Cloud, minova: Cli) -> None:
    nodes.consoles.audits["host1", "node1"] = NodeAudit()
    out = succeed(minova("hypervisor", "audit", "node1")).out
    assert re.search(r"corrected +\| nothing", out)
