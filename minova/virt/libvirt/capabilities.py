"""What libvirt's capabilities XML says of a host, in Nova's words. Pure."""

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from minova.hardware import cpuset
from minova.objects.numa import CPUs, NUMACell, NUMAPages, NUMATopology

# Other names of the same machines.
_ARCHES = {"i386": "i686", "i486": "i686", "i586": "i686", "amd64": "x86_64", "arm64": "aarch64"}
_VM_MODES = {"linux": "xen"}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """`cpus` are the numbers of the host's CPUs, as far as libvirt tells them; `cpu_info` is Nova's JSON, or empty."""

    arch: str
    cpus: frozenset[int] = frozenset()
    cpu_info: str = ""
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    numa_topology: NUMATopology | None = None

    def supports(self, virt_type: str) -> bool:
        """Whether guests of this kind can run here."""
        return any(hypervisor == virt_type for _, hypervisor, _ in self.supported_instances)


def parse(xml: str) -> Capabilities:
    """Read the XML. ValueError: it is none, or not of a host."""
    try:
        root = ET.fromstring(xml)
    except ET.ParseError as error:
        raise ValueError(f"the capabilities are no XML: {error}") from error
    host = root.find("host")
    if host is None:
        raise ValueError("the capabilities have no host")
    cells = host.findall("topology/cells/cell")
    cpu = host.find("cpu")
    return Capabilities(
        arch=canonical_arch(host.findtext("cpu/arch", "")),
        cpus=frozenset(int(one.get("id", "0")) for cell in cells for one in cell.findall("cpus/cpu")),
        cpu_info="" if cpu is None else json.dumps(_cpu_info(cpu, len(cells)), sort_keys=True),
        supported_instances=tuple(dict.fromkeys(_supported(root))),
        numa_topology=NUMATopology(tuple(_cell(cell) for cell in cells)) if cells else None,
    )


def canonical_arch(name: str) -> str:
    """Nova's name of an architecture."""
    return _ARCHES.get(name.lower(), name.lower())


def _cpu_info(cpu: ET.Element, cells: int) -> dict[str, Any]:
    topology = cpu.find("topology")
    counts = {} if topology is None else {key: int(topology.get(key, "1")) for key in ("sockets", "cores", "threads")}
    return {
        "arch": canonical_arch(cpu.findtext("arch", "")),
        "model": cpu.findtext("model", ""),
        "vendor": cpu.findtext("vendor", ""),
        "topology": {"cells": cells or 1, **counts},
        "features": sorted({feature.get("name", "") for feature in cpu.findall("feature")}),
    }


def _supported(root: ET.Element) -> Iterator[tuple[str, str, str]]:
    for guest in root.findall("guest"):
        mode = guest.findtext("os_type", "")
        for arch in guest.findall("arch"):
            for domain in arch.findall("domain"):
                yield canonical_arch(arch.get("name", "")), domain.get("type", ""), _VM_MODES.get(mode, mode)


def _cell(cell: ET.Element) -> NUMACell:
    """A cell whose CPUs serve shared and pinned guests alike. `socket` is None where its CPUs are on several."""
    cpus = cell.findall("cpus/cpu")
    members = frozenset(int(one.get("id", "0")) for one in cpus)
    siblings = {cpuset.parse(text) & members for one in cpus if (text := one.get("siblings"))}
    sockets = {one.get("socket_id") for one in cpus}
    socket = sockets.pop() if len(sockets) == 1 else None
    return NUMACell(
        id=int(cell.get("id", "0")),
        cpuset=members,
        pcpuset=members,
        memory=int(cell.findtext("memory", "0")) // 1024,
        siblings=tuple(sorted(siblings, key=sorted)),
        mempages=tuple(
            NUMAPages(size_kb=int(pages.get("size", "0")), total=int(pages.text or "0"))
            for pages in cell.findall("pages")
        ),
        socket=None if socket is None else int(socket),
    )


def with_cpus(topology: NUMATopology, shared: CPUs, dedicated: CPUs) -> NUMATopology:
    """The topology with only these CPUs for shared and for pinned guests; the host keeps the others for itself."""
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
