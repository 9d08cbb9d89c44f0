"""Images that are held, so that no QEMU opens them."""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minova.virt.libvirt.guest_files.image_locks import ImageHold, is_open

# As QEMU's `block/file-posix.c`: bytes for what it does with an image, and for what it forbids others.
_DOES, _FORBIDS, _READ, _WRITE = 100, 200, 0, 1
_FLOCK = struct.Struct("hhqqi4x")


class Refused(Exception):
    pass


@contextmanager
def qemu(path: Path) -> Iterator[None]:
    """Opens the image for writing as QEMU does. Raises Refused as it does."""
    with path.open("rb") as file:
        for byte in (_DOES + _READ, _DOES + _WRITE, _FORBIDS + _WRITE):
            fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0))
        for byte in (_FORBIDS + _WRITE, _DOES + _WRITE):
            probe = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            if _FLOCK.unpack(fcntl.fcntl(file.fileno(), fcntl.F_OFD_GETLK, probe))[0] != fcntl.F_UNLCK:
                raise Refused
        yield


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "disk", tmp_path / "disk.eph0"]
    for path in paths:
        path.write_bytes(b"x" * 512)
    return paths


def test_no_qemu_opens_an_image_that_is_held(images: list[Path]) -> None:
    hold = ImageHold(images)
    assert hold.take()
    assert hold.take()
    for path in images:
        with pytest.raises(Refused), qemu(path):
            pass
    hold.release()
    hold.release()
    assert not hold.taken
    with qemu(images[0]):
        assert is_open(images[0])


def test_an_image_that_a_qemu_has_open_is_not_held(images: list[Path]) -> None:
    hold = ImageHold(images)
    with qemu(images[1]):
        assert not hold.take()
        assert not hold.taken
        with qemu(images[0]):
            assert hold.works()
            assert hold.is_written()
    assert hold.works()
    assert not hold.is_written()
    assert hold.take()
    hold.release()


def test_a_qemu_whose_guest_has_left_still_reads_the_image(images: list[Path]) -> None:
    with images[0].open("rb") as file:
        reads = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, _DOES + _READ, 1, 0)
        fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, reads)
        hold = ImageHold(images)
        assert hold.take()
        hold.release()


def test_a_hold_works_only_if_the_images_can_be_locked_and_opened(tmp_path: Path, images: list[Path]) -> None:
    assert not ImageHold(images).works()  # this QEMU does not lock
    assert not ImageHold([]).works()
    assert not ImageHold([tmp_path / "none"]).works()
    assert ImageHold([tmp_path / "none"]).is_written()
    assert not ImageHold([]).take()
    assert not ImageHold([tmp_path / "none"]).take()
