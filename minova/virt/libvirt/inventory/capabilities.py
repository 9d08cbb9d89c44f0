"""Parses libvirt's capabilities XML of a host, in Nova's words. Pure."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from minova.hardware import cpu_spec
from minova.objects.hosts.numa import CPUs, NUMACell, NUMAPages, NUMATopology
from minova.virt.libvirt.guest_files.qemu_access import QemuUser

# Other names of the same architectures.
_ARCHES = {"i386": "i686", "i486": "i686", "i586": "i686", "amd64": "x86_64", "arm64": "aarch64"}
_VM_MODES = {"linux": "xen"}
# User and group of QEMU, as numbers.
_DAC_LABEL = re.compile(r"\+(\d+):\+(\d+)")
# In KiB.
_UNITS = {"KiB": 1, "MiB": 1024, "GiB": 1024 * 1024}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a host.

    - `cpus`: the numbers of the host's CPUs, as far as libvirt reports them.
    - `cpu_info`: Nova's JSON of the CPU, or empty; `cpu`: libvirt's XML of it.
    - `machines`: the machine types of fully virtualised guests, as (architecture, virt_type, name).
    - `qemu_user`: the user as which libvirt runs guests, if libvirt names one.
    - `uuid`: of the host's hardware.
    - `odd`: the parts that could not be read; all others were read.
    """

    arch: str
    cpus: frozenset[int] = frozenset()
    cpu_info: str = ""
    cpu: str = ""
    qemu_user: QemuUser | None = None
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    machines: frozenset[tuple[str, str, str]] = frozenset()
    numa_topology: NUMATopology | None = None
    uuid: str = ""
    odd: tuple[str, ...] = ()

    def supports(self, virt_type: str) -> bool:
        """Whether guests of this kind can run here."""
        return any(hypervisor == virt_type for _, hypervisor, _ in self.supported_instances)

    def machines_of(self, virt_type: str) -> dict[str, frozenset[str]]:
        """Returns the machine types by architecture, including architectures without any."""
        arches = {
            arch for arch, hypervisor, mode in self.supported_instances if (hypervisor, mode) == (virt_type, "hvm")
        }
        return {
            arch: frozenset(name for of_arch, kind, name in self.machines if (of_arch, kind) == (arch, virt_type))
            for arch in arches
        }


def parse(xml: str) -> Capabilities:
    """Parse the XML. Raises ValueError if it is not XML, or does not describe a host."""
    try:
        root = ET.fromstring(xml)
    except ET.ParseError as error:
        raise ValueError(f"the capabilities are no XML: {error}") from error
    host = root.find("host")
    if host is None:
        raise ValueError("the capabilities have no host")
    odd: list[str] = []
    listed = host.findall("topology/cells/cell")
    _without_offline(listed)
    cells = sorted((element for cell in listed if (element := _cell(cell, odd)) is not None), key=lambda cell: cell.id)
    cpu = host.find("cpu")
    if cpu is None:
        odd.append("the host has no cpu")
    return Capabilities(
        arch=canonical_arch(host.findtext("cpu/arch", "")),
        cpus=frozenset[int]().union(*(cell.cpuset for cell in cells)),
        cpu_info="" if cpu is None else json.dumps(_cpu_info(cpu, len(listed), odd), sort_keys=True),
        cpu="" if cpu is None else ET.tostring(cpu, encoding="unicode"),
        qemu_user=_qemu_user(host),
        supported_instances=tuple(dict.fromkeys(_supported(root))),
        machines=frozenset(_machines(root)),
        numa_topology=NUMATopology(tuple(cells)) if cells else None,
        uuid=host.findtext("uuid", ""),
        odd=tuple(odd),
    )


def with_features(capabilities: Capabilities, features: Iterable[str]) -> Capabilities:
    """Returns the capabilities with all of the CPU's features in `cpu_info`, as in Nova: including those that its model
    implies.
    """
    if not capabilities.cpu_info:
        return capabilities
    info = json.loads(capabilities.cpu_info)
    info["features"] = sorted({*info["features"], *features})
    return msgspec.structs.replace(capabilities, cpu_info=json.dumps(info, sort_keys=True))


def with_machines(capabilities: Capabilities, virt_type: str) -> Capabilities:
    """Returns the capabilities with the machine types of these guests in `cpu_info`, by architecture, for
    `ImagePropertiesFilter`.
    """
    if not capabilities.cpu_info:
        return capabilities
    info = json.loads(capabilities.cpu_info)
    info["machine_types"] = {arch: sorted(names) for arch, names in capabilities.machines_of(virt_type).items()}
    return msgspec.structs.replace(capabilities, cpu_info=json.dumps(info, sort_keys=True))


def canonical_arch(name: str) -> str:
    """Returns Nova's name of an architecture."""
    return _ARCHES.get(name.lower(), name.lower())


def _cpu_info(cpu: ET.Element, cells: int, odd: list[str]) -> dict[str, Any]:
    topology = cpu.find("topology")
    counts = {} if topology is None else {key: _number(topology, key, odd) for key in ("sockets", "cores", "threads")}
    return {
        "arch": canonical_arch(cpu.findtext("arch", "")),
        "model": cpu.findtext("model", ""),
        "vendor": cpu.findtext("vendor", ""),
        "topology": {"cells": cells or 1, **{key: 1 if count is None else count for key, count in counts.items()}},
        "features": sorted({feature.get("name", "") for feature in cpu.findall("feature")}),
    }


