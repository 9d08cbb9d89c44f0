"""Finds hosts whose NUMA cells are equivalent for any guest: they differ at most in the numbers of the used CPUs. Pure.

Cells give CPUs to guests core by core in their own order. So the numbers of free threads of the cores, in that order,
determine what one guest takes and what the next one finds.
"""

from typing import Any

from minova.objects.hosts.numa import NUMACell, NUMATopology


def equivalence_key(topology: NUMATopology) -> tuple[Any, ...]:
    """Equal for topologies that any sequence of guests fills in the same way."""
    return tuple(map(_of_cell, topology.cells))


def _of_cell(cell: NUMACell) -> tuple[Any, ...]:
    free = cell.pcpuset - cell.pinned_cpus
    cores = tuple((len(core & free), len(core)) for core in cell.siblings)
    return (
        cell.id,
        cell.socket,
        len(cell.cpuset),
        len(cell.pcpuset),
        cell.pcpuset == cell.cpuset,
        cell.cpu_usage,
        cell.memory,
        cell.memory_usage,
        cell.mempages,
        max((size for _, size in cores), default=1),
        len(free),
        tuple(core for core in cores if core[0]),
    )
