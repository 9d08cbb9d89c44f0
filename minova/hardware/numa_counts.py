"""The free capacity of a host's cells as counts, and what the cells of a guest need.

Counts alone decide whether a guest cell fits a host cell, so `accepts` is exact, and so is `numa_fit`, which calls it.
Concrete CPUs are chosen last, for the chosen cells. The whole guest fits if each set of its cells is accepted by as
many cells of the host (Hall's theorem), unless PCI devices tie it to cells.

The functions compare with `>=`, `&` and `|` only: a `CellCounts` whose fields are NumPy columns (one number per host)
gives columns of booleans.

    cells of one host  --counts_of-->  Counts  --+
                                                 +-->  accepts(cell, need, limits): a bool or a column
    cells of one guest --needs_of--->  Needs   --+
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from oslo_utils import units

from minova.objects.hosts.numa import (
    CPUs,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMATopology,
    NUMATopologyLimits,
)

SMALL, LARGE, ANY = -1, -2, -3
PINNED = ("dedicated", "mixed")
SHARED = (None, "shared", "mixed")


class CellCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The free capacity of one host cell. Each field is an int, or a NumPy column with one number per host.

    `require_room`: the CPUs that thread policy require can use.
    `isolate_room`: the whole cores that isolate can use.
    `free_cores`: cores with a free thread.
    `smallest_kb`: the smallest page size. A cell without pages counts as one with pages of 1 KiB, so that
    `small_free_kb` and `small_total_kb` hold its memory, and has no `pages`.
    `pages`: free KiB by page size, -1 in a column for a host without that size.
    """

    cpus: Any
    cpu_usage: Any
    memory: Any
    memory_usage: Any
    pcpus: Any
    free_pcpus: Any
    require_room: Any
    isolate_room: Any
    free_cores: Any
    smallest_kb: Any
    small_free_kb: Any
    small_total_kb: Any
    pages: Mapping[int, Any]

    @property
    def free_memory(self) -> Any:
        return self.memory - self.memory_usage


# The columns of a cell: every field but the pages, of which there is one column per size.
NUMBERS = tuple(name for name in CellCounts.__struct_fields__ if name != "pages")

Counts = tuple[CellCounts, ...]


class CellRequirement(msgspec.Struct, frozen=True, cache_hash=True, kw_only=True):
    """What one guest cell needs: equal needs fit equal cells. `reserved`: CPUs for emulator threads."""

    cpus: int
    pcpus: int
    memory: int
    pagesize: int | None = None
    cpu_policy: str | None = None
    thread_policy: str | None = None
    reserved: int = 0

    @property
    def pinned(self) -> bool:
        return self.cpu_policy in PINNED


Needs = tuple[CellRequirement, ...]


def counts_of(topology: NUMATopology) -> Counts:
    """Returns the free capacity of each cell, in the topology's order."""
    return tuple(counts_of_cell(cell) for cell in topology.cells)


def counts_of_cell(cell: NUMACell) -> CellCounts:
    free = cell.pcpuset - cell.pinned_cpus
    threads = threads_per_core(cell)
    at_least = _cores_with(threads, [len(core) for core in free_cores(cell, free)])
    # Nova's isolate leaves a thread of each core idle only if shared and pinned CPUs are the same set (`vcpu_pin_set`).
    isolates = threads == 1 or cell.pcpuset == cell.cpuset
    sizes = {pages.size_kb: pages for pages in reversed(cell.mempages)}
    smallest = min(sizes, default=1)
    return CellCounts(
        cpus=len(cell.cpuset),
        cpu_usage=cell.cpu_usage,
        memory=cell.memory,
        memory_usage=cell.memory_usage,
        pcpus=len(cell.pcpuset),
        free_pcpus=len(free),
        require_room=max((number * cores for number, cores in at_least.items() if number > 1), default=0),
        isolate_room=at_least[threads] if isolates else 0,
        free_cores=at_least[1],
        smallest_kb=smallest,
        small_free_kb=sizes[smallest].free * smallest if sizes else (cell.memory - cell.memory_usage) * units.Ki,
        small_total_kb=sizes[smallest].total * smallest if sizes else cell.memory * units.Ki,
        pages={size: pages.free * size for size, pages in sorted(sizes.items())},
    )


def _cores_with(threads: int, free: list[int]) -> dict[int, int]:
    """Returns, for each number of threads up to `threads`, how many cores have at least that many free."""
    counts: dict[int, int] = {}
    cores = 0
    for number in range(threads, 0, -1):
        cores += free.count(number)
        counts[number] = cores
    return counts


def threads_per_core(cell: NUMACell) -> int:
    """Returns 1 if the cores are not known. Nova has one empty core then."""
    return max((len(core) for core in cell.siblings if core), default=1)


def free_cores(cell: NUMACell, free: CPUs) -> list[CPUs]:
    """Returns the free threads of each core, in the cell's order. A CPU without known siblings is a core of its own."""
    cores = [core & free for core in cell.siblings]
    if sum(map(len, cores)) < len(free):
        cores += [frozenset((cpu,)) for cpu in sorted(free.difference(*cores))]
    return cores


def needs_of(topology: InstanceNUMATopology) -> Needs:
    """Returns one need per guest cell. Isolated emulator threads take a CPU in addition to those of the guest's cell 0,
    as in Nova.
    """
    isolated = topology.emulator_threads_policy == "isolate"
    return tuple(_need(cell, reserved=int(isolated and index == 0)) for index, cell in enumerate(topology.cells))