def _qemu_user(host: ET.Element) -> QemuUser | None:
    for model in host.findall("secmodel[model='dac']"):
        for label in model.findall("baselabel"):
            ids = _DAC_LABEL.fullmatch(label.text or "")
            if ids is not None:
                return QemuUser(uid=int(ids[1]), gid=int(ids[2]))
    return None


def _supported(root: ET.Element) -> Iterator[tuple[str, str, str]]:
    for guest in root.findall("guest"):
        mode = guest.findtext("os_type", "")
        for arch in guest.findall("arch"):
            for domain in arch.findall("domain"):
                yield canonical_arch(arch.get("name", "")), domain.get("type", ""), _VM_MODES.get(mode, mode)


def _machines(root: ET.Element) -> Iterator[tuple[str, str, str]]:
    """Yields (architecture, virt_type, machine type). The machine types of an architecture apply to each of its domain
    types; a domain type may have more.
    """
    for guest in root.findall("guest[os_type='hvm']"):
        for arch in guest.findall("arch"):
            for domain in arch.findall("domain"):
                for machine in (*arch.findall("machine"), *domain.findall("machine")):
                    yield canonical_arch(arch.get("name", "")), domain.get("type", ""), machine.text or ""


def _without_offline(cells: Iterable[ET.Element]) -> None:
    """Removes offline CPUs, on which no guest can run. libvirt lists an offline CPU without siblings, and the others
    with siblings.
    """
    lists = [cpus for cell in cells for cpus in cell.findall("cpus")]
    if not any(cpu.get("siblings") for cpus in lists for cpu in cpus):
        return
    for cpus in lists:
        for cpu in cpus.findall("cpu"):
            if "siblings" not in cpu.attrib:
                cpus.remove(cpu)


def _cell(cell: ET.Element, odd: list[str]) -> NUMACell | None:
    """Returns a cell whose CPUs serve shared and pinned guests alike, or None if it has no id. `socket` is None if its
    CPUs are on several sockets.
    """
    number = _number(cell, "id", odd)
    if number is None:
        return None
    cpus = {cpu: element for element in cell.findall("cpus/cpu") if (cpu := _number(element, "id", odd)) is not None}
    siblings = {core for element in cpus.values() if (core := _siblings(element, odd).intersection(cpus))}
    sockets = {element.get("socket_id", "") for element in cpus.values()}
    socket = sockets.pop() if len(sockets) == 1 else ""
    return NUMACell(
        id=number,
        cpuset=frozenset(cpus),
        pcpuset=frozenset(cpus),
        memory=_memory_mb(cell, number, odd),
        siblings=tuple(sorted(siblings, key=sorted)),
        mempages=tuple(pages for element in cell.findall("pages") if (pages := _pages(element, odd)) is not None),
        socket=int(socket) if socket.isdecimal() else None,
    )


def _siblings(cpu: ET.Element, odd: list[str]) -> CPUs:
    """Returns the siblings; empty if libvirt does not report them."""
    text = cpu.get("siblings", "")
    try:
        return cpu_spec.members(text)
    except ValueError as error:
        odd.append(f"siblings of cpu {cpu.get('id')}: {error}")
        return frozenset()


def _memory_mb(cell: ET.Element, number: int, odd: list[str]) -> int:
    memory = cell.find("memory")
    text = "" if memory is None else (memory.text or "").strip()
    unit = "" if memory is None else memory.get("unit", "KiB")
    if not text.isdecimal() or unit not in _UNITS:
        odd.append(f"cell {number} has no memory" if memory is None else f"memory {text!r} {unit} of cell {number}")
        return 0
    return int(text) * _UNITS[unit] // 1024


def _pages(pages: ET.Element, odd: list[str]) -> NUMAPages | None:
    size, text, unit = _number(pages, "size", odd), (pages.text or "").strip(), pages.get("unit", "KiB")
    if not size or not text.isdecimal() or unit not in _UNITS:
        odd.append(f"{text!r} pages of size {pages.get('size')!r} {unit}")
        return None
    return NUMAPages(size_kb=size * _UNITS[unit], total=int(text))


def _number(element: ET.Element, name: str, odd: list[str]) -> int | None:
    text = element.get(name, "")
    if not text.isdecimal():
        odd.append(f"{element.tag} with {name} {text!r}")
        return None
    return int(text)


def with_cpus(topology: NUMATopology, shared: CPUs, dedicated: CPUs) -> NUMATopology:
    """Returns the topology with only these CPUs for shared and for pinned guests; the host keeps the others for
    itself.
    """
    either = shared | dedicated
    return NUMATopology(
        tuple(
            msgspec.structs.replace(
                cell,
                cpuset=cell.cpuset & shared,
                pcpuset=cell.pcpuset & dedicated,
                siblings=tuple(core & either for core in cell.siblings if core & either),
            )
            for cell in topology.cells
        )
    )
