"""The sockets, cores and threads of guests: Nova's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minova.hardware import errors
from minova.hardware.guest.cpu_topology import CpuTopology, cpu_topology
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image_properties import typed


def topology(vcpus: int, specs: dict[str, str], properties: dict[str, str] | None = None) -> tuple[int, int, int]:
    flavor = Flavor(flavorid="1", name="m1", vcpus=vcpus, memory_mb=256, root_gb=1, extra_specs=specs)
    return tuple(cpu_topology(flavor, typed(properties or {})))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("vcpus", "specs", "properties", "chosen"),
    [
        (4, {}, {}, (4, 1, 1)),
        (1, {}, {}, (1, 1, 1)),
        (4, {"hw:cpu_sockets": "2"}, {}, (2, 2, 1)),
        (4, {"hw:cpu_threads": "2"}, {}, (2, 1, 2)),
        (4, {"hw:cpu_sockets": "1", "hw:cpu_cores": "2", "hw:cpu_threads": "2"}, {}, (1, 2, 2)),
        # Windows on a desktop uses two sockets at most.
        (8, {"hw:cpu_max_sockets": "2"}, {}, (2, 4, 1)),
        (7, {"hw:cpu_max_sockets": "2"}, {}, (1, 7, 1)),
        (8, {"hw:cpu_max_sockets": "2", "hw:cpu_max_cores": "2"}, {}, (2, 2, 2)),
        # A preference that does not divide the CPUs loses; what can be met of it is met.
        (6, {"hw:cpu_sockets": "4"}, {}, (6, 1, 1)),
        (6, {"hw:cpu_sockets": "4", "hw:cpu_cores": "3"}, {}, (2, 3, 1)),
        # One number of the image replaces all of the flavor.
        (8, {"hw:cpu_sockets": "2", "hw:cpu_cores": "2", "hw:cpu_threads": "2"}, {"hw_cpu_sockets": "4"}, (4, 2, 1)),
        # A maximum of the image below the flavor's preference drops that.
        (8, {"hw:cpu_sockets": "4"}, {"hw_cpu_max_sockets": "2"}, (2, 4, 1)),
        (8, {"hw:cpu_max_sockets": "4"}, {"hw_cpu_max_sockets": "2"}, (2, 4, 1)),
    ],
)
def test_the_best_topology(
    vcpus: int, specs: dict[str, str], properties: dict[str, str], chosen: tuple[int, int, int]
) -> None:
    assert topology(vcpus, specs, properties) == chosen


@pytest.mark.parametrize(
    ("specs", "properties", "error", "keys"),
    [
        (
            {"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "1"},
            {},
            errors.ImageVCPULimitsRangeImpossible,
            "hw:cpu_max_sockets.* 1:1:1: no topology within them has 4 CPUs",
        ),
        (
            {"hw:cpu_max_sockets": "2"},
            {"hw_cpu_max_sockets": "4"},
            errors.ImageVCPULimitsRangeExceeded,
            "hw_cpu_max_sockets.* 4:0:0: the flavor allows 2:0:0",
        ),
        (
            {"hw:cpu_max_cores": "1"},
            {"hw_cpu_cores": "2"},
            errors.ImageVCPUTopologyRangeExceeded,
            "hw_cpu_cores.* 0:2:0: flavor and image allow",
        ),
    ],
)
def test_contradictions_are_refused(
    specs: dict[str, str], properties: dict[str, str], error: type[Exception], keys: str
) -> None:
    with pytest.raises(error, match=keys):
        topology(4, specs, properties)


@given(st.integers(1, 64), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))
def test_a_topology_always_has_the_flavors_cpus(vcpus: int, sockets: int, cores: int, threads: int) -> None:
    preferred = CpuTopology(sockets, cores, threads)
    specs = {f"hw:cpu_{part}": str(number) for part, number in preferred._asdict().items() if number}
    chosen = topology(vcpus, specs)
    assert chosen[0] * chosen[1] * chosen[2] == vcpus
    if sockets * cores * threads == vcpus:
        assert chosen == preferred


@pytest.mark.parametrize(
    ("vcpus", "specs", "threads", "chosen"),
    [
        (4, {}, 0, (4, 1, 1)),
        (4, {}, 1, (4, 1, 1)),
        (4, {}, 2, (2, 1, 2)),
        (4, {"hw:cpu_sockets": "1"}, 2, (1, 2, 2)),
        (4, {"hw:cpu_threads": "1"}, 2, (4, 1, 1)),
        (6, {}, 4, (2, 1, 3)),
        (4, {"hw:cpu_max_threads": "1"}, 2, (4, 1, 1)),
        # A preference beyond the maximum of another part is dropped as a whole.
        (4, {"hw:cpu_sockets": "4", "hw:cpu_threads": "1", "hw:cpu_max_sockets": "2"}, 2, (2, 1, 2)),
    ],
)
def test_a_pinned_guest_sees_the_threads_of_its_cores(
    vcpus: int, specs: dict[str, str], threads: int, chosen: tuple[int, int, int]
) -> None:
    flavor = Flavor(flavorid="1", name="m1", vcpus=vcpus, memory_mb=256, root_gb=1, extra_specs=specs)
    assert tuple(cpu_topology(flavor, {}, pinned_threads=threads)) == chosen
