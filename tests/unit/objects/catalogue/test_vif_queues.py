"""Queues of interfaces: asked for by image or flavor, and bounded."""

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.guest_hardware import InvalidExtraSpec
from minova.objects.catalogue.vif_queues import FLAVOR_KEY, IMAGE_KEY, most_queues_of_kernel, queues_of

YES, NO = {FLAVOR_KEY: "true"}, {FLAVOR_KEY: "false"}
IMAGE_YES, IMAGE_NO = {IMAGE_KEY: "true"}, {IMAGE_KEY: "false"}


def flavor(extra_specs: dict[str, str], vcpus: int = 4) -> Flavor:
    return Flavor(flavorid="1", name="m1", vcpus=vcpus, memory_mb=64, root_gb=1, extra_specs=extra_specs)


@pytest.mark.parametrize(
    ("of_flavor", "of_image", "model", "queues"),
    [
        ({}, {}, "virtio", 1),
        (YES, {}, "virtio", 4),
        ({}, IMAGE_YES, "virtio", 4),
        (YES, IMAGE_YES, "virtio", 4),
        (NO, IMAGE_NO, "virtio", 1),
        ({FLAVOR_KEY: "1"}, {IMAGE_KEY: "yes"}, "virtio", 4),
        (YES, IMAGE_YES, "e1000", 1),
    ],
)
def test_who_asks(of_flavor: dict[str, str], of_image: dict[str, str], model: str, queues: int) -> None:
    assert queues_of(flavor(of_flavor), of_image, model, 8) == queues


def test_no_more_than_cpus_and_than_the_host_allows() -> None:
    assert [queues_of(flavor(YES, vcpus), {}, "virtio", 8) for vcpus in (1, 2, 8, 9, 300)] == [1, 2, 8, 8, 8]


@pytest.mark.parametrize(("of_flavor", "of_image"), [(YES, IMAGE_NO), (NO, IMAGE_YES)])
def test_a_contradiction_is_refused_where_it_matters(of_flavor: dict[str, str], of_image: dict[str, str]) -> None:
    with pytest.raises(InvalidExtraSpec, match=r"explicitly set to .* conflicting with the image"):
        queues_of(flavor(of_flavor, 2), of_image, "virtio", 8)
    assert queues_of(flavor(of_flavor, 1), of_image, "virtio", 8) == 1


@pytest.mark.parametrize(
    ("release", "most"), [("2.6.32-5", 1), ("3.10.0-1160.el7", 8), ("4.19.0", 256), ("6.1.0-18-amd64", 256), ("x", 256)]
)
def test_kernels(release: str, most: int) -> None:
    assert most_queues_of_kernel(release) == most


@pytest.mark.parametrize(("release", "most"), [("3.0", 8), ("4.0", 256), ("5.0", 256), ("2.0", 1), ("1.0", 1)])
def test_the_first_release_of_a_kernel_counts(release: str, most: int) -> None:
    assert most_queues_of_kernel(release) == most
