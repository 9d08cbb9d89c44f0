"""Which hosts' NUMA cells are alike to any guest: they differ at most in the numbers of the CPUs that are in use. Pure.

Cells give CPUs to guests core by core in their own order, so that it is the free threads of each core, in that order, by
which what one guest takes and the next one finds is decided.
"""

from typing import Any

from minova.objects.numa import NUMACell, NUMATopology


def equivalence_key(topology: NUMATopology) -> tuple[Any, ...]:
    """Equal for topologies that any guests fill in the same way."""
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
