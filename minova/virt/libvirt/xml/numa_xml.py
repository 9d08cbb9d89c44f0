"""A guest's cells, pins and pages in its domain: <cputune>, <numatune>, <cpu><numa>, <memoryBacking>. Pure.

Nova's layout: a pinned CPU on its own host CPU, a shared one on all shared CPUs of its host cell, emulator threads beside
them or on CPUs of their own, memory strictly on the cells that were claimed.
"""

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

import msgspec

from minova.errors import HypervisorUnavailable
from minova.hardware import cpuset
from minova.hardware.errors import RealtimeMaskNotFoundOrInvalid
from minova.objects.numa import CPUs, InstanceNUMACell, InstanceNUMATopology

KIB_IN_MB = 1024


class HostCells(msgspec.Struct, frozen=True, kw_only=True):
    """What of the host's topology a domain is made from. `cpus`: the CPUs of each cell that shared guest CPUs run on,
    by cell id; empty where the host reports no cells. `shared`: `cpu_shared_set`, None where it is not set.
    """

    cpus: Mapping[int, CPUs] = {}
    small_page_kb: int = 4
    shared: CPUs | None = None


def add_tuning(
    domain: ET.Element,
    guest: InstanceNUMATopology,
    host: HostCells,
    *,
    realtime: CPUs = frozenset(),
    locked: bool = False,
) -> None:
    """Everything but <cpu>. HypervisorUnavailable: the cells that were claimed are not the host's any more.
    RealtimeMaskNotFoundOrInvalid: see `_emulator_cpus`.
    """
    backing = memory_backing(guest, host, realtime=bool(realtime), locked=locked)
    if backing is not None:
        domain.append(backing)
    if not host.cpus:
        return
    missing = {cell.id for cell in guest.cells} - host.cpus.keys()
    if missing:
        raise HypervisorUnavailable(f"The host has no NUMA cell {cpuset.write(missing)} any more")
    domain.append(_cputune(guest, host, realtime))
    numatune = ET.SubElement(domain, "numatune")
    ET.SubElement(numatune, "memory", mode="strict", nodeset=cpuset.write(cell.id for cell in guest.cells))
    for number, cell in enumerate(guest.cells):
        ET.SubElement(numatune, "memnode", cellid=str(number), mode="strict", nodeset=str(cell.id))


def add_cells(cpu: ET.Element, guest: InstanceNUMATopology) -> None:
    """<numa> below <cpu>: what the guest itself sees."""
    numa = ET.SubElement(cpu, "numa")
    for number, cell in enumerate(guest.cells):
        memory = str(cell.memory * KIB_IN_MB)
        ET.SubElement(numa, "cell", id=str(number), cpus=cpuset.write(_guest_cpus(cell)), memory=memory, unit="KiB")


def memory_backing(guest: InstanceNUMATopology, host: HostCells, *, realtime: bool, locked: bool) -> ET.Element | None:
    """Pages of each cell whose size is not the host's smallest; locked memory for guests in real time or that ask for it."""
    backing = ET.Element("memoryBacking")
    sizes: dict[int, list[int]] = {}
    for number, cell in enumerate(guest.cells):
        if cell.pagesize is not None and cell.pagesize > host.small_page_kb:
            sizes.setdefault(cell.pagesize, []).append(number)
    if sizes:
        pages = ET.SubElement(backing, "hugepages")
        for size, cells in sorted(sizes.items()):
            ET.SubElement(pages, "page", size=str(size), unit="KiB", nodeset=cpuset.write(cells))
    if realtime:
        ET.SubElement(backing, "nosharepages")
    if realtime or locked:
        ET.SubElement(backing, "locked")
    return backing if len(backing) else None


def share_memory(domain: ET.Element) -> None:
    """Let the processes behind the guest's devices read its memory, where a device needs that.

    A cell with large pages says so itself (`memAccess`), as in Nova; other memory becomes a file in memory (memfd) first.
    """
    devices = domain.find("devices")
    if devices is None or not any(needs_shared_memory(device) for device in devices):
        return
    large = frozenset().union(
        *(cpuset.members(page.get("nodeset", "")) for page in domain.findall("memoryBacking/hugepages/page"))
    )
    cells = domain.findall("cpu/numa/cell")
    for cell in cells:
        if int(cell.attrib["id"]) in large:
            cell.set("memAccess", "shared")
    if cells and len(large) == len(cells):
        return
    backing = domain.find("memoryBacking")
    if backing is None:
        backing = ET.SubElement(domain, "memoryBacking")
    ET.SubElement(backing, "source", type="memfd")
    ET.SubElement(backing, "access", mode="shared")


def needs_shared_memory(device: ET.Element) -> bool:
    """Whether another process than QEMU serves this device from the guest's memory: vhost-user or virtiofs."""
    if device.tag in {"interface", "disk"}:
        return device.get("type") == "vhostuser"
    driver = device.find("driver")
    return device.tag == "filesystem" and driver is not None and driver.get("type") == "virtiofs"


def _cputune(guest: InstanceNUMATopology, host: HostCells, realtime: CPUs) -> ET.Element:
    tune = ET.Element("cputune")
    for cpu, on in sorted(_places(guest, host)):
        ET.SubElement(tune, "vcpupin", vcpu=str(cpu), cpuset=cpuset.write(on))
    ET.SubElement(tune, "emulatorpin", cpuset=cpuset.write(_emulator_cpus(guest, host, realtime)))
    if realtime:
        ET.SubElement(tune, "vcpusched", vcpus=cpuset.write(realtime), scheduler="fifo", priority="1")
    return tune


def _places(guest: InstanceNUMATopology, host: HostCells) -> Iterable[tuple[int, CPUs]]:
    """(guest CPU, the host CPUs it may run on)."""
    for cell in guest.cells:
        pins = dict(cell.cpu_pinning)
        for cpu in _guest_cpus(cell):
            yield cpu, frozenset({pins[cpu]}) if cpu in pins else host.cpus[cell.id]


def _emulator_cpus(guest: InstanceNUMATopology, host: HostCells, realtime: CPUs) -> CPUs:
    """Without CPUs of their own or shared ones, never beside a realtime CPU, which would starve them.

    RealtimeMaskNotFoundOrInvalid: they are to share, but this host has no shared set for the threads of such a guest.
    """
    if guest.emulator_threads_policy == "isolate":
        reserved = [cell.cpuset_reserved for cell in guest.cells if cell.cpuset_reserved]
        if reserved:
            return frozenset().union(*reserved)
    if guest.emulator_threads_policy == "share":
        if host.shared:
            return host.shared
        if realtime:
            raise RealtimeMaskNotFoundOrInvalid(
                "hw:cpu_realtime with hw:emulator_threads_policy=share: this host has no [compute] cpu_shared_set"
            )
    return frozenset().union(*(on for cpu, on in _places(guest, host) if cpu not in realtime))


def _guest_cpus(cell: InstanceNUMACell) -> CPUs:
    return cell.cpuset | cell.pcpuset
