"""A guest with pinned CPUs, large pages, UEFI, a TPM, an encrypted disk, a server group and a port of its own moves by the API."""

import base64
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import libvirt
import pytest

from tests.integration.virt.moving_cloud import CLOSED, OPEN, MovingCloud, MovingGuest, make_moving_cloud
from tests.integration.virt.test_numa_guests import PAGE_KB, on
from tests.servers.huge_pages import huge_pages
from tests.waiting import wait_for

__all__ = ["make_moving_cloud"]
pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.nightly("boots on two hosts; test_moved_hardware.py compares the domains"),
]
MEMORY_MB = 192
# The hosts keep different CPUs for pinned guests.
PINNED = {"hv1": 1, "hv2": 0}
SPECS = (
    "hw:cpu_policy=dedicated",
    "hw:emulator_threads_policy=share",
    f"hw:mem_page_size={PAGE_KB}",
    "hw:tpm_version=2.0",
    "hw:tpm_model=tpm-crb",
    "hw:ephemeral_encryption=true",
    "hw:ephemeral_encryption_format=luks",
)
ADDRESS = "192.0.2.77"


def test_a_guest_with_all_kinds_of_hardware_moves(
    make_moving_cloud: Callable[..., MovingCloud], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
    keys.chmod(0o600)
    with huge_pages(2 * MEMORY_MB * 1024 // PAGE_KB):
        cloud = make_moving_cloud(
            libvirt_options={"swtpm_enabled": True},
            of_hosts={
                host: {"compute": {"cpu_shared_set": 1 - cpu, "cpu_dedicated_set": cpu}} for host, cpu in PINNED.items()
            },
            guest_secrets={"key_file": keys},
        )
        image = shlex.quote(str(tmp_path / "guest.qcow2"))
        for line in (
            f"flavor create all --ram {MEMORY_MB} --disk 1 --vcpus 1",
            "flavor set all " + " ".join(f"--property {spec}" for spec in SPECS),
            f"image create uefi --disk-format qcow2 --property hw_firmware_type=uefi --file {image}",
            "server group create apart --policy anti-affinity",
            f"port create web --network lan --fixed-ip ip-address={ADDRESS} --security-group some",
        ):
            cloud.cli(*shlex.split(line))
        guest = cloud.boot("web", "--group", "apart", flavor="all", image="uefi", network="web")
        require_hardware(guest)
        life = guest.lives()[-1]
        for _ in range(2):
            guest.migrate_live()
            life = guest.require_counting_on(life)
            guest.require_only(guest.host)
            require_hardware(guest)

        left = guest.host
        cloud.cli("server", "migrate", "--wait", guest.uuid)
        guest.require_booted(2)
        assert guest.host != left
        require_hardware(guest)
        cloud.cli("server", "migration", "confirm", guest.uuid)
        wait_for("nothing to be left", lambda: guest.is_only(guest.host))
        guest.require_only(guest.host)


def require_hardware(guest: MovingGuest) -> None:
    """What it has been given is on this host, by libvirt and by the guest's network."""
    host = guest.cloud.hosts[guest.host]
    connection = libvirt.open(host.libvirtd.uri)
    try:
        domain = connection.lookupByUUIDString(guest.uuid)
        cpu = PINNED[host.name]
        assert (domain.vcpuPinInfo(), domain.emulatorPinInfo()) == ([on(domain, cpu)], on(domain, 1 - cpu))
        assert connection.listSecrets() == []
    finally:
        connection.close()
    running = ET.fromstring(host.xml(guest.uuid))
    for path in (
        "memoryBacking/hugepages",
        "os/loader",
        "devices/tpm[@model='tpm-crb']",
        "devices/disk/source/encryption[@format='luks']",
    ):
        assert running.find(path) is not None, path
    lan = guest.cloud.lan
    assert guest.address == ADDRESS
    wait_for("the open port", lambda: lan.is_open(ADDRESS, OPEN), 60)
    assert not lan.is_open(ADDRESS, CLOSED)
