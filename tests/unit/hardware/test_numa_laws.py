"""What holds of every host and guest."""

import itertools

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minova.hardware.numa_counts import NUMBERS, CellCounts, accepts, counts_of, needs_of, refusal
from minova.hardware.numa_fit import NoFit, PciNeeds, cells_for, fit_topology, order_of
from minova.hardware.numa_usage import with_instance
from minova.hardware.pci_pools import cells_of, consumed, shortage
from minova.objects.hosts.numa import InstanceNUMATopology, NUMACell, NUMATopology, NUMATopologyLimits
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool
from tests.unit.hardware.guests import LIMITS, devices, guests, hosts, limits

Devices = tuple[tuple[PciDevicePool, ...], tuple[InstancePCIRequest, ...]]


@given(hosts(), guests(), limits, devices(), st.booleans())
def test_the_first_permutation_in_order_that_fits_is_the_answer(
    host: NUMATopology, guest: InstanceNUMATopology, limit: NUMATopologyLimits | None, near: Devices, packing: bool
) -> None:
    pci = PciNeeds(pools=near[0], requests=near[1])
    counts, needs = counts_of(host), needs_of(guest)
    cells = cells_for(host, counts, needs, limits=limit, pci=pci, packing=packing)
    order = order_of(host, counts, needs, pci=pci, packing=packing)
    first = next(
        (
            chosen
            for chosen in itertools.permutations(order, len(needs))
            if all(accepts(counts[index], need, limit) for index, need in zip(chosen, needs, strict=True))
            and fits_devices(host, guest, chosen, pci)
        ),
        None,
    )
    assert (None if isinstance(cells, NoFit) else cells) == first


def fits_devices(host: NUMATopology, guest: InstanceNUMATopology, chosen: tuple[int, ...], pci: PciNeeds) -> bool:
    cells = tuple(
        msgspec.structs.replace(cell, id=host.cells[index].id) for cell, index in zip(guest.cells, chosen, strict=True)
    )
    return shortage(pci.pools, pci.requests, cells_of(host, msgspec.structs.replace(guest, cells=cells))) is None


@given(hosts(), guests(), limits)
def test_what_came_and_went_leaves_the_host_as_it_was(
    host: NUMATopology, guest: InstanceNUMATopology, limit: NUMATopologyLimits | None
) -> None:
    answer = fit_topology(host, guest, limits=limit)
    if isinstance(answer, InstanceNUMATopology):
        assert with_instance(with_instance(host, answer), answer, -1) == host


@given(hosts(), st.lists(guests(), max_size=6))
def test_no_cpu_or_page_is_given_twice(host: NUMATopology, wanted: list[InstanceNUMATopology]) -> None:
    kept = []
    for guest in wanted:
        answer = fit_topology(host, guest, limits=LIMITS)
        if isinstance(answer, InstanceNUMATopology):
            before, host = host, with_instance(host, answer)
            check_taken(before, host, answer)
            kept.append(answer)
    for answer in kept:
        host = with_instance(host, answer, -1)


def check_taken(before: NUMATopology, after: NUMATopology, found: InstanceNUMATopology) -> None:
    was, now = ({cell.id: cell for cell in host.cells} for host in (before, after))
    assert len({cell.id for cell in found.cells}) == len(found.cells)
    for cell in found.cells:
        cpus = [cpu for _, cpu in cell.cpu_pinning] + sorted(cell.cpuset_reserved or ())
        assert len(set(cpus)) == len(cpus)
        assert not set(cpus) & was[cell.id].pinned_cpus
        assert set(cpus) <= now[cell.id].pinned_cpus <= was[cell.id].pcpuset
        assert {guest for guest, _ in cell.cpu_pinning} == cell.pcpuset
        if cell.pagesize:
            assert all(pages.free >= 0 for pages in now[cell.id].mempages if pages.size_kb == cell.pagesize)
        check_threads(was[cell.id], [cpu for _, cpu in cell.cpu_pinning], cell.cpu_thread_policy)


def check_threads(host: NUMACell, cpus: list[int], policy: str | None) -> None:
    used = [core for core in host.siblings if core & set(cpus)]
    if policy == "isolate":
        assert len(used) == len(cpus)
        assert not any(core & host.pinned_cpus for core in used)
    if policy == "require" and len(cpus) > 1:
        assert all(len(core - host.pinned_cpus) > 1 for core in used)


@given(st.lists(hosts(most=2), min_size=1, max_size=6), guests(), limits)
def test_a_column_of_hosts_and_each_host_agree(
    clouds: list[NUMATopology], guest: InstanceNUMATopology, limit: NUMATopologyLimits | None
) -> None:
    counts = [counts_of(host)[0] for host in clouds]
    sizes = {size for cell in counts for size in cell.pages}
    column = CellCounts(
        **{name: np.array([getattr(cell, name) for cell in counts]) for name in NUMBERS},
        pages={size: np.array([cell.pages.get(size, -1) for cell in counts]) for size in sizes},
    )
    for need in needs_of(guest):
        each = [bool(accepts(cell, need, limit)) for cell in counts]
        assert np.broadcast_to(accepts(column, need, limit), len(counts)).tolist() == each
        assert [refusal(cell, need, limit) is None for cell in counts] == each


@given(devices())
def test_devices_are_consumed_exactly_or_not_at_all(near: Devices) -> None:
    pools, requests = near
    if shortage(pools, requests) is None:
        left = consumed(pools, requests)
        taken = sum(pool.count for pool in pools) - sum(pool.count for pool in left)
        assert taken == sum(request.count for request in requests)
        assert all(pool.count >= 0 for pool in left)


@given(hosts(), guests(), devices())
def test_a_host_that_fits_with_its_devices_can_give_them(
    host: NUMATopology, guest: InstanceNUMATopology, near: Devices
) -> None:
    pools, requests = near
    answer = fit_topology(host, guest, limits=LIMITS, pci=PciNeeds(pools=pools, requests=requests))
    if isinstance(answer, InstanceNUMATopology):
        left = consumed(pools, requests, cells_of(host, answer))
        assert sum(pool.count for pool in left) <= sum(pool.count for pool in pools)
