"""Writes a guest's cells, pins and pages into its domain: <cputune>, <numatune>, <cpu><numa>, <memoryBacking>. Pure.

Nova's layout: a pinned CPU runs on its own host CPU, a shared CPU on all shared CPUs of its host cell, and emulator
threads run beside them or on separate CPUs. Memory is strictly on the claimed cells.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from math import gcd
from xml.etree import ElementTree as ET

import msgspec
from oslo_utils import units

from minova.errors import HypervisorError
from minova.hardware import cpu_spec
from minova.hardware.errors import RealtimeMaskNotFoundOrInvalid
from minova.objects.hosts.numa import CPUs, InstanceNUMACell, InstanceNUMATopology


class HostCells(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the host's topology that a domain needs.

    `cpus`: {cell id: the CPUs on which shared guest CPUs run}; empty if the host reports no cells.
    `shared`: `cpu_shared_set`, None if it is not set.
    `cores`: sets of CPUs that are threads of one core.
    """

    cpus: Mapping[int, CPUs] = {}
    small_page_kb: int = 4
    shared: CPUs | None = None
    cores: tuple[CPUs, ...] = ()


def add_tuning(
    domain: ET.Element,
    guest: InstanceNUMATopology,
    host: HostCells,
    *,
    realtime: CPUs = frozenset(),
    locked: bool = False,
) -> None:
    """Adds everything but <cpu>. Raises HypervisorError if the host no longer has the claimed cells,
    RealtimeMaskNotFoundOrInvalid as `_emulator_cpus`.
    """
    backing = memory_backing(guest, host, realtime=bool(realtime), locked=locked)
    if backing is not None:
        domain.append(backing)
    if not host.cpus:
        return
    missing = {cell.id for cell in guest.cells} - host.cpus.keys()
    if missing:
        raise HypervisorError(f"The host has no NUMA cell {cpu_spec.write(missing)} any more")
    domain.append(_cputune(guest, host, realtime))
    numatune = ET.SubElement(domain, "numatune")
    ET.SubElement(numatune, "memory", mode="strict", nodeset=cpu_spec.write(cell.id for cell in guest.cells))
    for number, cell in enumerate(guest.cells):
        ET.SubElement(numatune, "memnode", cellid=str(number), mode="strict", nodeset=str(cell.id))


def pinned_threads(guest: InstanceNUMATopology | None, host: HostCells) -> int:
    """Returns how many consecutive CPUs of the guest are pinned on each core of the host; 0 if not all of its CPUs are pinned."""
    cells = () if guest is None else guest.cells
    pins = sorted(pin for cell in cells for pin in cell.cpu_pinning)
    if not pins or any(cell.cpuset or len(cell.pcpuset) != len(cell.cpu_pinning) for cell in cells):
        return 0
    cores = {cpu: number for number, core in enumerate(host.cores) for cpu in core}
    # A CPU that the host does not list is a core by itself.
    runs = [[guest_cpu for guest_cpu, _ in run] for _, run in groupby(pins, lambda pin: cores.get(pin[1], -1 - pin[1]))]
    threads = gcd(*map(len, runs))
    return threads if all(run[0] % threads == 0 for run in runs) else 1


def add_cells(cpu: ET.Element, guest: InstanceNUMATopology) -> None:
    """Adds <numa> below <cpu>: the cells that the guest itself sees."""
    numa = ET.SubElement(cpu, "numa")
    for number, cell in enumerate(guest.cells):
        memory = str(cell.memory * units.Ki)
        ET.SubElement(numa, "cell", id=str(number), cpus=cpu_spec.write(_guest_cpus(cell)), memory=memory, unit="KiB")


def memory_backing(guest: InstanceNUMATopology, host: HostCells, *, realtime: bool, locked: bool) -> ET.Element | None:
    """Returns the element with the pages of each cell whose size is not the host's smallest, and with locked memory for
    realtime guests and guests that request it. None if there is neither.
    """
    backing = ET.Element("memoryBacking")
    sizes: dict[int, list[int]] = {}
    for number, cell in enumerate(guest.cells):
        if cell.pagesize is not None and cell.pagesize > host.small_page_kb:
            sizes.setdefault(cell.pagesize, []).append(number)
    if sizes:
        pages = ET.SubElement(backing, "hugepages")
        for size, cells in sorted(sizes.items()):
            ET.SubElement(pages, "page", size=str(size), unit="KiB", nodeset=cpu_spec.write(cells))
    if realtime:
        ET.SubElement(backing, "nosharepages")
    if realtime or locked:
        ET.SubElement(backing, "locked")
    return backing if len(backing) else None


def share_memory(domain: ET.Element) -> None:
    """Let the processes that serve the guest's devices access its memory, if a device needs that.

    A cell with large pages is marked as shared (`memAccess`), as in Nova; other memory must first become a memfd.
    """
    devices = domain.find("devices")
    if devices is None or not any(needs_shared_memory(device) for device in devices):
        return
    large = frozenset().union(
        *(cpu_spec.members(page.get("nodeset", "")) for page in domain.findall("memoryBacking/hugepages/page"))
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
    """Whether a process other than QEMU serves this device from the guest's memory: vhost-user or virtiofs."""
    if device.tag in {"interface", "disk"}:
        return device.get("type") == "vhostuser"
    driver = device.find("driver")
    return device.tag == "filesystem" and driver is not None and driver.get("type") == "virtiofs"


def _cputune(guest: InstanceNUMATopology, host: HostCells, realtime: CPUs) -> ET.Element:
    tune = ET.Element("cputune")
    for cpu, on in sorted(_places(guest, host)):
        ET.SubElement(tune, "vcpupin", vcpu=str(cpu), cpuset=cpu_spec.write(on))
    ET.SubElement(tune, "emulatorpin", cpuset=cpu_spec.write(_emulator_cpus(guest, host, realtime)))
    if realtime:
        ET.SubElement(tune, "vcpusched", vcpus=cpu_spec.write(realtime), scheduler="fifo", priority="1")
    return tune


def _places(guest: InstanceNUMATopology, host: HostCells) -> Iterable[tuple[int, CPUs]]:
    """Yields (guest CPU, host CPUs on which it may run)."""
    for cell in guest.cells:
        pins = dict(cell.cpu_pinning)
        for cpu in _guest_cpus(cell):
            yield cpu, frozenset({pins[cpu]}) if cpu in pins else host.cpus[cell.id]


def _emulator_cpus(guest: InstanceNUMATopology, host: HostCells, realtime: CPUs) -> CPUs:
    """Returns the host CPUs for the emulator threads. If they have no separate or shared CPUs, they run beside the
    guest's CPUs, but never beside a realtime CPU, which would starve them.

    Raises RealtimeMaskNotFoundOrInvalid if the threads of a realtime guest must use the shared set, but this host has
    none.
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
