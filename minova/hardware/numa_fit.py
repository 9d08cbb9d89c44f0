"""Decides which cells of a host serve which cells of a guest, and with which CPUs.

`cells_for` decides the cells from counts alone, as the scheduler needs it for many hosts. `fit_topology` decides both.
Cells are tried in Nova's order (`order_of`). The result is the first permutation in that order in which every guest
cell is accepted by its host cell and the PCI devices are near. Nova iterates over the permutations; here the search
remembers which sets of used cells lead nowhere, so its steps are bounded by the number of sets of cells, not of
permutations. Unlike Nova it never changes the guest's cells during the search, so page size `any` or `large` becomes
that of the chosen cell.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from minova.hardware import pci_pools
from minova.hardware.numa_counts import (
    SHARED,
    CellCounts,
    CellRequirement,
    Counts,
    Needs,
    accepts,
    counts_of,
    free_cores,
    needs_of,
    page_size_for,
    refusal,
    threads_per_core,
)
from minova.objects.hosts.numa import (
    CPUs,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMATopology,
    NUMATopologyLimits,
)
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool


class NoFit(msgspec.Struct, frozen=True):
    """Why the guest does not fit."""

    reason: str

    def __bool__(self) -> bool:
        return False


class PciNeeds(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """The free devices of a host, and the guest's requests for devices.

    Pass the pools even if the guest requests no device: cells with devices are then tried last, and otherwise first.
    """

    pools: tuple[PciDevicePool, ...]
    requests: tuple[InstancePCIRequest, ...] = ()


def fit_topology(
    host: NUMATopology,
    guest_topology: InstanceNUMATopology,
    *,
    limits: NUMATopologyLimits | None,
    pci: PciNeeds | None = None,
    packing: bool = False,
) -> InstanceNUMATopology | NoFit:
    """Returns the guest's topology on this host: ids of host cells, page sizes, pinned and reserved CPUs; or why it
    does not fit.

    `limits` None: shared CPUs and memory are not limited (beyond what one guest may take of a cell).
    `packing`: [compute] packing_host_numa_cells_allocation_strategy: prefers the most used cells.
    """
    counts, needs = counts_of(host), needs_of(guest_topology)
    chosen = cells_for(host, counts, needs, limits=limits, pci=pci, packing=packing)
    if isinstance(chosen, NoFit):
        return chosen
    cells = (
        fitted(host.cells[index], counts[index], cell, need)
        for index, cell, need in zip(chosen, guest_topology.cells, needs, strict=True)
    )
    return msgspec.structs.replace(guest_topology, cells=tuple(cells))


def cells_for(
    host: NUMATopology,
    counts: Counts,
    needs: Needs,
    *,
    limits: NUMATopologyLimits | None,
    pci: PciNeeds | None = None,
    packing: bool = False,
) -> tuple[int, ...] | NoFit:
    """Returns for each guest cell the index of its host cell; or why there are none. `counts`: `counts_of(host)`."""
    if len(counts) < len(needs):
        return NoFit(f"NUMA cells {len(counts)} < requested {len(needs)}")
    if not needs:
        return NoFit("the guest has no NUMA cell")
    order = order_of(host, counts, needs, pci=pci, packing=packing)
    search = _Search(order=order, counts=counts, needs=needs, limits=limits, near=_near(host, pci))
    return search.first() or search.why_not()


def order_of(host: NUMATopology, counts: Counts, needs: Needs, *, pci: PciNeeds | None, packing: bool) -> Sequence[int]:
    """Returns the indexes of the host's cells in the order in which Nova tries them.

    The last sort has the highest priority: PCI devices, then free CPUs, then free memory. If all cells are used: the
    host's own order.
    """
    order: Sequence[int] = range(len(counts))
    if len(counts) == len(needs):
        return order
    order = sorted(order, key=lambda index: counts[index].free_memory, reverse=not packing)
    if needs[0].cpu_policy in SHARED[:2]:
        order = sorted(order, key=lambda index: counts[index].cpu_usage, reverse=packing)
    else:
        order = sorted(order, key=lambda index: counts[index].free_pcpus, reverse=not packing)
    if pci is not None and pci.pools:
        devices: Counter[int | None] = Counter()
        for pool in pci.pools:
            devices[pool.numa_node] += pool.count
        order = sorted(order, key=lambda index: devices[host.cells[index].id], reverse=bool(pci.requests))
    return order


def _near(host: NUMATopology, pci: PciNeeds | None) -> Callable[[Sequence[int]], str | None] | None:
    """Returns a function that checks the devices for a choice of cells: it returns a shortage, or None. Returns None if
    no device is requested.
    """
    if pci is None or not pci.requests:
        return None
    pools, requests = pci.pools, pci.requests
    sockets = pci_pools.sockets_of(host)
    nodes = {pool.numa_node for pool in pools}
    shortages: dict[tuple[frozenset[int], frozenset[int | None]], str | None] = {}

    def shortage(chosen: Sequence[int]) -> str | None:
        cells = [host.cells[index] for index in chosen]
        # Only the chosen cells with devices, and the sockets, matter.
        key = frozenset(cell.id for cell in cells if cell.id in nodes), frozenset(cell.socket for cell in cells)
        if key not in shortages:
            where = pci_pools.GuestCells(ids=frozenset(cell.id for cell in cells), sockets=sockets)
            shortages[key] = pci_pools.shortage(pools, requests, where)
        return shortages[key]

    return shortage


class _Search(msgspec.Struct, kw_only=True, dict=True):
    """Finds the first permutation of host cells. `order`: indexes of the host's cells, best first."""

    order: Sequence[int]
    counts: Counts
    needs: Needs
    limits: NUMATopologyLimits | None
    near: Callable[[Sequence[int]], str | None] | None
    dead: set[int] = msgspec.field(default_factory=set)

    @cached_property
    def accepting(self) -> dict[CellRequirement, tuple[int, ...]]:
        """Returns the host cells that accept each need, in order."""
        return {
            need: tuple(index for index in self.order if accepts(self.counts[index], need, self.limits))
            for need in dict.fromkeys(self.needs)
        }

    def first(self) -> tuple[int, ...] | None:
        if not all(self.accepting.values()):
            return None
        return self._beyond((), 0)

    def _beyond(self, chosen: tuple[int, ...], used: int) -> tuple[int, ...] | None:
        """Returns the first way to complete these cells; `used` is the same set as bits. Sets that lead nowhere are
        remembered.
        """
        if len(chosen) == len(self.needs):
            return chosen if self.near is None or self.near(chosen) is None else None
        for index in self.accepting[self.needs[len(chosen)]]:
            bit = 1 << index
            if used & bit or used | bit in self.dead:
                continue
            solution = self._beyond((*chosen, index), used | bit)
            if solution is not None:
                return solution
            self.dead.add(used | bit)
        return None

    def why_not(self) -> NoFit:
        """Returns the first need that no cell accepts, and what the cells lack for it; or why the
        devices do not fit.
        """
        for need, cells in self.accepting.items():
            if not cells:
                lacks = dict.fromkeys(refusal(self.counts[index], need, self.limits) or "" for index in self.order)
                return NoFit(f"no NUMA cell fits cell {self.needs.index(need)} of the guest: {'; '.join(lacks)}")
        if self.near is None:
            return NoFit(f"fewer NUMA cells fit the guest's than its {len(self.needs)}")
        return NoFit(self.near(self.order[: len(self.needs)]) or "no choice of NUMA cells is near the PCI devices")


