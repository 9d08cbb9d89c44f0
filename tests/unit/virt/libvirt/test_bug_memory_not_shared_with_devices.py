"""A device that another process serves needs the guest's memory to be shared: vhost-user interfaces and disks, virtiofs."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from minova.objects.hosts.numa import InstanceNUMATopology
from minova.virt.libvirt.xml.numa_xml import needs_shared_memory, share_memory
from tests.unit.virt.libvirt.xml.test_numa_xml import PINNED, SHARED, domain_of

VHOST = (
    "<interface type='vhostuser'><source type='unix' path='/run/vhu1' mode='server'/><model type='virtio'/></interface>"
)
VIRTIOFS = "<filesystem type='mount'><driver type='virtiofs'/><source dir='/srv'/><target dir='srv'/></filesystem>"
BRIDGE = "<interface type='bridge'><source bridge='br0'/></interface>"
HALF = InstanceNUMATopology(cells=(PINNED.cells[0], msgspec.structs.replace(PINNED.cells[1], pagesize=4)))


@pytest.mark.parametrize(
    ("device", "needs"),
    [
        (VHOST, True),
        (VIRTIOFS, True),
        ("<disk type='vhostuser' device='disk'/>", True),
        (BRIDGE, False),
        ("<disk type='file' device='disk'/>", False),
        ("<filesystem type='mount'><source dir='/srv'/></filesystem>", False),
        ("<hostdev mode='subsystem' type='pci' managed='yes'/>", False),
        ("<console type='pty'/>", False),
    ],
)
def test_which_devices_need_it(device: str, needs: bool) -> None:
    assert needs_shared_memory(ET.fromstring(device)) is needs


def with_device(numa: InstanceNUMATopology | None, device: str) -> ET.Element:
    domain = domain_of(numa)
    devices = domain.find("devices")
    assert devices is not None
    devices.append(ET.fromstring(device))
    share_memory(domain)
    return domain


def access(domain: ET.Element) -> list[str | None]:
    return [cell.get("memAccess") for cell in domain.findall("cpu/numa/cell")]


def source(domain: ET.Element) -> tuple[str | None, str | None]:
    elements = [domain.find(f"memoryBacking/{tag}") for tag in ("source", "access")]
    kind, mode = (None if element is None else (element.get("type") or element.get("mode")) for element in elements)
    return kind, mode


@pytest.mark.parametrize("device", [VHOST, VIRTIOFS])
@pytest.mark.parametrize(
    ("numa", "cells", "other_memory"),
    [
        (PINNED, ["shared", "shared"], (None, None)),
        (HALF, ["shared", None], ("memfd", "shared")),
        (SHARED, [None, None], ("memfd", "shared")),
        (None, [], ("memfd", "shared")),
    ],
    ids=["large pages", "one cell of large pages", "small pages", "no cells"],
)
def test_memory_is_shared_where_a_device_needs_it(
    numa: InstanceNUMATopology | None,
    cells: list[str | None],
    other_memory: tuple[str | None, str | None],
    device: str,
) -> None:
    domain = with_device(numa, device)
    assert access(domain) == cells
    assert source(domain) == other_memory
    assert len(domain.findall("memoryBacking")) == 1 or numa is PINNED


@pytest.mark.parametrize("numa", [PINNED, SHARED, None], ids=["large pages", "small pages", "no cells"])
def test_and_is_private_otherwise(numa: InstanceNUMATopology | None) -> None:
    for domain in (domain_of(numa), with_device(numa, BRIDGE)):
        assert set(access(domain)) <= {None}
        assert source(domain) == (None, None)


def test_every_guest_is_made_by_that_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a device that needs it among those of an instance, the domain says so."""
    monkeypatch.setattr("minova.virt.libvirt.xml.guest_xml._hostdev", lambda device: ET.fromstring(VHOST))
    domain = domain_of(PINNED, pci_devices=("a device",))
    assert access(domain) == ["shared", "shared"]
