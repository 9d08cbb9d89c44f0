"""A pinned guest with pages of 2 MiB through the whole stack, on a libvirtd without other guests: those would count as used."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt
import pytest
from sqlalchemy import select

from minova.db import models
from tests.cluster import Cluster
from tests.integration.deployment import BIN
from tests.integration.leftovers import leftovers_in_tables
from tests.integration.virt.test_numa_guests import PAGE_KB, on
from tests.servers.huge_pages import huge_pages
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

PINNED_MB = 128


@pytest.fixture
def cloud(tmp_path: Path, libvirt_uri: str) -> Iterator[Cluster]:
    """Every service in this process; host CPU 1 and pages of 2 MiB are for guests that ask for them."""
    options: dict[str, Any] = {
        "compute_driver": "libvirt",
        "libvirt__virt_type": "qemu",
        "libvirt__connection_uri": libvirt_uri,
        "compute__cpu_shared_set": "0",
        "compute__cpu_dedicated_set": "1",
    }
    with huge_pages(PINNED_MB * 1024 // PAGE_KB), Cluster(tmp_path, ["hv1"], **options) as cluster:
        yield cluster


def figures(cloud: Cluster) -> dict[str, Any]:
    """Of the node: pinned CPUs, pages of 2 MiB in use; what of each resource class is."""
    with cloud.db.read() as session:
        ((cell,),) = [node.numa_topology["cells"] for node in session.scalars(select(models.ComputeNode))]  # type: ignore[index]
        used = {
            inventory.resource_class: inventory.used
            for inventory in session.scalars(select(models.Inventory))
            if inventory.used
        }
        pages = sum(page_pool["used"] for page_pool in cell["mempages"] if page_pool["size_kb"] == PAGE_KB)
        return {"pinned": cell["pinned_cpus"], "pages": pages, **used}


@pytest.mark.nightly("test_numa_guests starts pinned guests each day, without the services")
def test_a_pinned_guest_through_the_whole_stack_leaves_no_trace(
    cloud: Cluster, libvirtd: Libvirtd, guest_image: Path
) -> None:
    def minova(*words: str) -> str:
        command = [str(BIN / "minova"), "--url", cloud.url, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    minova("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    minova("flavor", "create", "pinned", "--ram", str(PINNED_MB), "--disk", "1", "--vcpus", "1")
    specs = ("hw:cpu_policy=dedicated", "hw:emulator_threads_policy=share", f"hw:mem_page_size={PAGE_KB}")
    minova("flavor", "set", "pinned", *(word for spec in specs for word in ("--property", spec)))
    free = figures(cloud)
    minova("server", "create", "one", "--flavor", "pinned", "--image", "guest", "--wait")
    uuid = json.loads(minova("server", "show", "one", "-f", "json"))["id"]
    connection = libvirt.open(libvirtd.uri)
    domain = connection.lookupByUUIDString(uuid)
    assert (domain.vcpuPinInfo(), domain.emulatorPinInfo()) == ([on(domain, 1)], on(domain, 0))
    pages = PINNED_MB * 1024 // PAGE_KB
    taken = {"pinned": [1], "pages": pages, "PCPU": 1, "MEMORY_MB": PINNED_MB, "DISK_GB": 1}
    assert figures(cloud) == taken
    for _ in range(2):
        audited = json.loads(minova("hypervisor", "audit", "hv1", "-f", "json"))
        assert not any("allocation" in str(value) for value in audited.values()), audited
        assert figures(cloud) == taken
    assert "pinned CPUs 1" in minova("hypervisor", "show", "hv1")
    minova("server", "delete", "one", "--wait")
    connection.close()
    assert free == {"pinned": [], "pages": 0}
    wait_for("nothing is left", lambda: figures(cloud) == free and leftovers_in_tables(cloud.db) == [])
    assert domains_of(libvirtd.uri, uuid) == []
    assert not (cloud.folder / "hv1" / "instances" / uuid).exists()


def domains_of(uri: str, uuid: str) -> list[str]:
    connection = libvirt.open(uri)
    try:
        return [domain.name() for domain in connection.listAllDomains() if domain.UUIDString() == uuid]
    finally:
        connection.close()
