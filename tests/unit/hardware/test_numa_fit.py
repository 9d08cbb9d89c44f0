"""Which guests fit which cells, and with which CPUs."""

from typing import Any

import pytest

from minova.hardware.numa_fit import NoFit, PciNeeds, fit_topology
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopology, NUMATopologyLimits
from tests.unit.hardware.guests import LIMITS, cell, cpus, guest, host, pages, pci_request, pinned, pool, shared

TWO = host(cell(0), cell(1))


def fit(
    on: NUMATopology, wanted: InstanceNUMATopology, limits: NUMATopologyLimits | None = LIMITS, **more: Any
) -> InstanceNUMATopology | NoFit:
    return fit_topology(on, wanted, limits=limits, **more)


def host_cells_of(found: InstanceNUMATopology | NoFit) -> list[int] | None:
    return None if isinstance(found, NoFit) else [cell.id for cell in found.cells]


# (what, host, guest, the reason or None)
CASES: list[tuple[str, NUMATopology, InstanceNUMATopology, str | None]] = [
    ("one shared cell", TWO, guest(shared()), None),
    ("as many cells as the host", TWO, guest(shared(), shared(index=1, start=2)), None),
    ("more cells than the host", TWO, guest(shared(), shared(), shared()), "NUMA cells 2 < requested 3"),
    ("shared CPUs up to the limit", host(cell(cpu_usage=30)), guest(shared()), None),
    (
        "shared CPUs over the limit",
        host(cell(cpu_usage=31)),
        guest(shared()),
        "shared CPUs under the limit 32 < requested 33",
    ),
    ("no guest overcommits against itself", host(cell()), guest(shared(9)), "shared CPUs 8 < requested 9"),
    ("memory up to the limit", host(cell(memory_usage=3072)), guest(shared()), None),
    (
        "memory over the limit",
        host(cell(memory_usage=3073)),
        guest(shared()),
        "memory under the limit (MB) 4096 < requested 4097",
    ),
    ("a guest larger than the cell", host(cell()), guest(shared(memory=4097)), "memory under the limit"),
    ("pinned CPUs all free", host(cell()), guest(pinned(8)), None),
    ("a pinned CPU too many", host(cell()), guest(pinned(9)), "free pinned CPUs 8 < requested 9"),
    ("free CPUs are enough", host(cell(pinned_cpus=cpus(0, 2, 4, 6))), guest(pinned(4)), None),
    ("pinned CPUs are gone", host(cell(pinned_cpus=cpus(0, 2, 4, 6))), guest(pinned(5)), "free pinned CPUs 4 < requ"),
    ("pinned guests never overcommit memory", host(cell(memory_usage=3073)), guest(pinned()), "memory 1023 MB < req"),
    ("no CPU is set apart", host(cell(pcpuset=cpus())), guest(pinned()), "free pinned CPUs 0 < requested 2"),
    ("shared guests have no CPU", host(cell(cpuset=cpus())), guest(shared()), "shared CPUs 0 < requested 2"),
    # thread policies
    ("prefer takes single threads", host(cell(pinned_cpus=cpus(0, 2, 4, 6))), guest(pinned(4)), None),
    ("require takes siblings", host(cell()), guest(pinned(4, cpu_thread_policy="require")), None),
    (
        "require refuses single threads",
        host(cell(pinned_cpus=cpus(0, 2, 4, 6))),
        guest(pinned(2, cpu_thread_policy="require")),
        "CPUs on cores with two free threads 0 < requested 2",
    ),
    (
        "require without threads",
        host(cell(threads=1, cores=8)),
        guest(pinned(2, cpu_thread_policy="require")),
        "CPUs on cores with two free threads 0",
    ),
    ("isolate takes whole cores", host(cell()), guest(pinned(4, cpu_thread_policy="isolate")), None),
    (
        "isolate needs one core for each CPU",
        host(cell()),
        guest(pinned(5, cpu_thread_policy="isolate")),
        "whole cores 4 < requested 5",
    ),
    (
        "isolate refuses half cores",
        host(cell(pinned_cpus=cpus(0))),
        guest(pinned(4, cpu_thread_policy="isolate")),
        "whole cores 3 < requested 4",
    ),
    ("isolate without threads", host(cell(threads=1)), guest(pinned(4, cpu_thread_policy="isolate")), None),
    (
        "isolate where CPUs are set apart and have threads",
        host(cell(cpuset=cpus())),
        guest(pinned(cpu_thread_policy="isolate")),
        "whole cores 0 < requested 2",
    ),
    (
        "isolate of a cell without pinned CPUs",
        host(cell()),
        guest(shared(cpu_policy="mixed", cpu_thread_policy="isolate")),
        "pinned CPUs of the guest's cell 0 < requested 1",
    ),
    # emulator threads
    ("emulator threads share", host(cell()), guest(pinned(8), emulator="share"), None),
    ("isolated emulator threads", host(cell()), guest(pinned(7), emulator="isolate"), None),
    (
        "isolated emulator threads need a CPU more",
        host(cell()),
        guest(pinned(8), emulator="isolate"),
        "free pinned CPUs 8 < requested 9",
    ),
    (
        "isolated emulator threads beside isolated CPUs",
        host(cell()),
        guest(pinned(4, cpu_thread_policy="isolate"), emulator="isolate"),
        "cores with a free thread 4 < requested 5",
    ),
    (
        "isolated emulator threads stand beside cell 0 only",
        TWO,
        guest(pinned(7), pinned(8, 1, start=7), emulator="isolate"),
        None,
    ),
    # mixed
    ("mixed takes of both", host(cell()), guest(pinned(7, cpuset=cpus(7), cpu_policy="mixed")), None),
    (
        "mixed counts its shared CPUs",
        host(cell(cpu_usage=32)),
        guest(pinned(7, cpuset=cpus(7), cpu_policy="mixed")),
        "shared CPUs under the limit 32 < requested 33",
    ),
    (
        "mixed counts its pinned CPUs",
        host(cell()),
        guest(pinned(9, cpuset=cpus(9), cpu_policy="mixed")),
        "free pinned CPUs 8 < requested 9",
    ),
    # pages
    ("small pages", host(cell(mempages=pages(small=262144, large=1))), guest(shared(pagesize=-1)), None),
    (
        "too few small pages",
        host(cell(mempages=pages(small=262143, large=1000))),
        guest(shared(pagesize=-1)),
        "free pages (4 KiB: 1023 MB, 2048 KiB: 2000 MB) < requested 1024 MB of page size small",
    ),
    ("large pages", host(cell(mempages=pages(small=0, large=512))), guest(shared(pagesize=-2)), None),
    (
        "large is not small",
        host(cell(mempages=pages(small=10**6, large=511))),
        guest(shared(pagesize=-2)),
        "size large",
    ),
    ("one size is small", host(cell(mempages=pages(large=512))), guest(shared(pagesize=-2)), "page size large"),
    ("any takes small ones", host(cell(mempages=pages(small=10**6, large=511))), guest(shared(pagesize=-3)), None),
    ("any finds none", host(cell(mempages=pages(small=100, large=511))), guest(shared(pagesize=-3)), "page size any"),
    ("a size", host(cell(mempages=pages(small=0, large=512))), guest(shared(pagesize=2048)), None),
    ("a size that is not there", host(cell(mempages=pages(small=10**6))), guest(shared(pagesize=2048)), "2048 KiB"),
    ("a host that tells no pages", host(cell()), guest(shared(pagesize=4)), "free pages (none)"),
    (
        "pages are taken whole",
        host(cell(mempages=pages(small=0, huge=4))),
        guest(shared(memory=1536, pagesize=1048576)),
        "requested 1536 MB of page size 1048576 KiB",
    ),
    ("no size: the smallest, by their total", host(cell(mempages=pages(small=262144))), guest(shared()), None),
    ("no size, too few", host(cell(mempages=pages(small=262143))), guest(shared()), "memory 1023 MB < requested 1024"),
    (
        "no size, and the smallest cannot be divided",
        host(cell(mempages=pages(large=4000))),
        guest(shared(memory=1001)),
        "requested 1001 MB cannot be had in whole pages of 2048 KiB",
    ),
]


