"""Hosts and guests in few words, and Hypothesis strategies for them."""

from typing import Any

from hypothesis import strategies as st

from minova.objects.hosts.numa import (
    CPUs,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPages,
    NUMATopology,
    NUMATopologyLimits,
)
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool

LIMITS = NUMATopologyLimits(cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0)


def cpus(*numbers: int) -> CPUs:
    return frozenset(numbers)


def cell(index: int = 0, *, cores: int = 4, threads: int = 2, memory: int = 4096, **changes: Any) -> NUMACell:
    """A cell of so many cores, numbered on from those of the cells before it; its CPUs serve all guests."""
    first = index * cores * threads
    siblings = [frozenset(range(start, start + threads)) for start in range(first, first + cores * threads, threads)]
    members = frozenset().union(*siblings)
    plain: dict[str, Any] = {
        "id": index,
        "cpuset": members,
        "pcpuset": members,
        "memory": memory,
        "siblings": tuple(siblings),
    }
    return NUMACell(**(plain | changes))


def host(*cells: NUMACell) -> NUMATopology:
    return NUMATopology(cells)


def pages(**by_name: int) -> tuple[NUMAPages, ...]:
    """`small`, `large` and `huge`: how many free pages of 4 KiB, 2 MiB and 1 GiB."""
    sizes = {"small": 4, "large": 2048, "huge": 1048576}
    return tuple(NUMAPages(size_kb=sizes[name], total=total) for name, total in by_name.items())


def pinned(count: int = 2, index: int = 0, *, start: int = 0, memory: int = 1024, **changes: Any) -> InstanceNUMACell:
    plain: dict[str, Any] = {"id": index, "pcpuset": frozenset(range(start, start + count)), "memory": memory}
    return InstanceNUMACell(**(plain | {"cpu_policy": "dedicated"} | changes))


def shared(count: int = 2, index: int = 0, *, start: int = 0, memory: int = 1024, **changes: Any) -> InstanceNUMACell:
    plain: dict[str, Any] = {"id": index, "cpuset": frozenset(range(start, start + count)), "memory": memory}
    return InstanceNUMACell(**(plain | changes))


def guest(*cells: InstanceNUMACell, emulator: str | None = None) -> InstanceNUMATopology:
    return InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator)


def pool(count: int = 1, node: int | None = None, product: str = "1572", **changes: Any) -> PciDevicePool:
    return PciDevicePool(vendor_id="8086", product_id=product, count=count, numa_node=node, **changes)


def pci_request(count: int = 1, policy: str | None = None, **spec: str) -> InstancePCIRequest:
    pairs = tuple((spec or {"vendor_id": "8086"}).items())
    return InstancePCIRequest(count=count, spec=(pairs,), numa_policy=policy)


# -- any of them -------------------------------------------------------------------------------------------------------


@st.composite
def hosts(draw: st.DrawFn, most: int = 4) -> NUMATopology:
    threads = draw(st.sampled_from([1, 2, 4]))
    cores = draw(st.integers(1, 4))
    apart = draw(st.booleans())
    cells = []
    for index in range(draw(st.integers(1, most))):
        plain = cell(index, cores=cores, threads=threads, memory=draw(st.sampled_from([1024, 4096, 8192])))
        own = frozenset().union(*plain.siblings[: cores // 2]) if apart else plain.pcpuset
        cells.append(
            cell(
                index,
                cores=cores,
                threads=threads,
                memory=plain.memory,
                cpuset=plain.cpuset - own if apart else plain.cpuset,
                pcpuset=own,
                pinned_cpus=draw(st.frozensets(st.sampled_from(sorted(own)))) if own else cpus(),
                cpu_usage=draw(st.integers(0, 6)),
                memory_usage=draw(st.sampled_from([0, 512, 2048])),
                socket=draw(st.sampled_from([0, 1, None])),
                mempages=draw(st.sampled_from([(), pages(small=500_000), pages(small=300_000, large=700, huge=1)])),
            )
        )
    return host(*cells)


@st.composite
def guests(draw: st.DrawFn, most: int = 3) -> InstanceNUMATopology:
    policy = draw(st.sampled_from([None, "shared", "dedicated", "dedicated", "mixed"]))
    plain: dict[str, Any] = {
        "cpu_policy": policy,
        "pagesize": draw(st.sampled_from([None, None, -1, -2, -3, 4, 2048, 1048576])),
        "cpu_thread_policy": draw(st.sampled_from([None, "prefer", "isolate", "require"])) if policy else None,
    }
    cells = []
    start = 0
    for index in range(draw(st.integers(1, most))):
        members = range(start, start + draw(st.integers(1, 4)))
        start = members.stop
        own = {"dedicated": len(members), "mixed": draw(st.integers(0, len(members)))}.get(policy or "", 0)
        cells.append(
            InstanceNUMACell(
                id=index,
                cpuset=frozenset(members[own:]),
                pcpuset=frozenset(members[:own]),
                memory=draw(st.sampled_from([256, 512, 1024])),
                **plain,
            )
        )
    pins = policy in ("dedicated", "mixed")
    return guest(*cells, emulator=draw(st.sampled_from([None, "share", "isolate"])) if pins else None)


limits = st.sampled_from([None, LIMITS, NUMATopologyLimits(cpu_allocation_ratio=1.0, ram_allocation_ratio=1.5)])


@st.composite
def devices(draw: st.DrawFn) -> tuple[tuple[PciDevicePool, ...], tuple[InstancePCIRequest, ...]]:
    kinds = st.sampled_from([("1572", "type-PCI"), ("154c", "type-VF"), ("1572", "type-PF")])
    pools = []
    for _ in range(draw(st.integers(0, 4))):
        product, dev_type = draw(kinds)
        node = draw(st.sampled_from([None, 0, 1, 2]))
        pools.append(pool(draw(st.integers(0, 3)), node, product, dev_type=dev_type))
    requests = [
        pci_request(
            draw(st.integers(1, 3)),
            draw(st.sampled_from([None, "required", "preferred", "legacy", "socket"])),
            product_id=draw(kinds)[0],
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    return tuple(pools), tuple(requests)
