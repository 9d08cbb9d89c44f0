"""What is on a hypervisor and when it was last audited, and an audit that people ask for."""

import time
import uuid
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

AT = datetime.fromisoformat("2026-11-21T12:30:00")
CELL = NUMACell(
    id=0,
    cpuset=frozenset({0, 1}),
    pcpuset=frozenset({2, 3, 4}),
    memory=4096,
    memory_usage=1024,
    cpu_usage=1,
    pinned_cpus=frozenset({3}),
    mempages=(NUMAPages(size_kb=2048, total=512, used=64, reserved=8),),
)
DEVICE = PciDevice(
    address="0000:81:00.0", vendor_id="8086", product_id="10ed", status="allocated", instance_uuid="mine"
)
FOUND = NodeAudit(
    corrected=(Drift(figure="memory_mb_used", kept="512", found="1024"),),
    orphans={"stranger": 256},
    unexpected_domains=("late",),
)
TASKS = {"here": None, "going": "resize_migrating"}


def builtins(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.fixture
def hosts(cloud: Cloud) -> Cloud:
    """`up` with two nodes, of which the first has been audited, and `silent`."""
    now = time.time()
    for number, host in ((1, "up"), (2, "silent")):
        kinds = {"binary": "minova-compute", "topic": "compute", "created_at": AT}
        cloud.conductor.add(models.Service(id=number, uuid=str(uuid.uuid4()), host=host, **kinds))
    cloud.conductor.add(
        models.Heartbeat(service_id=1, last_seen=now), models.Heartbeat(service_id=2, last_seen=now - 999)
    )
    for number, (host, name) in enumerate((("up", "up.a"), ("up", "up.b"), ("silent", "silent.node")), 1):
        own = {"id": number, "uuid": str(uuid.uuid4()), "host": host, "hypervisor_hostname": name, "created_at": AT}
        cloud.conductor.add(models.ComputeNode(**own, vcpus=8, memory_mb=8192, local_gb=10))
    return cloud


@pytest.fixture
def busy(hosts: Cloud) -> Cloud:
    """`up.a` has a server, another that leaves it, a cell, a device and an audit."""
    hosts.with_catalogue()
    server_ids = [hosts.make_server(name)["id"] for name in ("here", "going")]
    pool = PciDevicePool(vendor_id="8086", product_id="10ed", count=3, numa_node=0)
    with hosts.db.write() as session:
        for row in session.query(models.Instance):
            row.host, row.node, row.vm_state, row.task_state = "up", "up.a", "active", TASKS[row.display_name]
        node = session.get_one(models.ComputeNode, 1)
        node.numa_topology = builtins(NUMATopology((CELL,)))
        node.pci_device_pools = [builtins(pool)]
        session.add(models.PciDevice(node_id=1, address=DEVICE.address, instance_uuid="mine", value=DEVICE))
        session.add(models.NodeAudit(node_id=1, audited_at=AT, found=FOUND))
        session.add(move_of(server_ids[1]))
    return hosts


def move_of(server_id: str) -> models.Migration:
    flavor = {"flavorid": "1", "name": "f", "vcpus": 1, "memory_mb": 1, "root_gb": 1}
    value = msgspec.convert(
        {
            "uuid": "move",
            "instance_uuid": server_id,
            "migration_type": "migration",
            "status": "migrating",
            "source_compute": "up",
            "source_node": "up.a",
            "dest_compute": "silent",
            "dest_node": "silent.node",
            "old_flavor": flavor,
            "new_flavor": flavor,
        },
        Migration,
    )
    columns = ("uuid", "instance_uuid", "migration_type", "status", "source_compute", "source_node", "dest_compute")
    own = {name: getattr(value, name) for name in (*columns, "dest_node")}
    return models.Migration(**own, value=value, created_at=AT)


def test_all_that_is_on_a_hypervisor(busy: Cloud) -> None:
    shown = busy.get("/v2.1/os-hypervisors/1/overview")["overview"]
    assert (shown["id"], shown["hypervisor_hostname"], shown["host"]) == (1, "up.a", "up")
    assert shown["allocation_ratios"] == {"cpu": 4.0, "ram": 1.0, "disk": 1.0}
    assert shown["numa_cells"] == [
        {
            "id": 0,
            "memory_mb": 4096,
            "memory_mb_used": 1024,
            "shared_cpus": [0, 1],
            "shared_vcpus_used": 1,
            "pinned_cpus": [3],
            "free_cpus": [2, 4],
            "pages": [{"size_kb": 2048, "total": 512, "used": 64, "reserved": 8, "free": 440}],
        }
    ]
    assert [(pool["vendor_id"], pool["count"]) for pool in shown["pci_device_pools"]] == [("8086", 3)]
    assert [(pci_device["address"], pci_device["instance_uuid"]) for pci_device in shown["pci_devices"]] == [
        ("0000:81:00.0", "mine")
    ]
    assert [(server["name"], server["status"], server["vcpus"]) for server in shown["servers"]] == [
        ("here", "ACTIVE", 1),
        ("going", "RESIZE", 1),
    ]
    assert [(move["server_id"], move["dest_node"]) for move in shown["moves"]] == [
        (shown["servers"][1]["id"], "silent.node")
    ]
    assert shown["last_audit"] == {"audited_at": "2026-11-21T12:30:00Z", **builtins(FOUND)}


def test_a_hypervisor_that_has_nothing_and_was_not_audited(hosts: Cloud) -> None:
    shown = hosts.get("/v2.1/os-hypervisors/3/overview")["overview"]
    empty = ("numa_cells", "pci_device_pools", "pci_devices", "servers", "ports", "moves")
    assert ([shown[name] for name in empty], shown["bridges"], shown["last_audit"]) == ([[]] * 6, {}, None)


def test_guests_that_the_database_does_not_know(hosts: Cloud) -> None:
    marks = {
        "known-node": GuestMark(uuid="a", name="web", node="up.b", power_state=1),
        "unknown-node": GuestMark(uuid="b", has_domain=False),
        "other-node": GuestMark(uuid="c", node="up.a", power_state=1),
    }
    for mark in marks.values():
        row = {"host": "up", "uuid": mark.uuid, "reason": "no_row", "mark": mark, "seen_at": AT}
        hosts.conductor.add(models.UnexpectedGuest(**row))
    shown = hosts.get("/v2.1/os-hypervisors/2/overview")["overview"]
    why = "the database does not know it"
    assert shown["unexpected_guests"] == [
        {"id": "a", "name": "web", "why": why, "power_state": "running"},
        {"id": "b", "name": "", "why": why, "power_state": "no domain"},
    ]


def test_bridges_and_ports_of_a_hypervisor(hosts: Cloud) -> None:
    hosts.with_catalogue()
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "dc1", "provider:segmentation_id": 7}
    ids = []
    for number, values in enumerate(({"name": "front", **vlan}, {"name": "back"})):
        status, answer = hosts.ask("POST", "/network/v2.0/networks", {"network": values})
        assert status == 201, answer
        ids.append(answer["network"]["id"])
        subnet = {"network_id": ids[-1], "ip_version": 4, "cidr": f"10.{number}.0.0/24"}
        assert hosts.ask("POST", "/network/v2.0/subnets", {"subnet": subnet})[0] == 201
    server = hosts.make_server("web", networks=[{"uuid": network_id} for network_id in ids])["id"]
    elsewhere = hosts.make_server("other", networks=[{"uuid": ids[0]}])["id"]
    with hosts.db.write() as session:
        for row in session.query(models.Instance):
            row.host, row.vm_state, row.task_state = "up", "active", None
            row.node = "up.b" if row.uuid == elsewhere else "up.a"
        session.get_one(models.ComputeNode, 1).bridges = {"dc1.7": "br7"}
    shown = hosts.get("/v2.1/os-hypervisors/1/overview")["overview"]
    assert shown["bridges"] == {"dc1.7": "br7"}
    assert [
        (port["server_id"], port["network_name"], port["network_type"], port["segment"], port["fixed_ips"])
        for port in shown["ports"]
    ] == [
        (server, "front", "vlan", "dc1.7", ["10.0.0.2"]),
        (server, "back", "local", None, ["10.1.0.2"]),
    ]
    assert all(port["mac_address"].startswith("fa:16:3e") for port in shown["ports"])


