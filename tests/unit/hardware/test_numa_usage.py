"""What a guest takes from its cells."""

from typing import Any

import msgspec
import pytest

from minova.hardware import errors
from minova.hardware.numa_usage import with_instance
from minova.objects.hosts.numa import InstanceNUMACell, NUMACell
from tests.unit.hardware.guests import cell, cpus, guest, host, pages, pinned, shared


def cell_with(before: NUMACell, one: InstanceNUMACell, sign: int = 1) -> NUMACell:
    (used_cell,) = with_instance(host(before), guest(one), sign).cells
    return used_cell


def pinned_on(one: InstanceNUMACell, *numbers: int, **changes: Any) -> InstanceNUMACell:
    pins = tuple(zip(sorted(one.pcpuset), numbers, strict=True))
    return msgspec.structs.replace(one, cpu_pinning=pins, **changes)


def test_shared_cpus_and_memory_are_counted() -> None:
    used_cell = cell_with(cell(cpu_usage=3, memory_usage=100), shared())
    assert (used_cell.cpu_usage, used_cell.memory_usage, used_cell.pinned_cpus) == (5, 1124, cpus())


def test_pinned_cpus_are_taken_and_shared_ones_of_a_mixed_guest_counted() -> None:
    mixed = pinned_on(pinned(2, cpuset=cpus(2), cpu_policy="mixed"), 4, 5, cpuset_reserved=cpus(6))
    used_cell = cell_with(cell(pinned_cpus=cpus(0)), mixed)
    assert (used_cell.cpu_usage, used_cell.pinned_cpus) == (1, cpus(0, 4, 5, 6))


def test_isolate_takes_the_other_threads_too() -> None:
    isolated = pinned_on(pinned(2, cpu_thread_policy="isolate"), 0, 2, cpuset_reserved=cpus(4))
    assert cell_with(cell(), isolated).pinned_cpus == cpus(0, 1, 2, 3, 4, 5)


def test_emulator_threads_on_another_guests_core_take_and_leave_their_own_thread_only() -> None:
    isolated = pinned_on(pinned(1, cpu_thread_policy="isolate"), 0, cpuset_reserved=cpus(3), reserved_alone=True)
    before = cell(pinned_cpus=cpus(2))
    taken = cell_with(before, isolated)
    assert taken.pinned_cpus == cpus(0, 1, 2, 3)
    assert cell_with(taken, isolated, -1) == before


def test_pages_of_the_guests_size_or_the_smallest() -> None:
    before = cell(mempages=pages(small=10**6, large=1000))
    assert [page_pool.used for page_pool in cell_with(before, shared()).mempages] == [262144, 0]
    assert [page_pool.used for page_pool in cell_with(before, shared(pagesize=2048)).mempages] == [0, 512]
    assert cell_with(cell(), shared()).mempages == ()


def test_other_cells_are_left_alone() -> None:
    both = host(cell(0), cell(1))
    assert with_instance(both, guest(shared(id=1))).cells[0] is both.cells[0]
    assert with_instance(both, guest(shared(id=7))) == both


@pytest.mark.parametrize(
    ("kind", "sign", "before"),
    [
        (errors.CPUPinningUnknown, 1, cell(pcpuset=cpus(0))),
        (errors.CPUPinningInvalid, 1, cell(pinned_cpus=cpus(1))),
        (errors.CPUUnpinningUnknown, -1, cell(pcpuset=cpus(0))),
        (errors.CPUUnpinningInvalid, -1, cell(pinned_cpus=cpus(1))),
    ],
)
def test_a_cpu_is_pinned_once_and_freed_once(kind: type[Exception], sign: int, before: NUMACell) -> None:
    with pytest.raises(kind, match=r"NUMA cell 0: CPUs \[0, 1\] are not all among"):
        cell_with(before, pinned_on(pinned(), 0, 1), sign)
