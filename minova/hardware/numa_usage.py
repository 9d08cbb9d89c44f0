"""What a fitted guest takes from the cells of a host, and gives back. Pure."""

from collections.abc import Iterable

import msgspec
from oslo_utils import units

from minova.hardware import errors
from minova.hardware.numa_counts import PINNED
from minova.objects.hosts.numa import (
    CPUs,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPages,
    NUMATopology,
)


def with_instance(host: NUMATopology, instance: InstanceNUMATopology, sign: int = 1) -> NUMATopology:
    """Returns the host after a guest was added (`sign` 1) or removed (-1). Adding and then removing a guest restores
    the host.

    Raises CPUPinningInvalid or CPUPinningUnknown if the guest's CPUs are already pinned or do not exist; on removal
    CPUUnpinningInvalid or CPUUnpinningUnknown.
    """
    by_id: dict[int, list[InstanceNUMACell]] = {}
    for cell in instance.cells:
        by_id.setdefault(cell.id, []).append(cell)
    return NUMATopology(tuple(_changed(cell, by_id.get(cell.id, ()), sign) for cell in host.cells))


def _changed(host: NUMACell, guests: Iterable[InstanceNUMACell], sign: int) -> NUMACell:
    for guest in guests:
        host = msgspec.structs.replace(
            host,
            memory_usage=max(0, host.memory_usage + sign * guest.memory),
            cpu_usage=max(0, host.cpu_usage + sign * len(guest.cpuset)),
            mempages=_pages(host.mempages, guest, sign),
            pinned_cpus=_pinned(host, guest, sign),
        )
    return host


def _pages(mempages: tuple[NUMAPages, ...], guest: InstanceNUMACell, sign: int) -> tuple[NUMAPages, ...]:
    """A guest without a page size uses the smallest pages."""
    size = guest.pagesize or min((pages.size_kb for pages in mempages), default=0)
    return tuple(
        msgspec.structs.replace(pages, used=max(0, pages.used + sign * -(-guest.memory * units.Ki // size)))
        if pages.size_kb == size
        else pages
        for pages in mempages
    )


def _pinned(host: NUMACell, guest: InstanceNUMACell, sign: int) -> CPUs:
    if guest.cpu_policy not in PINNED:
        return host.pinned_cpus
    cpus = _cpus_of(host, guest)
    if sign > 0:
        _check(cpus <= host.pcpuset, errors.CPUPinningUnknown, host, cpus, host.pcpuset)
        _check(not cpus & host.pinned_cpus, errors.CPUPinningInvalid, host, cpus, host.pcpuset - host.pinned_cpus)
        return host.pinned_cpus | cpus
    _check(cpus <= host.pcpuset, errors.CPUUnpinningUnknown, host, cpus, host.pcpuset)
    _check(cpus <= host.pinned_cpus, errors.CPUUnpinningInvalid, host, cpus, host.pinned_cpus)
    return host.pinned_cpus - cpus


def _cpus_of(host: NUMACell, guest: InstanceNUMACell) -> CPUs:
    """Returns the host CPUs that the guest has for itself. With thread policy isolate this includes the other threads
    of their cores.
    """
    cpus = frozenset(cpu for _, cpu in guest.cpu_pinning)
    reserved = guest.cpuset_reserved or frozenset()
    if guest.cpu_thread_policy != "isolate":
        return cpus | reserved
    if guest.reserved_alone:
        return _with_siblings(host, cpus) | reserved
    return _with_siblings(host, cpus | reserved)


def _with_siblings(host: NUMACell, cpus: CPUs) -> CPUs:
    return cpus.union(*(core for core in host.siblings if cpus & core))


def _check(holds: bool, kind: type[Exception], host: NUMACell, cpus: CPUs, among: CPUs) -> None:
    if not holds:
        raise kind(f"NUMA cell {host.id}: CPUs {sorted(cpus)} are not all among {sorted(among)}")