def _need(cell: InstanceNUMACell, reserved: int) -> CellRequirement:
    return CellRequirement(
        cpus=len(cell.cpuset),
        pcpus=len(cell.pcpuset),
        memory=cell.memory,
        pagesize=cell.pagesize,
        cpu_policy=cell.cpu_policy,
        thread_policy=cell.cpu_thread_policy,
        reserved=reserved,
    )


Check = tuple[str, Any, Any]


def checks(cell: CellCounts, need: CellRequirement, limits: NUMATopologyLimits | None) -> Iterator[Check]:
    """Yields what must hold for the cell to accept the need: (what, have, need), cheap checks first."""
    if need.pinned:
        yield "free pinned CPUs", cell.free_pcpus, need.pcpus + need.reserved
        yield from _thread_checks(cell, need)
    if need.cpu_policy in SHARED:
        yield from _shared_checks(cell, need, limits)
    yield "free memory in pages (KiB)", page_room(cell, need), need.memory * units.Ki


def _thread_checks(cell: CellCounts, need: CellRequirement) -> Iterator[Check]:
    """In Nova a cell without pinned CPUs (of a mixed guest) can neither be isolated nor have additional emulator
    threads, and a cell without any CPU does not fit.
    """
    if not need.pcpus and (need.reserved or need.thread_policy == "isolate" or not need.cpus):
        yield "pinned CPUs of the guest's cell", 0 * cell.pcpus, 1
    if need.thread_policy == "isolate":
        yield "whole cores", cell.isolate_room, need.pcpus
        yield "cores with a free thread", cell.free_cores, need.pcpus + need.reserved
    elif need.thread_policy == "require":
        yield "CPUs on cores with two free threads", cell.require_room, max(need.pcpus, 1)


def _shared_checks(cell: CellCounts, need: CellRequirement, limits: NUMATopologyLimits | None) -> Iterator[Check]:
    yield "shared CPUs", cell.cpus, need.cpus
    if limits is not None:
        yield "shared CPUs under the limit", cell.cpus * limits.cpu_allocation_ratio, cell.cpu_usage + need.cpus
        ram_limit = cell.memory * limits.ram_allocation_ratio
        yield "memory under the limit (MB)", ram_limit, cell.memory_usage + need.memory


def page_room(cell: CellCounts, need: CellRequirement) -> Any:
    """Returns the need's memory in KiB if it fits here; else -1. Pages are taken whole.

    Without a page size the smallest pages are used. For shared CPUs all of them count, because shared CPUs may
    overcommit memory; for pinned CPUs only the free ones count.
    """
    memory_kb = need.memory * units.Ki
    if not need.pagesize:
        room = cell.small_free_kb if need.pinned else cell.small_total_kb
        return _enough(memory_kb, (room >= memory_kb) & (memory_kb % cell.smallest_kb == 0))
    fits: Any = False
    for size, free_kb in cell.pages.items():
        if memory_kb % size == 0 and need.pagesize in (size, SMALL, LARGE, ANY):
            fits = fits | ((free_kb >= memory_kb) & _serves(cell, size, need.pagesize))
    return _enough(memory_kb, fits)


def _enough(memory_kb: int, fits: Any) -> Any:
    return fits * (memory_kb + 1) - 1


def _serves(cell: CellCounts, size: int, pagesize: int) -> Any:
    if pagesize == SMALL:
        return cell.smallest_kb == size
    if pagesize == LARGE:
        return cell.smallest_kb != size
    return True


def page_size_for(cell: CellCounts, need: CellRequirement) -> int | None:
    """Returns the page size that the need gets here, in KiB: the largest that fits. None if it requests none."""
    if not need.pagesize:
        return need.pagesize
    memory_kb = need.memory * units.Ki
    for size in sorted(cell.pages, reverse=True):
        if (
            need.pagesize in (size, SMALL, LARGE, ANY)
            and _serves(cell, size, need.pagesize)
            and cell.pages[size] >= memory_kb
            and memory_kb % size == 0
        ):
            return size
    return None


def accepts(cell: CellCounts, need: CellRequirement, limits: NUMATopologyLimits | None) -> Any:
    """Whether the cell accepts the need: a bool, or a column of bools."""
    verdict: Any = True
    for _, have, required in checks(cell, need, limits):
        verdict = verdict & (have >= required)
        if verdict is False:
            break
    return verdict


def refusal(cell: CellCounts, need: CellRequirement, limits: NUMATopologyLimits | None) -> str | None:
    """Returns the first thing that the cell lacks, with its numbers, or None."""
    for what, have, required in checks(cell, need, limits):
        if not have >= required:
            if what.startswith("free memory in pages"):
                return page_refusal(cell, need)
            return f"{what} {have:g} < requested {required:g}"
    return None


def page_refusal(cell: CellCounts, need: CellRequirement) -> str:
    """Returns why the cell's memory is not suitable."""
    if need.pagesize:
        size_text = {SMALL: "small", LARGE: "large", ANY: "any"}.get(need.pagesize, f"{need.pagesize} KiB")
        free = ", ".join(f"{size} KiB: {free_kb // units.Ki} MB" for size, free_kb in cell.pages.items()) or "none"
        return f"free pages ({free}) < requested {need.memory} MB of page size {size_text}"
    room = cell.small_free_kb if need.pinned else cell.small_total_kb
    if room < need.memory * units.Ki:
        return f"memory {room // units.Ki} MB < requested {need.memory} MB"
    return f"requested {need.memory} MB cannot be had in whole pages of {cell.smallest_kb} KiB"
