"""The sockets, cores and threads that a guest sees of its CPUs, by Nova's rules. Pure.

Flavor and image may prefer a topology (hw:cpu_sockets, hw_cpu_sockets, ...) and set maxima (hw:cpu_max_sockets, ...). Among the
topologies within the maxima the one that matches most of the preferred numbers wins; of equal ones that with the fewest threads, then
that with the most sockets.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from minova.hardware import errors
from minova.hardware.extra_specs import number
from minova.objects.catalogue.flavor import Flavor

# Nova's maximum if neither flavor nor image has one.
_UNLIMITED = 65536
PARTS = ("sockets", "cores", "threads")


class CpuTopology(NamedTuple):
    sockets: int
    cores: int
    threads: int

    def __str__(self) -> str:
        return ":".join(map(str, self))


def cpu_topology(flavor: Flavor, image: Mapping[str, Any], *, pinned_threads: int = 0) -> CpuTopology:
    """`image`: its properties, typed. `pinned_threads`: how many of the guest's CPUs are pinned on each core of the host; 0: it is not
    pinned. As in Nova, the guest then sees so many threads, or the next smaller number that is possible, or fewer that it prefers.
    Raises an error of `minova.hardware.errors` if maxima and preferences contradict each other, or no topology has the flavor's
    number of CPUs.
    """
    most = _maximum(flavor, image)
    preferred = _preferred(flavor, image, most)
    possible = _possible(flavor.vcpus, most)
    if pinned_threads:
        threads = min(preferred.threads or pinned_threads, pinned_threads)
        nearest = max((topology.threads for topology in possible if topology.threads <= threads), default=0)
        possible = [topology for topology in possible if topology.threads == nearest] or possible
    return max(
        possible,
        key=lambda topology: (_matches(topology, preferred), topology.sockets * topology.cores, topology.sockets),
    )


def _possible(vcpus: int, most: CpuTopology) -> list[CpuTopology]:
    divisors = [count for count in range(1, vcpus + 1) if vcpus % count == 0]
    possible = [
        CpuTopology(sockets, cores, vcpus // sockets // cores)
        for sockets in divisors
        if sockets <= most.sockets
        for cores in divisors
        if cores <= most.cores and vcpus % (sockets * cores) == 0 and vcpus // sockets // cores <= most.threads
    ]
    if not possible:
        raise errors.ImageVCPULimitsRangeImpossible(
            f"hw:cpu_max_sockets, hw:cpu_max_cores and hw:cpu_max_threads (of the image: hw_cpu_max_...) are {most}: no topology within "
            f"them has {vcpus} CPUs"
        )
    return possible


def _matches(topology: CpuTopology, preferred: CpuTopology) -> int:
    return sum(count == wish for count, wish in zip(topology, preferred, strict=True) if wish)


def _of_flavor(flavor: Flavor, kind: str) -> CpuTopology:
    return CpuTopology(
        *(number(f"hw:cpu_{kind}{part}", flavor.extra_specs.get(f"hw:cpu_{kind}{part}", 0)) for part in PARTS)
    )


def _of_image(image: Mapping[str, Any], kind: str) -> CpuTopology:
    return CpuTopology(*(image.get(f"hw_cpu_{kind}{part}", 0) for part in PARTS))


def _maximum(flavor: Flavor, image: Mapping[str, Any]) -> CpuTopology:
    """The image may only lower the flavor's maxima."""
    of_flavor, of_image = _of_flavor(flavor, "max_"), _of_image(image, "max_")
    if any(most and wish > most for most, wish in zip(of_flavor, of_image, strict=True)):
        raise errors.ImageVCPULimitsRangeExceeded(
            f"hw_cpu_max_sockets, hw_cpu_max_cores, hw_cpu_max_threads of the image are {of_image}: the flavor allows {of_flavor} "
            "(hw:cpu_max_sockets, hw:cpu_max_cores, hw:cpu_max_threads)"
        )
    return CpuTopology(*(image or flavor or _UNLIMITED for image, flavor in zip(of_image, of_flavor, strict=True)))


def _preferred(flavor: Flavor, image: Mapping[str, Any], most: CpuTopology) -> CpuTopology:
    """One number of the image replaces all of the flavor, and so does a maximum of the image below a number of the flavor."""
    of_flavor, of_image = _of_flavor(flavor, ""), _of_image(image, "")
    if any(wish > limit for wish, limit in zip(of_image, most, strict=True)):
        raise errors.ImageVCPUTopologyRangeExceeded(
            f"hw_cpu_sockets, hw_cpu_cores, hw_cpu_threads of the image are {of_image}: flavor and image allow {most} (hw:cpu_max_..., "
            "hw_cpu_max_...)"
        )
    if any(of_image):
        return of_image
    return (
        of_flavor if all(wish <= limit for wish, limit in zip(of_flavor, most, strict=True)) else CpuTopology(0, 0, 0)
    )