@pytest.mark.parametrize(("on", "wanted", "reason"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_fit(on: NUMATopology, wanted: InstanceNUMATopology, reason: str | None) -> None:
    answer = fit(on, wanted)
    if reason is None:
        assert isinstance(answer, InstanceNUMATopology), answer
    else:
        assert isinstance(answer, NoFit)
        assert reason in answer.reason


def test_without_limits_shared_guests_overcommit_as_they_like() -> None:
    full = host(cell(cpu_usage=100, memory_usage=4096))
    assert not fit(full, guest(shared()))
    assert fit(full, guest(shared()), limits=None)
    assert not fit(full, guest(pinned()), limits=None)


def test_a_limit_is_that_of_the_cell() -> None:
    wide = NUMATopologyLimits(cpu_allocation_ratio=16.0, ram_allocation_ratio=1.5)
    full = host(cell(cpu_usage=126, memory_usage=5120))
    assert fit(full, guest(shared()), limits=wide)
    assert not fit(full, guest(shared(3)), limits=wide)
    assert not fit(full, guest(shared(memory=1025)), limits=wide)


# (what, cells of the host, guest, packing, the chosen host cells)
ORDERS: list[tuple[str, NUMATopology, InstanceNUMATopology, bool, list[int]]] = [
    ("alike: the first", TWO, guest(pinned()), False, [0]),
    ("the one with more free CPUs", host(cell(0, pinned_cpus=cpus(0)), cell(1)), guest(pinned()), False, [1]),
    ("packing: with fewer", host(cell(0), cell(1, pinned_cpus=cpus(8))), guest(pinned()), True, [1]),
    ("the one with more free memory", host(cell(0, memory_usage=1), cell(1)), guest(pinned()), False, [1]),
    ("packing: with less", host(cell(0), cell(1, memory_usage=1)), guest(pinned()), True, [1]),
    (
        "CPUs come before memory",
        host(cell(0, pinned_cpus=cpus(0)), cell(1, memory_usage=1)),
        guest(pinned()),
        False,
        [1],
    ),
    ("shared: the one with less CPU usage", host(cell(0, cpu_usage=1), cell(1)), guest(shared()), False, [1]),
    ("shared, packing: with more", host(cell(0), cell(1, cpu_usage=1)), guest(shared()), True, [1]),
    (
        "all cells in use: as they stand",
        host(cell(0, pinned_cpus=cpus(0)), cell(1)),
        guest(pinned(), pinned(2, 1, start=2)),
        False,
        [0, 1],
    ),
    (
        "the first permutation that fits",
        host(cell(0, pinned_cpus=cpus(0, 1, 2, 3)), cell(1)),
        guest(pinned(6), pinned(2, 1, start=6)),
        False,
        [1, 0],
    ),
]


@pytest.mark.parametrize(
    ("on", "wanted", "packing", "chosen"), [case[1:] for case in ORDERS], ids=[case[0] for case in ORDERS]
)
def test_order_of_cells(on: NUMATopology, wanted: InstanceNUMATopology, packing: bool, chosen: list[int]) -> None:
    assert host_cells_of(fit(on, wanted, packing=packing)) == chosen


def test_cells_with_devices_come_last_unless_devices_are_asked_for() -> None:
    pools = (pool(2, node=0),)
    assert host_cells_of(fit(TWO, guest(pinned()), pci=PciNeeds(pools=pools))) == [1]
    assert host_cells_of(fit(TWO, guest(pinned()), pci=PciNeeds(pools=pools, requests=(pci_request(),)))) == [0]
    assert host_cells_of(fit(TWO, guest(pinned()), pci=None)) == [0]


def test_a_device_ties_the_guest_to_its_cell() -> None:
    busy = host(cell(0, pinned_cpus=frozenset(range(8))), cell(1))
    for policy, fits in (("required", False), ("legacy", False), ("socket", False), ("preferred", True)):
        pci = PciNeeds(pools=(pool(1, node=0),), requests=(pci_request(1, policy),))
        assert bool(fit(busy, guest(pinned()), pci=pci)) is fits, policy
    one_socket = host(cell(0, pinned_cpus=frozenset(range(8)), socket=0), cell(1, socket=0))
    pci = PciNeeds(pools=(pool(1, node=0),), requests=(pci_request(1, "socket"),))
    assert host_cells_of(fit(one_socket, guest(pinned()), pci=pci)) == [1]


def test_the_reason_names_the_devices_when_it_is_for_them() -> None:
    answer = fit(TWO, guest(pinned()), pci=PciNeeds(pools=(), requests=(pci_request(2),)))
    assert isinstance(answer, NoFit)
    assert "PCI devices {'vendor_id': '8086'}" in answer.reason


def test_cpus_prefer_full_cores_and_emulator_threads_get_one_of_their_own() -> None:
    answer = fit(host(cell(pinned_cpus=cpus(0))), guest(pinned(4), emulator="isolate"))
    assert isinstance(answer, InstanceNUMATopology)
    (new_cell,) = answer.cells
    assert new_cell.cpu_pinning == ((0, 2), (1, 3), (2, 4), (3, 5))
    assert new_cell.cpuset_reserved == cpus(1)


def test_isolated_emulator_threads_take_a_whole_core_while_there_is_one() -> None:
    isolate = guest(pinned(2, cpu_thread_policy="isolate"), emulator="isolate")
    answer = fit(host(cell(pinned_cpus=cpus(0))), isolate)
    assert isinstance(answer, InstanceNUMATopology)
    assert (answer.cells[0].cpuset_reserved, answer.cells[0].reserved_alone) == (cpus(6), False)
    answer = fit(host(cell(pinned_cpus=cpus(0, 2))), isolate)
    assert isinstance(answer, InstanceNUMATopology)
    assert (answer.cells[0].cpuset_reserved, answer.cells[0].reserved_alone) == (cpus(1), True)


def test_each_cell_gets_the_largest_pages_of_the_cell_it_is_on() -> None:
    on = host(cell(0, mempages=pages(small=10**6, large=512)), cell(1, mempages=pages(small=10**6, huge=1)))
    answer = fit(on, guest(shared(pagesize=-3), shared(2, 1, start=2, pagesize=-3)))
    assert isinstance(answer, InstanceNUMATopology)
    assert [cell.pagesize for cell in answer.cells] == [2048, 1048576]


def test_eight_cells_that_do_not_fit_are_refused_without_trying_each_order() -> None:
    eight = host(*(cell(index) for index in range(8)))
    guest_cells = guest(*(pinned(2, index, start=2 * index) for index in range(7)), pinned(8, 7, start=14, memory=4097))
    assert not fit(eight, guest_cells)
    pci = PciNeeds(pools=(pool(1, node=9),), requests=(pci_request(1, "required"),))
    assert not fit(eight, guest(*(pinned(2, index, start=2 * index) for index in range(8))), pci=pci)
    full = host(*(cell(index) for index in range(7)), cell(7, pinned_cpus=frozenset(range(56, 64))))
    assert not fit(full, guest(*(pinned(2, index, start=2 * index) for index in range(8))))


def test_a_cell_without_siblings_has_no_threads() -> None:
    bare = host(cell(siblings=()))
    assert fit(bare, guest(pinned(8)))
    assert fit(bare, guest(pinned(8, cpu_thread_policy="isolate")))
    assert not fit(bare, guest(pinned(2, cpu_thread_policy="require")))


@pytest.mark.parametrize("policy", [None, "prefer", "isolate"])
def test_bug_cores_that_are_not_known_end_in_a_traceback(policy: str | None) -> None:
    """Nova writes one empty core for a host without siblings."""
    answers = [
        fit(host(cell(threads=1, siblings=siblings)), guest(pinned(2, cpu_thread_policy=policy)))
        for siblings in ((), (cpus(),))
    ]
    assert answers[0] == answers[1]
    assert host_cells_of(answers[0]) == [0]
