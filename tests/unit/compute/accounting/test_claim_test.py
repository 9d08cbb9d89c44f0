"""What fits on a node, in words."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.compute.accounting.claim_test import (
    NO_NUMA,
    NO_NUMA_WITH_PCI,
    NO_PCI,
    Demand,
    checks_of,
    fit_of,
    hardware_fit,
    reasons_against,
)
from minova.compute.accounting.node_usage import with_devices
from minova.compute.accounting.usage import Usage
from minova.hardware.pci_devices import settled
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.pci import InstancePCIRequest, PciDevice
from minova.objects.requests.request_spec import HostLimits
from tests.unit.hardware.guests import LIMITS, cell, cpus, guest, host, pci_request, pinned, pool, shared

NODE = ComputeNode(
    uuid="u",
    host="h",
    hypervisor_hostname="n",
    vcpus=8,
    vcpus_used=6,
    memory_mb=4096,
    memory_mb_used=3584,
    local_gb=100,
    local_gb_used=90,
)
WANTED = Usage(memory_mb=2048, disk_gb=20, vcpus=4)

CASES = [
    ("no limits", HostLimits(), None),
    ("just enough memory", HostLimits(memory_mb=3584 + 2048), None),
    ("too little memory", HostLimits(memory_mb=4096), "Free memory 512.00 MB < requested 2048 MB"),
    ("too little disk", HostLimits(disk_gb=100), "Free disk 10.00 GB < requested 20 GB"),
    ("too few vcpus", HostLimits(vcpu=8), "Free vcpu 2.00 VCPU < requested 4 VCPU"),
    ("ratios make limits above the total", HostLimits(vcpu=32), None),
    ("a limit with a fraction", HostLimits(memory_mb=5000.5), "Free memory 1416.50 MB < requested 2048 MB"),
    ("used beyond the limit already", HostLimits(memory_mb=3000), "Free memory -584.00 MB < requested 2048 MB"),
    ("a limit of zero is a limit", HostLimits(disk_gb=0), "Free disk -90.00 GB < requested 20 GB"),
    (
        "every reason is told",
        HostLimits(memory_mb=4096, disk_gb=100, vcpu=8),
        (
            "Free memory 512.00 MB < requested 2048 MB; Free disk 10.00 GB < requested 20 GB; "
            "Free vcpu 2.00 VCPU < requested 4 VCPU"
        ),
    ),
]


@pytest.mark.parametrize(("limits", "reasons"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_claim(limits: HostLimits, reasons: str | None) -> None:
    assert reasons_against(checks_of(NODE, WANTED, limits)) == reasons


def test_a_claim_is_logged_in_novas_words() -> None:
    memory, disk, _ = checks_of(NODE, WANTED, HostLimits(memory_mb=6000))
    assert memory.lines() == (
        "Total memory: 4096 MB, used: 3584.00 MB",
        "memory limit: 6000.00 MB, free: 2416.00 MB",
    )
    assert disk.lines()[1] == "disk limit not specified, defaulting to unlimited"


amounts = st.integers(0, 10_000)
limit = st.none() | st.floats(0, 20_000)


@given(
    used=st.tuples(amounts, amounts, amounts),
    wanted=st.builds(Usage, memory_mb=amounts, disk_gb=amounts, vcpus=amounts),
    limits=st.builds(HostLimits, memory_mb=limit, disk_gb=limit, vcpu=limit),
)
def test_what_fits_stays_within_every_limit_and_only_that_fits(
    used: tuple[int, int, int], wanted: Usage, limits: HostLimits
) -> None:
    node = ComputeNode(
        uuid="u",
        host="h",
        hypervisor_hostname="n",
        memory_mb_used=used[0],
        local_gb_used=used[1],
        vcpus_used=used[2],
    )
    after = (used[0] + wanted.memory_mb, used[1] + wanted.disk_gb, used[2] + wanted.vcpus)
    within = all(
        at_most is None or amount <= at_most
        for amount, at_most in zip(after, (limits.memory_mb, limits.disk_gb, limits.vcpu), strict=True)
    )
    assert (reasons_against(checks_of(node, wanted, limits)) is None) == within


FULL = cell(pinned_cpus=cpus(0, 1, 2, 3, 4, 5, 6, 7), cpu_usage=31)
# (what, cells, pools, guest, requests, the reasons, without what stands in brackets)
HARDWARE: list[tuple[str, Any, Any, Any, Any, list[str]]] = [
    ("a guest without cells", host(FULL), (), None, (), []),
    ("a guest that fits", host(cell()), (), guest(pinned()), (), []),
    ("a guest that does not", host(FULL), (), guest(pinned()), (), [NO_NUMA]),
    ("a node that tells no cells", None, (), guest(pinned()), (), []),
    ("devices", None, (pool(),), None, (pci_request(),), []),
    ("devices that are gone", None, (), None, (pci_request(),), [NO_PCI]),
    ("devices and cells", host(cell()), (pool(1, 0),), guest(pinned()), (pci_request(),), []),
    ("no cells, but devices", host(FULL), (pool(1, 0),), guest(pinned()), (pci_request(),), [NO_NUMA_WITH_PCI]),
    ("neither", host(FULL), (), guest(pinned()), (pci_request(),), [NO_NUMA_WITH_PCI, NO_PCI]),
    (
        "devices elsewhere",
        host(cell(0), cell(1)),
        (pool(1, 7),),
        guest(pinned()),
        (pci_request(1, "required"),),
        [NO_NUMA_WITH_PCI],
    ),
]


@pytest.mark.parametrize(
    ("cells", "pools", "wanted", "requests", "reasons"),
    [case[1:] for case in HARDWARE],
    ids=[case[0] for case in HARDWARE],
)
def test_cells_and_devices(cells: Any, pools: Any, wanted: Any, requests: Any, reasons: list[str]) -> None:
    node = msgspec.structs.replace(NODE, numa_topology=cells, pci_device_pools=pools)
    fit = hardware_fit(node, wanted, requests, HostLimits(numa_topology=LIMITS), packing=False)
    assert [reason.partition(" (")[0] for reason in fit.reasons] == reasons
    assert (fit.numa_topology is not None) is bool(wanted and cells and not reasons)


def test_without_limits_shared_cpus_are_not_limited() -> None:
    node = msgspec.structs.replace(NODE, numa_topology=host(FULL))
    assert hardware_fit(node, guest(shared()), (), HostLimits(numa_topology=LIMITS), packing=False).reasons
    assert not hardware_fit(node, guest(shared()), (), HostLimits(), packing=False).reasons


def test_reasons_of_cells_and_devices_join_the_others() -> None:
    node = msgspec.structs.replace(NODE, numa_topology=host(FULL))
    fit = hardware_fit(node, guest(pinned()), (pci_request(),), HostLimits(), packing=False)
    joined = reasons_against(checks_of(NODE, WANTED, HostLimits(memory_mb=4096)), fit.reasons)
    assert joined is not None
    assert [part.partition(" (")[0] for part in joined.split("; ")] == [
        "Free memory 512.00 MB < requested 2048 MB",
        NO_NUMA_WITH_PCI,
        NO_PCI,
    ]


@pytest.mark.parametrize("first", ["1572", "154c"])
def test_a_card_and_one_of_its_own_functions_are_not_both_to_be_had(first: str) -> None:
    """Each has a pool, and each pool has enough: only the devices tell."""
    card = PciDevice(address="0000:0a:00.0", vendor_id="8086", product_id="1572", dev_type="type-PF")
    function = PciDevice(
        address="0000:0a:02.0", vendor_id="8086", product_id="154c", dev_type="type-VF", parent_addr=card.address
    )
    requests = [
        InstancePCIRequest(count=1, spec=((("dev_type", device.dev_type), ("product_id", device.product_id)),))
        for device in sorted((card, function), key=lambda one: one.product_id != first)
    ]
    node = with_devices(NODE, settled([card, function]))
    demand = Demand(usage=Usage(memory_mb=1, disk_gb=1, vcpus=1), pci_requests=tuple(requests))
    fit = fit_of(node, demand, HostLimits(memory_mb=1), packing=False)
    assert fit.reason is not None
    short, pci = fit.reason.split("; ")
    assert short.startswith("Free memory")
    assert pci.startswith(f"{NO_PCI} (PCI devices ")
    assert fit.refused == ("memory", "pci")


@pytest.mark.parametrize(("requests", "refused"), [((pci_request(),), ("pci",)), ((), ())])
def test_devices_that_are_short_are_told_once(requests: tuple[InstancePCIRequest, ...], refused: tuple[str]) -> None:
    demand = Demand(usage=Usage(memory_mb=1, disk_gb=1, vcpus=1), pci_requests=requests)
    fit = fit_of(NODE, demand, HostLimits(), packing=False)
    assert (fit.refused, fit.devices) == (refused, {})
