"""The root disk of a rescued guest, which is attached when the rescue system has booted. Pure."""

from string import ascii_lowercase
from xml.etree import ElementTree as ET

from minova.errors import HypervisorError
from minova.virt.libvirt.xml.device_xml import AGENT_CHANNEL
from minova.virt.libvirt.xml.disk_xml import Disk
from minova.virt.libvirt.xml.secrets_xml import decrypt_disk

# What libvirt has added to the domain that runs, and what belongs to the disk from which it boots.
_OF_THE_OTHER = ("alias", "address", "backingStore", "boot", "source")


def has_disk(xml: str, path: str) -> bool:
    return _disk(ET.fromstring(xml), path) is not None


def is_agent_connected(xml: str) -> bool:
    """`xml`: of the domain that runs."""
    return ET.fromstring(xml).find(f"devices/channel/target[@name='{AGENT_CHANNEL}'][@state='connected']") is not None


def disk_beside(xml: str, rescue: Disk, root: Disk) -> str:
    """Returns the XML of the root disk: as the rescue disk, on the next place of its bus. Raises HypervisorError if the domain has no
    rescue disk.
    """
    domain = ET.fromstring(xml)
    disk = _disk(domain, rescue.path)
    target = None if disk is None else disk.find("target")
    if disk is None or target is None:
        raise HypervisorError(f"The domain does not have disk {rescue.path}")
    for child in [child for child in disk if child.tag in _OF_THE_OTHER]:
        disk.remove(child)
    source = ET.SubElement(disk, "source", file=root.path)
    if root.is_encrypted:
        decrypt_disk(source, domain.findtext("uuid", ""))
    prefix, used_names = target.get("dev", "")[:2], {each.get("dev") for each in domain.findall("devices/disk/target")}
    target.set("dev", next(name for letter in ascii_lowercase if (name := f"{prefix}{letter}") not in used_names))
    driver = disk.find("driver")
    if driver is not None:
        driver.set("type", root.driver_format)
    return ET.tostring(disk, encoding="unicode")


def _disk(domain: ET.Element, path: str) -> ET.Element | None:
    for disk in domain.findall("devices/disk"):
        source = disk.find("source")
        if source is not None and source.get("file") == path:
            return disk
    return None
