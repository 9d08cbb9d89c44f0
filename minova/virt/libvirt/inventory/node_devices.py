"""Parses libvirt's XML of a host's devices into PciDevices and mediated device types. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec

from minova.objects.hosts.pci import PciDevice

PARTS = ("domain", "bus", "slot", "function")
TYPES = {"virt_functions": "type-PF", "phys_function": "type-VF"}


class HostDevices(NamedTuple):
    """The devices of a host.

    `devices`: (device, name of its network interface, if it has one).
    `mdev_types`: {name of the card: {type: number of devices, both existing and available}}.
    `odd`: names of devices whose XML lacks a required part.
    """

    devices: list[tuple[PciDevice, str | None]]
    mdev_types: dict[str, dict[str, int]]
    odd: list[str]


def parse(texts: Iterable[str]) -> HostDevices:
    """Parse every node device of a host, in any order: interfaces and vDPA devices name their parent PCI device."""
    reading = _DevicesRead({}, {}, set(), defaultdict(Counter), [])
    for text in texts:
        try:
            root = ET.fromstring(text)
        except ET.ParseError as error:
            reading.odd.append(f"a device whose XML cannot be read ({error})")
            continue
        for capability in root.findall("capability"):
            try:
                reading.take(root.findtext("name", ""), root.findtext("parent", ""), capability)
            except (KeyError, ValueError):
                reading.odd.append(root.findtext("name", "a device without a name"))
    devices = [
        (_as_vdpa(device) if name in reading.vdpa else device, reading.interfaces.get(name))
        for name, device in sorted(reading.pci.items())
    ]
    return HostDevices(devices, {card: dict(types) for card, types in sorted(reading.mdev_types.items())}, reading.odd)


class _DevicesRead(NamedTuple):
    """What has been read so far, by the names of the devices."""

    pci: dict[str, PciDevice]
    interfaces: dict[str, str]
    vdpa: set[str]
    mdev_types: defaultdict[str, Counter[str]]
    odd: list[str]

    def take(self, name: str, parent: str, capability: ET.Element) -> None:
        """Take one capability. Raises KeyError or ValueError if it lacks a required part."""
        kind = capability.get("type")
        if kind == "net":
            self.interfaces[parent] = capability.findtext("interface", "")
        elif kind == "vdpa":
            self.vdpa.add(parent)
        elif kind == "mdev":
            # The number that its parent still offers does not include this device.
            self.mdev_types[parent][_child_of(capability, "type").attrib["id"]] += 1
        elif kind == "pci":
            self.pci[name] = _device(name, capability)
            for offered in capability.findall("capability[@type='mdev_types']/type"):
                self.mdev_types[name][offered.attrib["id"]] += int(_text(offered, "availableInstances"))


def _device(name: str, capability: ET.Element) -> PciDevice:
    """Returns the PCI device. Raises KeyError or ValueError if a required part is missing."""
    numbers = [int(_text(capability, part), 0) for part in PARTS]
    inner = next(
        (
            inner_capability
            for inner_capability in capability.findall("capability")
            if inner_capability.get("type") in TYPES
        ),
        None,
    )
    numa = capability.find("numa")
    dev_type = "type-PCI" if inner is None else TYPES[inner.attrib["type"]]
    above = inner.find("address") if inner is not None and dev_type == "type-VF" else None
    return PciDevice(
        address=_address(*numbers),
        vendor_id=_id(capability, "vendor"),
        product_id=_id(capability, "product"),
        dev_type=dev_type,
        numa_node=None if numa is None or int(numa.get("node", "-1")) < 0 else int(numa.attrib["node"]),
        parent_addr=None if above is None else _address(*(int(above.attrib[p], 0) for p in PARTS)),
        label=f"label_{_id(capability, 'vendor')}_{_id(capability, 'product')}",
    )


def _address(domain: int, bus: int, slot: int, function: int) -> str:
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _text(element: ET.Element, tag: str) -> str:
    return _child_of(element, tag).text or ""


def _id(capability: ET.Element, tag: str) -> str:
    """Returns the id as four digits, without the 0x that libvirt writes."""
    return f"{int(_child_of(capability, tag).attrib['id'], 16):04x}"


def _child_of(element: ET.Element, tag: str) -> ET.Element:
    child = element.find(tag)
    if child is None:
        raise KeyError(tag)
    return child


def _as_vdpa(device: PciDevice) -> PciDevice:
    return msgspec.structs.replace(device, dev_type="vdpa")
