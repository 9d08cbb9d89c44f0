"""Disks of a domain, and what a domain says of them. Pure."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_lowercase
from xml.etree import ElementTree as ET

import msgspec

from minova.objects.catalogue.guest_hardware import (
    DISK_BUSES,
    Q35,
)
from minova.virt.libvirt.xml import device_xml, secrets_xml
from minova.virt.libvirt.xml.guest import Guest

# The cache modes with which libvirt permits native I/O.
_DIRECT = {"none", "directsync"}


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A disk of a guest. `bus` None: the bus of the guest's other disks. `boots`: the guest boots from it, wherever it is.
    `is_encrypted`: as LUKS, with the guest's secret.
    """

    path: str
    driver_format: str
    is_cd: bool = False
    bus: str | None = None
    boots: bool = False
    is_encrypted: bool = False


def add_disks(devices: ET.Element, guest: Guest, disks: Sequence[Disk], instance_uuid: str) -> None:
    hardware, settings = guest.hardware, guest.settings
    cd_bus = hardware.cdrom_bus or _cd_bus(guest.arch, guest.machine)
    letters: dict[str, Iterator[str]] = {prefix: iter(ascii_lowercase) for prefix in DISK_BUSES.values()}
    for disk in disks:
        bus = disk.bus or (cd_bus if disk.is_cd else hardware.disk_bus)
        prefix = DISK_BUSES[bus]
        element = ET.SubElement(devices, "disk", type="file", device="cdrom" if disk.is_cd else "disk")
        driver = ET.SubElement(element, "driver", name="qemu", type=disk.driver_format, cache=settings.disk_cache)
        if guest.emulated and settings.native_io and settings.disk_cache in _DIRECT:
            driver.set("io", "native")
        if guest.emulated and settings.discard and not disk.is_cd:
            driver.set("discard", settings.discard)
        source = ET.SubElement(element, "source", file=disk.path)
        if disk.is_encrypted:
            secrets_xml.decrypt_disk(source, instance_uuid)
        ET.SubElement(element, "target", dev=f"{prefix}{next(letters[prefix])}", bus=bus)
        if disk.boots:
            ET.SubElement(element, "boot", order="1")
        if disk.is_cd:
            ET.SubElement(element, "readonly")
        elif guest.emulated:
            device_xml.limit_disk(element, guest.limits)


def _cd_bus(arch: str, machine: str | None) -> str:
    """Returns the bus of a CD drive that every guest of the machine supports, as Nova chooses it."""
    if arch not in {"x86_64", "i686"}:
        return "scsi"
    return "sata" if machine is not None and Q35 in machine else "ide"


def disk_formats_of(xml: str, instance_uuid: str) -> dict[str, str]:
    """Returns {file name: format} of the domain's disks in the instance's folder."""
    formats = {}
    for disk in ET.fromstring(xml).findall("devices/disk[@type='file']"):
        source, driver = disk.find("source"), disk.find("driver")
        path = Path("" if source is None else source.get("file", ""))
        written = None if driver is None else driver.get("type")
        if path.parent.name == instance_uuid and written:
            formats[path.name] = written
    return formats
