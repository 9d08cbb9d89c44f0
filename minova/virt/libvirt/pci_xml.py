"""PCI devices of an instance in its domain: <hostdev>. Pure."""

from xml.etree import ElementTree as ET

from minova.hardware.pci_spec import PARTS, split_address
from minova.objects.pci import PciDevice


def hostdev(device: PciDevice) -> ET.Element:
    """libvirt takes the device from its driver and gives it back, unless its tag `managed` says that others do."""
    managed = "no" if dict(device.tags).get("managed", "").lower() in {"false", "no"} else "yes"
    element = ET.Element("hostdev", mode="subsystem", type="pci", managed=managed)
    source = ET.SubElement(element, "source")
    numbers = zip(PARTS, split_address(device.address), strict=True)
    ET.SubElement(source, "address", {part: f"0x{number}" for part, number in numbers})
    return element
