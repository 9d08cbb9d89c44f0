"""A compute host as processes: killed, doubled, renamed and removed, over RabbitMQ."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import libvirt
import pytest
from sqlalchemy import select

from minova.db.engine import Database
from minova.db.models import Allocation, ResourceProvider
from tests.integration.deployment import BIN, Deployment, Executable
from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(400)
FAKE = {"compute_driver": "fake"}


@contextmanager
def started_cloud(folder: Path, transport_url: str, **controller: dict[str, Any]) -> Iterator[Deployment]:
    with Deployment(folder, transport_url, f"sqlite:///{folder}/minova.sqlite", **controller) as deployment:
        deployment.compute("hv1", DEFAULT=FAKE)
        deployment.manage("db", "upgrade")
        deployment.start()
        deployment.wait_up()
        yield deployment


@pytest.fixture
def cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str]) -> Iterator[Deployment]:
    with started_cloud(tmp_path, fresh_rabbit_url()) as deployment:
        yield deployment


@pytest.fixture
def patient_cloud(tmp_path: Path, fresh_rabbit_url: Callable[[], str]) -> Iterator[Deployment]:
    """A restart on a slow machine is faster than another machine's take-over from a silent service."""
    with started_cloud(tmp_path, fresh_rabbit_url(), DEFAULT={"service_down_time": 60}) as deployment:
        yield deployment


def until_logged(service: Executable, words: str) -> None:
    wait_for(f"{service.name} logs {words!r}", lambda: words in service.log)


def rename_in_file(service: Executable, old: str, new: str) -> None:
    text = service.conf_file.read_text()
    assert f"host = {old}\n" in text
    service.conf_file.write_text(text.replace(f"host = {old}\n", f"host = {new}\n"))


def openstack(cloud: Deployment, *words: str) -> subprocess.CompletedProcess[str]:
    login = ["--os-auth-type", "admin_token", "--os-endpoint", f"{cloud.url}/v2.1", "--os-token", "admin"]
    return subprocess.run([str(BIN / "openstack"), *login, *words], capture_output=True, text=True, timeout=120)


def services(cloud: Deployment) -> dict[str, Any]:
    return {row["Host"]: row for row in cloud.json("service", "list", "--service", "minova-compute")}


def test_one_process_at_a_time_serves_a_host(patient_cloud: Deployment) -> None:
    cloud = patient_cloud
    first, conductor = cloud.services["hv1"], cloud.services["conductor"]
    # A machine of the same name is another one.
    twin = cloud.compute("twin", DEFAULT={**FAKE, "host": "hv1"})
    twin.start()
    assert twin.wait() == 1
    assert "this machine has no file compute_id" in twin.log
    # A copy of the machine waits until the first has gone.
    identity = (cloud.folder / "hv1" / "state" / "compute_id").read_text()
    (cloud.folder / "twin" / "state" / "compute_id").write_text(identity)
    twin.start()
    until_logged(twin, "Host hv1 is served by minova-compute at")
    # A restart after kill -9 on the first machine does not wait.
    first.kill()
    first.start()
    until_logged(conductor, "which has ended")
    assert first.stop() == 0
    until_logged(twin, "minova-compute started")
    assert list(services(cloud)) == ["hv1"]


@pytest.mark.nightly("half a minute; tests/faults renames hosts with fake guests")
def test_host_is_renamed_with_its_guest_and_removed(cloud: Deployment) -> None:
    compute = cloud.services["hv1"]
    disk = cloud.folder / "disk.raw"
    disk.write_bytes(bytes(1 << 20))
    cloud.cli("flavor", "create", "tiny", "--ram", "128", "--disk", "1", "--vcpus", "1")
    cloud.cli("image", "create", "guest", "--file", str(disk), "--disk-format", "raw")
    cloud.cli("server", "create", "web", "--flavor", "tiny", "--image", "guest")
    cloud.wait_status("web", "ACTIVE")
    assert compute.stop() == 0

    rename_in_file(compute, "hv1", "hv2")
    compute.start()
    assert compute.wait() == 1
    assert "minova-manage host rename hv1 hv2" in compute.log
    assert "Node hv1 is now hv2." in cloud.manage("host", "rename", "hv1", "hv2")
    compute.start()
    cloud.wait_up("hv2")
    assert list(services(cloud)) == ["hv2"]
    assert cloud.wait_status("web", "ACTIVE")["OS-EXT-SRV-ATTR:host"] == "hv2"

    said = "Host hv2 serves consoles at 192.0.2.1, 192.0.2.2."
    assert said in cloud.manage("host", "console-addresses", "hv2", "192.0.2.1", "192.0.2.2")
    # The client asks for the newest version, in which services have UUIDs.
    listed = openstack(cloud, "compute", "service", "list", "--host", "hv2", "-f", "value", "-c", "ID").stdout.strip()
    refused = openstack(cloud, "compute", "service", "delete", listed)
    assert refused.returncode != 0
    assert "hosting instances" in refused.stderr
    cloud.cli("server", "delete", "web", "--wait")
    assert compute.stop() == 0
    deleted = openstack(cloud, "compute", "service", "delete", listed)
    assert deleted.returncode == 0, deleted.stderr
    assert services(cloud) == {}
    assert cloud.json("hypervisor", "list") == []
    # The same machine may come again.
    compute.start()
    cloud.wait_up("hv2")


