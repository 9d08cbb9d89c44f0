"""libvirt's XML of a host's devices, as PciDevices and mediated device types. Pure."""

from collections.abc import Iterable
from typing import NamedTuple
from xml.etree import ElementTree as ET

import msgspec

from minova.objects.pci import PciDevice

PARTS = ("domain", "bus", "slot", "function")
TYPES = {"virt_functions": "type-PF", "phys_function": "type-VF"}


class Found(NamedTuple):
    """`devices` with the name of their network interface, if they have one; `mdev_types`: {type: how many may be made};
    `odd`: names of devices whose XML says less than is needed.
    """

    devices: list[tuple[PciDevice, str | None]]
    mdev_types: dict[str, int]
    odd: list[str]


def parse(texts: Iterable[str]) -> Found:
    """Every node device of a host, in any order: interfaces and vDPA devices name the PCI device above them."""
    pci: dict[str, PciDevice] = {}
    interfaces: dict[str, str] = {}
    vdpa: set[str] = set()
    mdev_types: dict[str, int] = {}
    odd: list[str] = []
    for text in texts:
        root = ET.fromstring(text)
        name, parent = root.findtext("name", ""), root.findtext("parent", "")
        for capability in root.findall("capability"):
            kind = capability.get("type")
            if kind == "net":
                interfaces[parent] = capability.findtext("interface", "")
            elif kind == "vdpa":
                vdpa.add(parent)
            elif kind == "pci":
                _count_mdev_types(capability, mdev_types)
                try:
                    pci[name] = _device(name, capability)
                except (KeyError, ValueError):
                    odd.append(name)
    devices = [
        (_as_vdpa(device) if name in vdpa else device, interfaces.get(name)) for name, device in sorted(pci.items())
    ]
    return Found(devices, mdev_types, odd)


def _device(name: str, capability: ET.Element) -> PciDevice:
    """KeyError, ValueError: what makes a PCI device is missing."""
    numbers = [int(_text(capability, part), 0) for part in PARTS]
    inner = next((one for one in capability.findall("capability") if one.get("type") in TYPES), None)
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
    found = element.findtext(tag)
    if found is None:
        raise KeyError(tag)
    return found


def _id(capability: ET.Element, tag: str) -> str:
    """Four digits, without the 0x that libvirt writes."""
    found = capability.find(tag)
    if found is None:
        raise KeyError(tag)
    return f"{int(found.attrib['id'], 16):04x}"


def _as_vdpa(device: PciDevice) -> PciDevice:
    return msgspec.structs.replace(device, dev_type="vdpa")


def _count_mdev_types(capability: ET.Element, counts: dict[str, int]) -> None:
    for inner in capability.findall("capability[@type='mdev_types']/type"):
        kind = inner.get("id", "")
        counts[kind] = counts.get(kind, 0) + int(inner.findtext("availableInstances", "0"))
