"""PCI addresses of interfaces and disks, which stay over new definitions of a domain. Pure.

Guests name interfaces by their addresses (enp9s0). libvirt gives addresses by the order of the devices, and the next free one to a
device that is attached while the guest runs: a new definition would give that device another one.
"""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from minova.hardware.pci_spec import PARTS, split_address
from minova.objects.servers.chosen_hardware import alias_of
from minova.objects.servers.disk_export import PciAddresses

RESCUE_DISK = "disk.rescue"
# During a snapshot this file stands before the root disk.
_SAME_DISK = {"snapshot.overlay": "disk"}


def learnt(recorded: PciAddresses | None, xml: str, *, runs: bool) -> PciAddresses | None:
    """Returns what is known after a look at the domain; None if that is nothing. `runs`: what the guest has now counts. Otherwise what is
    known counts, since libvirt may have chosen anew for the next start.

    An interface that the domain does not have is forgotten. The disks of a rescued guest are not where they usually are.
    """
    root = ET.fromstring(xml)
    machine = _machine(root)
    if machine is None:
        return recorded
    current = dict(_interfaces(root))
    present_keys = {key for key, _ in _devices(root)}
    before = {} if recorded is None or recorded.machine != machine else dict(recorded.devices)
    before = {key: address for key, address in before.items() if ":" not in key or key in present_keys}
    if RESCUE_DISK not in present_keys:
        current |= dict(_disks(root))
    first, second = (current, before) if runs else (before, current)
    used_addresses = set(first.values())
    devices = {**{key: address for key, address in second.items() if address not in used_addresses}, **first}
    return PciAddresses(machine=machine, devices=devices) if devices else None


def with_addresses(xml: str, recorded: PciAddresses | None) -> str:
    """Returns the XML with the known addresses, unless the guest has another machine now."""
    root = ET.fromstring(xml)
    if recorded is None or recorded.machine != _machine(root):
        return xml
    devices = dict(_devices(root))
    first = next(iter(devices), None)
    changed = False
    for key, device in devices.items():
        # A rescue disk that stands before the others takes the place of the root disk.
        address = None if first == RESCUE_DISK and ":" not in key else recorded.devices.get(key)
        if address is not None and device.find("address") is None:
            numbers = zip(PARTS, split_address(address), strict=True)
            ET.SubElement(device, "address", {"type": "pci", **{part: f"0x{number}" for part, number in numbers}})
            changed = True
    return ET.tostring(root, encoding="unicode") if changed else xml


def _machine(root: ET.Element) -> str | None:
    kind = root.find("os/type")
    machine = None if kind is None else kind.get("machine")
    return None if machine is None else alias_of(machine)


def _devices(root: ET.Element) -> Iterator[tuple[str, ET.Element]]:
    """Yields disks by the names of their files, then interfaces by their MAC addresses. Other disks than those of virtio are on a
    controller.
    """
    for disk in root.findall("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if source is not None and target is not None and target.get("bus") == "virtio":
            name = Path(source.get("file", "")).name
            yield _SAME_DISK.get(name, name), disk
    for interface in root.findall("devices/interface"):
        mac = interface.find("mac")
        if mac is not None:
            yield mac.get("address", "").lower(), interface


def _interfaces(root: ET.Element) -> Iterator[tuple[str, str]]:
    return ((key, address) for key, address in _addresses(root) if ":" in key)


def _disks(root: ET.Element) -> Iterator[tuple[str, str]]:
    return ((key, address) for key, address in _addresses(root) if ":" not in key)


def _addresses(root: ET.Element) -> Iterator[tuple[str, str]]:
    for key, device in _devices(root):
        address = device.find("address[@type='pci']")
        if address is not None:
            domain, bus, slot, function = (int(address.get(part, "0"), 16) for part in PARTS)
            yield key, f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
