"""Cells and devices through the whole stack (API, scheduler, claim, libvirt) on libvirt's own test hypervisor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import pytest
from sqlalchemy import select

from minova.db import models
from tests.cluster import Cluster
from tests.functional.cli.conftest import Cli, json_output, succeed
from tests.waiting import wait_for

# A host with an SR-IOV card of four VFs, as libvirt's test hypervisor takes it from a file: without NUMA cells.
DEVICE = """\
<device><name>pci_0000_0a_{slot:02x}_{function}</name><capability type="pci"><class>0x020000</class><domain>0</domain>
  <bus>10</bus><slot>{slot}</slot><function>{function}</function><product id="0x{product}">x</product>
  <vendor id="0x8086">Intel</vendor>{more}</capability></device>"""
VF_OF = '<capability type="phys_function"><address domain="0x0000" bus="0x0a" slot="0x00" function="0x0"/></capability>'
HOST = """\
<node>
  <cpu><mhz>2000</mhz><model>i686</model><active>8</active><nodes>1</nodes><sockets>1</sockets><cores>8</cores>
    <threads>1</threads></cpu>
  <memory>8388608</memory>
  {devices}
</node>
"""
ALIASES = [
    '{"name": "vf", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}',
    '{"name": "pf", "vendor_id": "8086", "product_id": "1572", "device_type": "type-PF"}',
]
SPEC = '{"address": "0000:0a:00.0", "physical_network": "net1"}'


def machine(folder: Path) -> str:
    """Its URI."""
    vfs = [DEVICE.format(slot=2, function=number, product="154c", more=VF_OF) for number in range(4)]
    pf = DEVICE.format(slot=0, function=0, product="1572", more='<capability type="virt_functions" maxCount="4"/>')
    file = folder / "node.xml"
    file.write_text(HOST.format(devices="\n".join([pf, *vfs])))
    return f"test://{file}"


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[Cluster]:
    options: dict[str, Any] = {
        "compute_driver": "libvirt",
        "libvirt__virt_type": "test",
        "libvirt__connection_uri": machine(tmp_path),
        "pci__alias": ALIASES,
        "pci__device_spec": [SPEC],
    }
    with Cluster(tmp_path / "cloud", ["hv1"], **options) as cluster:
        yield cluster


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cluster]:
    options: dict[str, Any] = {
        "compute_driver": "libvirt",
        "libvirt__virt_type": "test",
        "reserved_host_memory_mb": 0,
    }
    # All connections of a process share this one host, for as long as one is open. It comes with a guest of its own
    # that is larger than the host; other tests want it back.
    connection = libvirt.open("test:///default")
    its_own = connection.lookupByName("test")
    xml = its_own.XMLDesc()
    its_own.destroy()
    its_own.undefine()
    try:
        with Cluster(tmp_path / "cloud", ["hv1"], **options) as cluster:
            yield cluster
    finally:
        connection.defineXML(xml).create()
        connection.close()


def cli_of(cluster: Cluster, cli_without_api: Cli, folder: Path) -> Cli:
    def minova(*words: str) -> Any:
        return cli_without_api("--url", cluster.url, *words)

    if minova("image", "show", "guest").code:
        disk = folder / "disk.raw"
        disk.write_bytes(b"\1" * 100_000)
        succeed(minova("image", "create", "guest", "--file", str(disk), "--disk-format", "raw"))
    return minova


def boot(minova: Cli, name: str, **specs: str) -> dict[str, Any]:
    """The server, once it is ACTIVE or not; its flavor gets these extra specs by `flavor set`."""
    succeed(minova("flavor", "create", name, "--ram", "512", "--disk", "1", "--vcpus", "4"))
    words = [word for key, value in specs.items() for word in ("--property", f"{key.replace('__', ':')}={value}")]
    succeed(minova("flavor", "set", name, *words))
    minova("server", "create", name, "--flavor", name, "--image", "guest", "--wait")
    server: dict[str, Any] = json_output(minova("server", "show", name, "-f", "json"))
    return server


def domain_of(cluster: Cluster, server: dict[str, Any]) -> ET.Element:
    """As the compute's own connection has it: libvirt's test hypervisors live in the process that opened them."""
    driver = cluster.driver("hv1")
    with driver._host.connection("Looking") as connection:
        return ET.fromstring(connection.lookupByUUIDString(server["id"]).XMLDesc())


def hardware_usage(
    cluster: Cluster,
) -> tuple[list[tuple[list[int], int]], dict[str, int], list[tuple[str, int, int | None]]]:
    """Of each cell the pinned CPUs and the memory in use; what of each resource class is; the pools."""
    with cluster.db.read() as session:
        node = session.scalars(select(models.ComputeNode)).one()
        used = {
            inventory.resource_class: inventory.used
            for inventory in session.scalars(select(models.Inventory))
            if inventory.used
        }
        cells = (node.numa_topology or {"cells": []})["cells"]
        return (
            [(sorted(cell["pinned_cpus"]), cell["memory_usage"]) for cell in cells],
            used,
            [(pool["product_id"], pool["count"], pool["numa_node"]) for pool in node.pci_device_pools],
        )


def removed(minova: Cli, *names: str) -> None:
    succeed(minova("server", "delete", *names, "--wait"))


def test_a_guest_of_two_cells_with_pinned_cpus(cells: Cluster, cli_without_api: Cli, tmp_path: Path) -> None:
    minova = cli_of(cells, cli_without_api, tmp_path)
    server = boot(minova, "two", hw__numa_nodes="2", hw__cpu_policy="dedicated")
    assert server["status"] == "ACTIVE", server
    domain = domain_of(cells, server)
    assert [(pin.get("vcpu"), pin.get("cpuset")) for pin in domain.findall("cputune/vcpupin")] == [
        ("0", "0"),
        ("1", "1"),
        ("2", "8"),
        ("3", "9"),
    ]
    assert [memnode.get("nodeset") for memnode in domain.findall("numatune/memnode")] == ["0", "1"]
    assert [(cell.get("cpus"), cell.get("memory")) for cell in domain.findall("cpu/numa/cell")] == [
        ("0-1", "262144"),
        ("2-3", "262144"),
    ]
    used = {"VCPU": 4, "MEMORY_MB": 512, "DISK_GB": 1}
    assert hardware_usage(cells) == ([([0, 1], 256), ([8, 9], 256)], used, [])
    assert "pinned CPUs 0-1, free 2-7" in succeed(minova("hypervisor", "show", "hv1")).out
    # Sixteen CPUs are enough for four of them, and for no fifth.
    for name in ("more", "most", "last"):
        assert boot(minova, name, hw__numa_nodes="2", hw__cpu_policy="dedicated")["status"] == "ACTIVE"
    none = boot(minova, "none", hw__numa_nodes="2", hw__cpu_policy="dedicated")
    assert none["status"] == "ERROR"
    assert "NUMATopologyFilter" in none["fault"]["message"]
    removed(minova, "two", "more", "most", "last", "none")
    wait_for("all is free", lambda: hardware_usage(cells) == ([([], 0), ([], 0)], {}, []))


def test_virtual_functions_and_their_card_exclude_each_other(
    devices: Cluster, cli_without_api: Cli, tmp_path: Path
) -> None:
    minova = cli_of(devices, cli_without_api, tmp_path)
    free = [("154c", 4, None), ("1572", 1, None)]
    assert sorted(hardware_usage(devices)[2]) == free
    server = boot(minova, "vfs", pci_passthrough__alias="vf:2")
    assert server["status"] == "ACTIVE", server
    sources = domain_of(devices, server).findall("devices/hostdev/source/address")
    assert [(source.get("bus"), source.get("slot"), source.get("function")) for source in sources] == [
        ("0x0a", "0x02", "0x0"),
        ("0x0a", "0x02", "0x1"),
    ]
    assert hardware_usage(devices)[2] == [("154c", 2, None)]
    refused = boot(minova, "card", pci_passthrough__alias="pf:1")
    assert (refused["status"], "PciPassthroughFilter" in refused["fault"]["message"]) == ("ERROR", True)
    assert boot(minova, "three", pci_passthrough__alias="vf:3")["status"] == "ERROR"
    removed(minova, "vfs", "card", "three")
    wait_for("all is free", lambda: sorted(hardware_usage(devices)[2]) == free)
    assert boot(minova, "whole", pci_passthrough__alias="pf:1")["status"] == "ACTIVE"
    assert hardware_usage(devices)[2] == []
    assert boot(minova, "one", pci_passthrough__alias="vf:1")["status"] == "ERROR"
    removed(minova, "whole", "one")
    wait_for("all is free", lambda: sorted(hardware_usage(devices)[2]) == free)


def test_what_no_alias_defines_is_refused_and_not_dropped(
    devices: Cluster, cli_without_api: Cli, tmp_path: Path
) -> None:
    minova = cli_of(devices, cli_without_api, tmp_path)
    succeed(minova("flavor", "create", "odd", "--ram", "512", "--disk", "1"))
    refused = minova("flavor", "set", "odd", "--property", "hw:cpu_policy=dedicate")
    assert (refused.code, "hw:cpu_policy: 'dedicate' is not valid" in refused.err) == (1, True)
    # Aliases are known to conductors alone.
    succeed(minova("flavor", "set", "odd", "--property", "pci_passthrough:alias=gpu:1"))
    result = minova("server", "create", "odd", "--flavor", "odd", "--image", "guest")
    assert (result.code, "pci_passthrough:alias=gpu:1" in result.err) == (1, True)
