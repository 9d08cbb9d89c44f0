"""Sizes of a flavor."""

import pytest

from minova.objects.catalogue.flavor import Flavor, LocalDisk, Overhead


@pytest.mark.parametrize(("swap", "disk_gb"), [(0, 13), (1, 14), (1024, 14), (1025, 15)])
def test_swap_is_rounded_up_to_whole_gb(swap: int, disk_gb: int) -> None:
    flavor = Flavor(flavorid="f", name="f", vcpus=1, memory_mb=1, root_gb=10, ephemeral_gb=3, swap=swap)
    assert flavor.disk_gb == disk_gb


def test_a_hypervisor_takes_nothing_unless_it_says_so() -> None:
    assert Overhead() == (0, 0, 0)


def test_a_disk_is_swap_by_its_format() -> None:
    assert LocalDisk(size_mb=1, guest_format="swap").is_swap
    assert not LocalDisk(size_mb=1).is_swap
