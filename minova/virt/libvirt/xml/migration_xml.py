"""Rewrites the domain of a running guest for the host to which it migrates. Pure.

What the guest sees stays as it is, down to the addresses of its devices. What belongs to the host is taken from the domain as the
destination would define it: the mark, pins and NUMA nodes, files, consoles, networks and filters.
"""

import copy
from pathlib import Path
from xml.etree import ElementTree as ET

from minova.virt.libvirt.xml.guest_xml import NAMESPACE

_MARK = f"metadata/{{{NAMESPACE}}}instance"
# Tuning of the whole domain, each in one element.
_TUNING = ("cputune", "numatune")
_OF_HOST = ("source", "filterref", "virtualport", "target", "mtu", "link")


def migrated_xml(source_xml: str, own_xml: str) -> str:
    """`source_xml`: the domain at its source. `own_xml`: the domain as the destination would define it."""
    domain, own = ET.fromstring(source_xml), ET.fromstring(own_xml)
    _replace(domain, "metadata", own.find("metadata"))
    for tag in _TUNING:
        _replace(domain, tag, own.find(tag))
    _take_attribute(domain.find("vcpu"), own.find("vcpu"), "cpuset")
    _move_disks(domain, own)
    _move_consoles(domain, own)
    own_interfaces = {_mac(element): element for element in own.findall("devices/interface")}
    for element in domain.findall("devices/interface"):
        if _mac(element) in own_interfaces:
            _move_interface(element, own_interfaces[_mac(element)])
    return ET.tostring(domain, encoding="unicode")


def cpu_of(xml: str) -> str | None:
    """Returns the guest's CPU; None if the domain names none."""
    cpu = ET.fromstring(xml).find("cpu")
    if cpu is None or cpu.find("model") is None:
        return None
    return ET.tostring(cpu, encoding="unicode")


def targets_of(xml: str) -> dict[str, str]:
    """Returns {file: the disk's name in the guest} of disks that the guest can write."""
    found = {}
    for disk in ET.fromstring(xml).findall("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        if source is not None and target is not None and disk.find("readonly") is None:
            found[source.get("file", "")] = target.get("dev", "")
    return found


def _replace(domain: ET.Element, tag: str, own: ET.Element | None) -> None:
    existing = domain.find(tag)
    if existing is not None:
        domain.remove(existing)
    if own is not None:
        domain.append(copy.deepcopy(own))


def _take_attribute(element: ET.Element | None, own: ET.Element | None, name: str) -> None:
    if element is None or own is None:
        return
    element.attrib.pop(name, None)
    if name in own.attrib:
        element.set(name, own.attrib[name])


def _move_disks(domain: ET.Element, own: ET.Element) -> None:
    """Disks are the same if their files have the same name."""
    paths = {Path(path).name: path for path in map(_file_of, own.findall("devices/disk"))}
    for disk in domain.findall("devices/disk"):
        source, path = disk.find("source"), paths.get(Path(_file_of(disk)).name)
        if source is None or path is None:
            continue
        source.attrib.clear()
        source.set("file", path)
        # libvirt reads at the destination what the disk is based on.
        for element in (*disk.findall("backingStore"), *disk.findall("mirror")):
            disk.remove(element)


def _file_of(disk: ET.Element) -> str:
    source = disk.find("source")
    return "" if source is None else source.get("file", "")


def _move_consoles(domain: ET.Element, own: ET.Element) -> None:
    log, bound = own.find("devices/serial/log"), own.find("devices/serial/source[@mode='bind']")
    for kind in ("serial", "console"):
        for element in domain.findall(f"devices/{kind}"):
            _take_attribute(element.find("log"), log, "file")
            for name in ("host", "service"):
                _take_attribute(element.find("source[@mode='bind']"), bound, name)
    own_screen = own.find("devices/graphics[@type='vnc']")
    for screen in domain.findall("devices/graphics[@type='vnc']"):
        _take_attribute(screen, own_screen, "listen")
        for listen in screen.findall("listen[@type='address']"):
            _take_attribute(listen, None if own_screen is None else own_screen.find("listen"), "address")


def _mac(interface: ET.Element) -> str:
    element = interface.find("mac")
    return "" if element is None else element.get("address", "").lower()


def _move_interface(element: ET.Element, own: ET.Element) -> None:
    element.set("type", own.get("type", ""))
    for tag in _OF_HOST:
        _replace(element, tag, own.find(tag))
