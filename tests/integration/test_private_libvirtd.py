"""The guest image on real QEMU under the private libvirtd: what all tests with real guests stand on."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest

from tests.servers.libvirtd import Libvirtd
from tests.waiting import wait_for

# The boot takes about 6 s on an idle machine; the emulator shares it with everything else that runs.
READY_WITHIN = 90.0
DOMAIN = """\
<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2'/><source file='{disk}'/><target dev='vda' bus='virtio'/>
    </disk>
    <serial type='file'><source path='{console}'/></serial>
  </devices>
</domain>
"""


class Guest:
    """One domain with an overlay disk and its console in a file."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.name = f"test-{uuid.uuid4()}"
        self.disk = folder / f"{self.name}.qcow2"
        self.console = folder / f"{self.name}.log"
        overlay = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(image), str(self.disk)]
        subprocess.run(overlay, check=True, timeout=120)

    @property
    def xml(self) -> str:
        return DOMAIN.format(name=self.name, disk=self.disk, console=self.console)

    def says(self, words: str, times: int = 1) -> None:
        """Wait until the guest has printed the words so many times."""

        def printed() -> bool:
            return self.console.exists() and self.console.read_text(errors="replace").count(words) >= times

        wait_for(f"the guest to print {words}", printed, READY_WITHIN)


@pytest.fixture
def guest(tmp_path: Path, guest_image: Path) -> Guest:
    return Guest(tmp_path, guest_image)


@pytest.fixture
def connection(libvirt_uri: str) -> Iterator[libvirt.virConnect]:
    connection = libvirt.open(libvirt_uri)
    yield connection
    connection.close()


@pytest.fixture
def domain(connection: libvirt.virConnect, guest: Guest) -> Iterator[libvirt.virDomain]:
    """The guest, just started."""
    domain = connection.createXML(guest.xml)
    yield domain
    # A guest that switched itself off is gone already, or goes while it is destroyed.
    with contextlib.suppress(libvirt.libvirtError):
        domain.destroy()


def test_a_guest_boots_to_ready_and_obeys_the_power_button(guest: Guest, domain: libvirt.virDomain) -> None:
    guest.says("MINOVA-GUEST BOOTS 1")
    guest.says("MINOVA-GUEST READY hostname=")
    domain.shutdown()
    guest.says("MINOVA-GUEST POWERBUTTON")


@pytest.mark.nightly("test_server_actions.py reboots a guest that counts its boots")
def test_a_reset_guest_counts_its_boots(guest: Guest, domain: libvirt.virDomain) -> None:
    guest.says("MINOVA-GUEST READY")
    domain.reset()
    guest.says("MINOVA-GUEST BOOTS 2")
    guest.says("MINOVA-GUEST READY", times=2)


def test_a_guest_outlives_its_libvirtd_and_ends_with_the_server(guest: Guest) -> None:
    with Libvirtd() as server:
        connection = libvirt.open(server.uri)
        connection.createXML(guest.xml)
        connection.close()
        server.kill()
        server.start()
        connection = libvirt.open(server.uri)
        assert connection.lookupByName(guest.name).isActive()
        connection.close()
        assert processes_with(guest.name) != []
    assert processes_with(guest.name) == []
    assert not server.directory.exists()


def processes_with(word: str) -> list[int]:
    """Processes that have the word in their arguments."""
    process_ids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                process_ids.append(int(path.parent.name))
        except OSError:
            continue
    return process_ids
