"""Whether a destination sees the locks that the source's QEMU holds on shared disks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minova.virt.libvirt.migration.moving_disks import MovingDisks
from tests.unit.virt.libvirt.test_image_locks import qemu

DISKS = ("disk", "disk.eph0")


@pytest.fixture
def moving(tmp_path: Path) -> MovingDisks:
    for name in DISKS:
        (tmp_path / name).write_bytes(b"x" * 512)
    return MovingDisks(cast(Any, SimpleNamespace(folder=lambda uuid: tmp_path)))


def test_the_locks_of_a_qemu_are_seen_on_each_disk(moving: MovingDisks, tmp_path: Path) -> None:
    with qemu(tmp_path / DISKS[0]):
        assert moving.sees_locks("uuid", DISKS[:1])
        assert not moving.sees_locks("uuid", DISKS)
        with qemu(tmp_path / DISKS[1]):
            assert moving.sees_locks("uuid", DISKS)


def test_disks_that_no_qemu_has_locked_show_no_lock(moving: MovingDisks) -> None:
    """The guest runs on them: the locks do not reach as far as here."""
    assert not moving.sees_locks("uuid", DISKS)
    assert not moving.sees_locks("uuid", ["gone"])
    assert not moving.sees_locks("uuid", [])


def test_disks_that_may_not_be_opened_show_no_lock(moving: MovingDisks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a root that NFS squashes."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    assert not moving.sees_locks("uuid", DISKS)


def test_a_name_with_a_path_stays_in_the_folder(moving: MovingDisks, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.write_bytes(b"x" * 512)
    with qemu(outside):
        assert not moving.sees_locks("uuid", [str(outside)])