def fitted(host: NUMACell, counts: CellCounts, cell: InstanceNUMACell, need: CellRequirement) -> InstanceNUMACell:
    """Returns the guest cell fitted to a host cell that accepts its need."""
    changed = msgspec.structs.replace(cell, id=host.id, pagesize=page_size_for(counts, need))
    if not need.pinned:
        return changed
    cores = free_cores(host, host.pcpuset - host.pinned_cpus)
    if cell.cpu_thread_policy == "isolate":
        return _isolated(changed, host, cores, need.reserved)
    cpus = _packed(cores, need.pcpus, require=cell.cpu_thread_policy == "require")
    chosen_cpus = set(cpus)
    other_cpus = [cpu for core in cores for cpu in sorted(core - chosen_cpus)]
    return _pinned(changed, cpus, other_cpus[: need.reserved])


def _packed(cores: Sequence[CPUs], count: int, *, require: bool) -> list[int]:
    """Returns `count` CPUs, with as many threads of each core as possible (Nova's order: fullest
    use of a core first).
    """
    threads_per_core = max(map(len, cores), default=0)
    for threads in range(threads_per_core, int(require), -1):
        usable = [sorted(core)[:threads] for core in cores if len(core) >= threads]
        if threads * len(usable) >= count:
            return [cpu for core in usable for cpu in core][:count]
    return [cpu for core in cores for cpu in sorted(core)][:count]


def _isolated(cell: InstanceNUMACell, host: NUMACell, cores: Sequence[CPUs], reserved: int) -> InstanceNUMACell:
    """Pins each CPU to a whole core of its own. Emulator threads get another free core, if there is one."""
    threads = threads_per_core(host)
    cpus = [min(core) for core in cores if len(core) == threads][: len(cell.pcpuset)]
    if not reserved:
        return _pinned(cell, cpus, ())
    whole_cores = [core for core in cores if core and min(core) not in cpus]
    unshared = [core for core in whole_cores if core in host.siblings]
    alone = msgspec.structs.replace(cell, reserved_alone=not unshared)
    return _pinned(alone, cpus, [min((unshared or whole_cores)[0])])


def _pinned(cell: InstanceNUMACell, cpus: Sequence[int], reserved: Sequence[int]) -> InstanceNUMACell:
    return msgspec.structs.replace(
        cell,
        cpu_pinning=tuple(zip(sorted(cell.pcpuset), cpus, strict=True)),
        cpuset_reserved=frozenset(reserved) or None,
    )