# Guests for which an audit once expected other classes than the scheduler had claimed: name, extra specs, what they take.
GUESTS = {
    "mixed": (
        ("hw:cpu_policy=mixed", "hw:cpu_dedicated_mask=1"),
        {"PCPU": 1, "VCPU": 1, "MEMORY_MB": 128, "DISK_GB": 1},
    ),
    "little": (("resources:MEMORY_MB=64", "resources:DISK_GB=0"), {"VCPU": 1, "MEMORY_MB": 64}),
}


def allocations(cloud: Deployment) -> dict[str, dict[str, Any]]:
    """By instance: the provider, and the amount of each class."""
    database = Database(f"sqlite:///{cloud.folder}/minova.sqlite", readonly=True)
    amounts_by_consumer: dict[str, dict[str, Any]] = {}
    with database.read() as session:
        rows = select(Allocation, ResourceProvider.uuid).join(
            ResourceProvider, ResourceProvider.id == Allocation.provider_id
        )
        for row, provider in session.execute(rows):
            amounts_by_consumer.setdefault(row.consumer_uuid, {"provider": provider})[row.resource_class] = row.used
    database.close()
    return amounts_by_consumer


def audit_twice(cloud: Deployment, node: str) -> None:
    for _ in range(2):
        audited = cloud.json("hypervisor", "audit", node)
        assert not any("allocation" in str(value) for value in audited.values()), audited


@pytest.mark.nightly("test_host_is_renamed_with_its_guest_and_removed has a guest, too")
def test_real_guests_run_on_with_their_allocations_while_their_host_is_renamed(
    cloud: Deployment, libvirtd: Libvirtd, guest_image: Path
) -> None:
    compute = cloud.compute(
        "qemu1",
        DEFAULT={"compute_driver": "libvirt"},
        libvirt={"virt_type": "qemu", "connection_uri": libvirtd.uri},
        compute={"cpu_shared_set": "0", "cpu_dedicated_set": "1"},
    )
    compute.start()
    cloud.wait_up("qemu1")
    cloud.cli("image", "create", "guest", "--file", str(guest_image), "--disk-format", "qcow2")
    uuids = {}
    for name, (specs, takes) in GUESTS.items():
        vcpus = takes["VCPU"] + takes.get("PCPU", 0)
        cloud.cli("flavor", "create", name, "--ram", "128", "--disk", "1", "--vcpus", str(vcpus))
        cloud.cli("flavor", "set", name, *(word for spec in specs for word in ("--property", spec)))
        where = ("--availability-zone", "nova:qemu1")
        cloud.cli("server", "create", name, "--flavor", name, "--image", "guest", *where)
        uuids[name] = cloud.wait_status(name, "ACTIVE")["id"]
    node = cloud.server("mixed")["OS-EXT-SRV-ATTR:hypervisor_hostname"]
    taken = allocations(cloud)
    (provider,) = {allocation["provider"] for allocation in taken.values()}
    assert taken == {uuids[name]: {"provider": provider, **takes} for name, (_, takes) in GUESTS.items()}
    audit_twice(cloud, node)
    assert allocations(cloud) == taken

    connection = libvirt.open(libvirtd.uri)
    domains = [connection.lookupByUUIDString(uuid) for uuid in uuids.values()]
    running = [(domain.ID(), domain.XMLDesc(), domain.vcpuPinInfo()) for domain in domains]
    assert compute.stop() == 0
    rename_in_file(compute, "qemu1", "qemu2")
    compute.start()
    assert compute.wait() == 1
    assert "minova-manage host rename qemu1 qemu2" in compute.log
    assert f"Node {node} keeps its name." in cloud.manage("host", "rename", "qemu1", "qemu2")
    compute.start()
    cloud.wait_up("qemu2")
    audit_twice(cloud, node)
    # The ID of a domain that was started anew would be another one.
    assert [(domain.ID(), domain.XMLDesc(), domain.vcpuPinInfo()) for domain in domains] == running
    assert allocations(cloud) == taken
    connection.close()
    for name, uuid in uuids.items():
        shown = cloud.server(name)
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "qemu2")
        # They are its own: it removes them.
        cloud.cli("server", "delete", name, "--wait")
        assert not (cloud.folder / "qemu1" / "state" / "instances" / uuid).exists()
    assert allocations(cloud) == {}
    connection = libvirt.open(libvirtd.uri)
    assert not {domain.UUIDString() for domain in connection.listAllDomains()} & set(uuids.values())
    connection.close()
