"""The cells that a guest requests through its flavor and its image. Pure.

A guest has cells if it asks for them (hw:numa_nodes), for pinned CPUs, for a page size or for persistent memory.
The checks come in Nova's order, so that a request with two faults gets the same error.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from minova.hardware import errors
from minova.hardware.cpu_policy import cpu_policy_of
from minova.hardware.extra_specs import cpus, number, size_kib
from minova.hardware.locked_memory import check_locked_memory
from minova.hardware.numa_counts import ANY, LARGE, PINNED, SMALL
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image_properties import numbered, typed
from minova.objects.hosts.numa import CPUs, InstanceNUMACell, InstanceNUMATopology

T = TypeVar("T")

_PAGE_WORDS = {"any": ANY, "large": LARGE, "small": SMALL}


def numa_constraints(flavor: Flavor, image_properties: Mapping[str, str]) -> InstanceNUMATopology | None:
    """Returns the guest's topology, not yet fitted; None for a guest without cells. Raises errors of
    `minova.hardware.errors` and InvalidImageProperty, which are all 400.
    """
    image = typed(image_properties)
    of_image = _Cells(
        cpus=_cpu_lists(image_properties, "hw_numa_cpus"), memory=_memories(image_properties, "hw_numa_mem")
    )
    policy = cpu_policy_of(flavor, image)
    nodes = _nodes(flavor, image.get("hw_numa_nodes"))
    pagesize = _pagesize(flavor, image.get("hw_mem_page_size"))
    check_locked_memory(flavor, image)
    if not (nodes or pagesize or _has_pmem(flavor) or policy.cpus in PINNED):
        return None
    all_cpus = frozenset(range(flavor.vcpus))
    pinned = all_cpus if policy.cpus == "dedicated" else policy.mask
    return InstanceNUMATopology(
        cells=tuple(
            InstanceNUMACell(
                id=index,
                cpuset=members - pinned,
                pcpuset=members & pinned,
                memory=memory,
                pagesize=pagesize,
                cpu_policy=policy.cpus,
                cpu_thread_policy=policy.threads,
            )
            for index, (members, memory) in enumerate(_divided(flavor, of_image, nodes or 1))
        ),
        emulator_threads_policy=policy.emulator_threads,
    )


class _Cells(msgspec.Struct, frozen=True, kw_only=True):
    """What an image sets for each cell: its CPUs and its memory (MB)."""

    cpus: list[CPUs]
    memory: list[int]


def _cpu_lists(properties: Mapping[str, str], prefix: str) -> list[CPUs]:
    return [cpus(f"{prefix}.{cell}", value) for cell, value in enumerate(numbered(properties, prefix))]


def _memories(properties: Mapping[str, str], prefix: str) -> list[int]:
    return [number(f"{prefix}.{cell}", value) for cell, value in enumerate(numbered(properties, prefix))]


def _nodes(flavor: Flavor, of_image: int | None) -> int | None:
    of_flavor = flavor.extra_specs.get("hw:numa_nodes")
    if of_flavor and of_image:
        raise errors.ImageNUMATopologyForbidden(
            f"hw_numa_nodes={of_image} of the image: the flavor has hw:numa_nodes={of_flavor} already"
        )
    nodes = of_flavor or of_image
    if nodes is None:
        return None
    # Nova accepts neither 02 nor +2.
    if not re.fullmatch(r"[1-9]\d*", str(nodes)):
        raise errors.InvalidNUMANodesNumber(f"hw:numa_nodes={nodes}: not a number above 0")
    return int(nodes)


def _pagesize(flavor: Flavor, of_image: str | None) -> int | None:
    """In KiB, or a word as its negative number. The image may choose if the flavor says any or large."""
    of_flavor = flavor.extra_specs.get("hw:mem_page_size")
    if not of_flavor:
        if of_image:
            raise errors.MemoryPageSizeForbidden(f"hw_mem_page_size={of_image} of the image: the flavor allows none")
        return None
    pagesize = _page_kib("hw:mem_page_size", of_flavor)
    if not of_image:
        return pagesize
    if pagesize not in (ANY, LARGE):
        raise errors.MemoryPageSizeForbidden(
            f"hw_mem_page_size={of_image} of the image: the flavor has hw:mem_page_size={of_flavor}"
        )
    return _page_kib("hw_mem_page_size", of_image)


def _page_kib(key: str, text: str) -> int:
    if text in _PAGE_WORDS:
        return _PAGE_WORDS[text]
    size = size_kib(text)
    if size is None or size < 0 or 0 < size < 1:
        raise errors.MemoryPageSizeInvalid(f"{key}={text}: neither small, large, any nor a size such as 2048 or 2MB")
    return int(size)


def _has_pmem(flavor: Flavor) -> bool:
    return any(label.strip() for label in flavor.extra_specs.get("hw:pmem", "").split(","))


def _divided(flavor: Flavor, image: _Cells, nodes: int) -> Sequence[tuple[CPUs, int]]:
    """Returns CPUs and memory (MB) of each cell."""
    members = _either("hw_numa_cpus", _cpu_lists(flavor.extra_specs, "hw:numa_cpus"), image.cpus)
    memory = _either("hw_numa_mem", _memories(flavor.extra_specs, "hw:numa_mem"), image.memory)
    if not members and not memory:
        return _evenly(flavor, nodes)
    if len(members) != nodes or len(memory) != nodes:
        raise errors.ImageNUMATopologyIncomplete(
            f"of {nodes} NUMA nodes hw:numa_cpus.N is given for {len(members)} and hw:numa_mem.N for {len(memory)}"
        )
    _check_division(flavor, members, memory)
    return list(zip(members, memory, strict=True))


def _either(name: str, of_flavor: list[T], of_image: list[T]) -> list[T]:
    if of_flavor and of_image:
        raise errors.ImageNUMATopologyForbidden(f"{name} of the image: the flavor divides its NUMA nodes already")
    return of_flavor or of_image


def _evenly(flavor: Flavor, nodes: int) -> Sequence[tuple[CPUs, int]]:
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise errors.ImageNUMATopologyAsymmetric(
            f"{flavor.vcpus} CPUs and {flavor.memory_mb} MB cannot be divided evenly among {nodes} NUMA nodes: "
            "give hw:numa_cpus.N and hw:numa_mem.N for each"
        )
    each = flavor.vcpus // nodes
    return [(frozenset(range(node * each, (node + 1) * each)), flavor.memory_mb // nodes) for node in range(nodes)]


def _check_division(flavor: Flavor, members: Sequence[CPUs], memory: Sequence[int]) -> None:
    unassigned = set(range(flavor.vcpus))
    for node, cell in enumerate(members):
        for cpu in sorted(cell):
            if cpu >= flavor.vcpus:
                raise errors.ImageNUMATopologyCPUOutOfRange(
                    f"hw:numa_cpus.{node} has CPU {cpu}: the flavor has CPUs 0 to {flavor.vcpus - 1}"
                )
            if cpu not in unassigned:
                raise errors.ImageNUMATopologyCPUDuplicates(f"hw:numa_cpus.{node} has CPU {cpu}, as another node has")
            unassigned.discard(cpu)
    if unassigned:
        raise errors.ImageNUMATopologyCPUsUnassigned(f"CPUs {sorted(unassigned)} are in no hw:numa_cpus.N")
    if sum(memory) != flavor.memory_mb or min(memory) < 0:
        raise errors.ImageNUMATopologyMemoryOutOfRange(
            f"hw:numa_mem.N add up to {sum(memory)} MB ({memory}): the flavor has {flavor.memory_mb} MB"
        )
