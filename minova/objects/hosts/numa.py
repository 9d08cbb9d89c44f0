"""NUMA topologies of hosts and of instances. Memory in MB, pages in KiB, CPUs by their numbers.

The names are Nova's. All objects are immutable and hashable: fitting and counting return new ones.
"""

import msgspec

CPUs = frozenset[int]


class NUMAPages(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """The pages of one size on one host cell. `used` and `reserved` count pages, not KiB."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.reserved


class NUMACell(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """One cell of a host. `cpuset`: for shared CPUs; `pcpuset`: for pinned ones. Both are equal if neither
    `cpu_shared_set` nor `cpu_dedicated_set` is set. `siblings`: the sets of hardware threads that share a core.
    """

    id: int
    cpuset: CPUs = frozenset()
    pcpuset: CPUs = frozenset()
    # A row that was written before cells were typed has no such field. The node's next audit writes the row again.
    memory: int = 0
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: CPUs = frozenset()
    siblings: tuple[CPUs, ...] = ()
    mempages: tuple[NUMAPages, ...] = ()
    socket: int | None = None


class NUMATopology(msgspec.Struct, frozen=True, cache_hash=True):
    """A host's cells, in the order of their ids."""

    cells: tuple[NUMACell, ...] = ()


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

    id: int
    cpuset: CPUs = frozenset()
    pcpuset: CPUs = frozenset()
    memory: int
    pagesize: int | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None
    cpu_pinning: tuple[tuple[int, int], ...] = ()
    cpuset_reserved: CPUs | None = None
    reserved_alone: bool = False


class InstanceNUMATopology(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    cells: tuple[InstanceNUMACell, ...]
    emulator_threads_policy: str | None = None

    @property
    def unpinned(self) -> int:
        """The number of guest CPUs that are to be pinned and have no host CPU: all of them until the cells are fitted."""
        return sum(len(cell.pcpuset) - len(cell.cpu_pinning) for cell in self.cells)
