"""Kernels and ramdisks of images."""

import pytest

from minova import errors
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.catalogue.kernel_boot import (
    LARGEST,
    columns_of,
    command_line,
    references,
    require_kernel,
    require_size,
)


@pytest.mark.parametrize(
    ("properties", "kernel", "ramdisk"),
    [
        ({}, "", ""),
        ({"kernel_id": "k", "ramdisk_id": "r"}, "k", "r"),
        ({"kernel_id": "k"}, "k", ""),
        ({"ramdisk_id": "r"}, "", "r"),
        ({"kernel_id": "nokernel", "ramdisk_id": "r"}, "", ""),
    ],
)
def test_an_image_names_its_kernel_and_ramdisk(properties: dict[str, str], kernel: str, ramdisk: str) -> None:
    assert references(properties) == {"kernel_id": kernel, "ramdisk_id": ramdisk}
    assert columns_of(Image(id="i", properties=properties)) == references(properties)


def test_a_column_holds_as_much_of_a_reference_as_it_can() -> None:
    columns = columns_of(Image(id="i", properties={"kernel_id": "k" * 300, "ramdisk_id": "r" * 255}))
    assert columns == {"kernel_id": "k" * 255, "ramdisk_id": "r" * 255}


@pytest.mark.parametrize(
    ("properties", "wrong"),
    [
        ({}, None),
        ({"kernel_id": "k", "ramdisk_id": "r", "os_command_line": "quiet"}, None),
        ({"kernel_id": "k", "os_command_line": "x" * 2047}, None),
        ({"kernel_id": "k", "os_command_line": "x" * 2048}, "os_command_line: it must be printable, of at most 2047"),
        ({"kernel_id": "k", "os_command_line": "a\nb"}, "os_command_line: it must be printable"),
        ({"ramdisk_id": "r"}, "ramdisk_id: it needs kernel_id"),
        ({"os_command_line": "quiet"}, "os_command_line: it needs kernel_id"),
        ({"ramdisk_id": "r", "os_command_line": "quiet"}, "ramdisk_id: it needs kernel_id"),
        ({"kernel_id": "nokernel", "ramdisk_id": "r"}, None),
    ],
)
def test_a_ramdisk_and_a_command_line_need_a_kernel(properties: dict[str, str], wrong: str | None) -> None:
    if wrong is None:
        require_kernel(properties)
        return
    with pytest.raises(errors.BadRequest, match=wrong):
        require_kernel(properties)


@pytest.mark.parametrize(("sizes", "fine"), [((LARGEST,), True), ((LARGEST, 1), False), ((None, 5), True), ((), True)])
def test_both_together_have_a_bound(sizes: tuple[int | None, ...], fine: bool) -> None:
    files = [BootFile(id=f"{number}", size=size) for number, size in enumerate(sizes)] + [None, None]
    image = Image(id="i", kernel=files[0], ramdisk=files[1])
    if fine:
        require_size(image)
        return
    with pytest.raises(
        errors.BadRequest, match=f"Image i: its kernel and ramdisk have {LARGEST + 1} bytes, more than 536870912"
    ):
        require_size(image)


def test_the_command_line_is_the_images_or_novas() -> None:
    assert command_line({"os_command_line": "quiet"}, "/dev/vda") == "quiet"
    assert command_line({}, "/dev/vda") == "root=/dev/vda console=tty0 console=ttyS0 console=hvc0"
