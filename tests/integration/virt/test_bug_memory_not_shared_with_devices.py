"""libvirt's QEMU driver takes the shared memory of guests whose devices need it, and keeps it as it was asked for."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import pytest

from minova.objects.hosts.numa import InstanceNUMATopology
from tests.unit.virt.libvirt.test_bug_memory_not_shared_with_devices import (
    HALF,
    VHOST,
    VIRTIOFS,
    access,
    source,
    with_device,
)
from tests.unit.virt.libvirt.xml.test_numa_xml import PINNED, SHARED


@pytest.fixture
def connection(libvirt_uri: str) -> Iterator[Any]:
    opened = libvirt.open(libvirt_uri)
    yield opened
    opened.close()


def defined(connection: Any, domain: ET.Element) -> ET.Element:
    """As libvirt keeps it. Its pins are left out: this host has other cells."""
    for tag in ("numatune", "cputune"):
        for element in domain.findall(tag):
            domain.remove(element)
    kept = connection.defineXML(ET.tostring(domain, encoding="unicode"))
    try:
        return ET.fromstring(kept.XMLDesc())
    finally:
        kept.undefine()


@pytest.mark.parametrize("device", [VHOST, VIRTIOFS], ids=["vhost-user", "virtiofs"])
@pytest.mark.parametrize(
    "numa", [PINNED, HALF, SHARED, None], ids=["large pages", "one cell of large pages", "small pages", "no cells"]
)
def test_libvirt_keeps_shared_memory(connection: Any, numa: InstanceNUMATopology | None, device: str) -> None:
    spec_with_device = with_device(numa, device)
    kept = defined(connection, spec_with_device)
    assert access(kept) == access(spec_with_device)
    assert source(kept) == source(spec_with_device)


def test_without_it_libvirt_refuses_the_device(connection: Any) -> None:
    domain = with_device(None, VIRTIOFS)
    for element in domain.findall("memoryBacking"):
        domain.remove(element)
    with pytest.raises(libvirt.libvirtError, match="shared memory"):
        defined(connection, domain)
