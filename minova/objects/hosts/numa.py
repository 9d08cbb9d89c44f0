"""NUMA topologies of hosts and of instances. Memory in MB, pages in KiB, CPUs by their numbers.

The names are Nova's. All objects are immutable and hashable: fitting and counting return new ones.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from minova.objects.hosts.bounds import (
    MAX_CELLS,
    MAX_CPU,
    PAGE_SIZES,
    Core,
    Count,
    CpuNumber,
    CpuSet,
    Figure,
    Line,
    PageSize,
    Usage,
)

CPUs = frozenset[int]
# Of one size on one cell, far above what fits into it.
PageCount = Annotated[int, Meta(ge=-(2**36), le=2**36)]


class NUMAPages(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """The pages of one size on one host cell. `used` and `reserved` count pages, not KiB."""

    size_kb: PageSize
    total: PageCount
    used: PageCount = 0
    reserved: PageCount = 0

    def __post_init__(self) -> None:
        if self.size_kb not in PAGE_SIZES:
            raise ValueError(f"{self.size_kb} KiB is no size of a page")

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved


class NUMACell(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """One cell of a host. `cpuset`: for shared CPUs; `pcpuset`: for pinned ones. Both are equal if neither
    `cpu_shared_set` nor `cpu_dedicated_set` is set. `siblings`: the sets of hardware threads that share a core.
    """

    id: Count
    cpuset: CpuSet = frozenset()
    pcpuset: CpuSet = frozenset()
    # A row that was written before cells were typed has no such field. The node's next audit writes the row again.
    memory: Count = 0
    cpu_usage: Usage = 0
    memory_usage: Usage = 0
    pinned_cpus: CpuSet = frozenset()
    siblings: Annotated[tuple[Core, ...], Meta(max_length=MAX_CPU + 1)] = ()
    mempages: Annotated[tuple[NUMAPages, ...], Meta(max_length=23)] = ()
    socket: Annotated[int, Meta(ge=-1, le=MAX_CPU)] | None = None


class NUMATopology(msgspec.Struct, frozen=True, cache_hash=True):
    """A host's cells, in the order of their ids."""

    cells: Annotated[tuple[NUMACell, ...], Meta(max_length=MAX_CELLS)] = ()


class NUMATopologyLimits(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """How far a cell may be overcommitted with shared CPUs and with memory that has no page size."""

    cpu_allocation_ratio: float
    ram_allocation_ratio: float


class InstanceNUMACell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell of a guest. In a request `id` is the guest's own; after fitting it is that of the host cell.

    `cpuset`: the guest's shared CPUs. `pcpuset`: its pinned CPUs.
    `pagesize`: in KiB, or one of Nova's words as a negative number: -1 small, -2 large, -3 any.
    `cpu_pinning`: (guest CPU, host CPU), sorted; empty until the cell is fitted.
    `cpuset_reserved`: host CPUs that are only for emulator threads.
    `reserved_alone`: thread policy isolate could not give these a whole core, and the other threads of their core
    belong to another guest.
    """

    id: Count
    cpuset: CpuSet = frozenset()
    pcpuset: CpuSet = frozenset()
    memory: Count
    pagesize: Figure | None = None
    cpu_policy: Line | None = None
    cpu_thread_policy: Line | None = None
    cpu_pinning: Annotated[tuple[tuple[CpuNumber, CpuNumber], ...], Meta(max_length=MAX_CPU + 1)] = ()
    cpuset_reserved: CpuSet | None = None
    reserved_alone: bool = False


class InstanceNUMATopology(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    cells: Annotated[tuple[InstanceNUMACell, ...], Meta(max_length=MAX_CELLS)]
    emulator_threads_policy: Line | None = None

    @property
    def unpinned(self) -> int:
        """The number of guest CPUs that are to be pinned and have no host CPU: all of them until the cells are fitted."""
        return sum(len(cell.pcpuset) - len(cell.cpu_pinning) for cell in self.cells)