def test_the_last_audits_of_all(busy: Cloud) -> None:
    first, *others = busy.get("/v2.1/os-hypervisors/audits")["audits"]
    nothing = {"corrected": 0, "conflicts": 0, "orphans": 0, "strays": 0}
    summary = {"corrected": 1, "conflicts": 0, "orphans": 1, "strays": 1}
    assert first == {"id": 1, "hypervisor_hostname": "up.a", "audited_at": "2026-11-21T12:30:00Z", **summary}
    assert [hypervisor["hypervisor_hostname"] for hypervisor in others] == ["up.b", "silent.node"]
    assert all(hypervisor.items() >= {**nothing, "audited_at": None}.items() for hypervisor in others)


def test_an_audit_now_goes_to_the_nodes_own_host_and_answers_what_it_found(hosts: Cloud) -> None:
    hosts.consoles.audits["up", "up.b"] = FOUND
    status, answer = hosts.ask("POST", "/v2.1/os-hypervisors/2/action", {"audit": None})
    assert (status, answer) == (200, {"audit": builtins(FOUND)})


@pytest.mark.parametrize(
    ("node", "body", "status", "words"),
    [
        ("99", {"audit": None}, 404, "Compute host 99 could not be found."),
        ("up.a", {"audit": None}, 404, "Compute host up.a could not be found."),
        ("3", {"audit": None}, 409, "silent.node cannot be audited: the compute service of host silent is down"),
        ("1", {}, 400, 'the one action here is {"audit": null}'),
        ("1", {"evacuate": None}, 400, 'the one action here is {"audit": null}'),
        ("1", {"audit": {"deep": True}}, 400, 'the one action here is {"audit": null}'),
        ("1", [], 400, ""),
    ],
)
def test_an_audit_that_cannot_be(hosts: Cloud, node: str, body: Any, status: int, words: str) -> None:
    answered, document = hosts.ask("POST", f"/v2.1/os-hypervisors/{node}/action", body)
    (fault,) = document.values()
    assert (answered, words in fault["message"]) == (status, True)
