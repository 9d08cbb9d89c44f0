"""Which images can be booted, and which flavors are too small for an image."""

from typing import Any

import msgspec
import pytest
from oslo_utils import units

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.catalogue.image_fitness import format_refused, unfit

NANO = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=128, root_gb=1)


def test_only_bare_containers() -> None:
    assert format_refused("raw", "bare") is None
    assert "'ova'" in str(format_refused("raw", "ova"))


@pytest.mark.parametrize(
    ("image", "flavor", "reasons"),
    [
        ({"virtual_size": units.Gi}, {}, ()),
        (
            {"virtual_size": units.Gi + 1},
            {},
            ("virtual size 1073741825 bytes > root disk 1 GB (1073741824 bytes)",),
        ),
        ({"virtual_size": 99 * units.Gi, "min_disk": 99}, {"root_gb": 0}, ()),
        ({"min_disk": 2}, {}, ("min_disk 2 GB > root disk 1 GB",)),
        ({"min_ram": 129}, {}, ("min_ram 129 MB > memory 128 MB",)),
        ({"min_ram": 128, "min_disk": 1}, {}, ()),
    ],
)
def test_an_image_fits_a_flavor_or_every_reason_is_said(
    image: dict[str, Any], flavor: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    size = msgspec.structs.replace(NANO, **flavor)
    assert unfit(Image(id="i", **image), size) == reasons


def test_the_size_found_outweighs_the_size_said() -> None:
    assert unfit(Image(id="i", virtual_size=1), NANO, 2 * units.Gi)


@pytest.mark.parametrize(("size", "fits"), [(64 * units.Mi, True), (64 * units.Mi + 1, False)])
def test_kernel_and_ramdisk_fit_the_memory_together(size: int, fits: bool) -> None:
    ramdisk = BootFile(id="r", size=64 * units.Mi)
    reasons = unfit(Image(id="i", kernel=BootFile(id="k", size=size), ramdisk=ramdisk), NANO)
    assert reasons == (() if fits else (f"kernel and ramdisk {size + 64 * units.Mi} bytes > memory 128 MB",))
    assert unfit(Image(id="i", kernel=BootFile(id="k")), NANO) == ()


@pytest.mark.parametrize(
    ("disk_format", "container_format", "why"),
    [
        ("qcow2", "bare", None),
        ("raw", "bare", None),
        ("iso", "bare", "disk_format 'iso' is not one that can be booted: qcow2, raw"),
        (None, "bare", "disk_format 'unset' is not"),
        ("raw", "ovf", "container_format 'ovf' is not one that can be booted: bare"),
        ("raw", None, "container_format 'unset' is not"),
    ],
)
def test_formats(disk_format: str | None, container_format: str | None, why: str | None) -> None:
    reason = format_refused(disk_format, container_format)
    assert reason is None if why is None else (reason or "").startswith(why)
