"""How a guest goes over from the overlay of a snapshot to its disk."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minova.errors import Abandoned, UnknownDiskFormat
from minova.virt import programs
from minova.virt.libvirt.guest_files.disk_formats import QCOW2, backing_file
from minova.virt.libvirt.storage import snapshot_record
from minova.virt.libvirt.storage.disk_owner import OWNER, ROOT_DISK, DiskOwner, inode
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.storage.guest_folders import OVERLAY
from minova.virt.libvirt.storage.snapshot_record import SnapshotStep

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


class Guest:
    """A domain that runs from its overlay, and whose commit goes on and on."""

    def __init__(self, overlay: Path) -> None:
        self._overlay = overlay

    def UUIDString(self) -> str:  # noqa: N802
        return UUID

    def isActive(self) -> bool:  # noqa: N802
        return True

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        return (
            f"""<domain><devices><disk><source file='{self._overlay}'/><target dev='vda'/></disk></devices></domain>"""
        )

    def blockJobInfo(self, target: str) -> dict[str, int]:  # noqa: N802
        return {"cur": 1, "end": 2}


def test_long_commit_tells_that_it_goes_on_and_can_be_left(tmp_path: Path) -> None:
    overlay, check_count = tmp_path / UUID / OVERLAY, 0
    overlay.parent.mkdir()
    overlay.touch()

    def check() -> None:
        nonlocal check_count
        check_count += 1
        if check_count == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        DiskSnapshots(Disks(tmp_path), lambda: 0).settle(UUID, Guest(overlay), check)
    # The next call goes on with it.
    assert overlay.exists()


# -- an overlay whose making was interrupted -----------------------------------------------------------------------------


class Idle:
    """A domain that runs from its disk, or is off."""

    def __init__(self, folder: Path, *, runs: bool) -> None:
        self._disk = folder / ROOT_DISK
        self._runs = runs

    def UUIDString(self) -> str:  # noqa: N802
        return UUID

    def name(self) -> str:
        return "one"

    def isActive(self) -> bool:  # noqa: N802
        return self._runs

    def hasManagedSaveImage(self) -> bool:  # noqa: N802
        return False

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        return f"<domain><devices><disk><source file='{self._disk}'/><target dev='vda'/></disk></devices></domain>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guest_folder = tmp_path / UUID
    guest_folder.mkdir()
    image(guest_folder / ROOT_DISK, "4M")
    entry = DiskOwner(host="one", attempt=1, disk=inode(guest_folder / ROOT_DISK), formats={ROOT_DISK: QCOW2})
    (guest_folder / OWNER).write_bytes(msgspec.json.encode(entry))
    return guest_folder


def image(path: Path, *size: str, backing: Path | None = None) -> None:
    on = [] if backing is None else ["-F", QCOW2, "-b", str(backing)]
    subprocess.run(["qemu-img", "create", "-q", "-f", QCOW2, *on, str(path), *size], check=True)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("runs", [True, False, None])
@pytest.mark.parametrize("content", ["empty", "no header", "header alone"])
def test_bug_half_made_overlay_blocked_its_guest(folder: Path, content: str, runs: bool | None) -> None:
    """Of a process that was killed in the middle of it: nothing ever was in it, and no start or move was possible."""
    overlay = folder / OVERLAY
    if content == "header alone":
        image(overlay, "0")
    else:
        overlay.write_bytes(b"" if content == "empty" else b"QFI")
    snapshot_record.write(folder, SnapshotStep.OPEN)
    domain = None if runs is None else Idle(folder, runs=runs)
    DiskSnapshots(Disks(folder.parent), lambda: 0).settle(UUID, domain)
    assert names(folder) == {ROOT_DISK, OWNER}


def test_overlay_with_data_and_a_broken_header_stays(folder: Path) -> None:
    (folder / OVERLAY).write_bytes(b"\0" * (6 << 16))
    snapshot_record.write(folder, SnapshotStep.OPEN)
    with pytest.raises(UnknownDiskFormat):
        DiskSnapshots(Disks(folder.parent), lambda: 0).settle(UUID, Idle(folder, runs=False))
    assert OVERLAY in names(folder)


def test_bug_overlay_had_its_name_before_it_was_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(path: Path, *_: Any, **__: Any) -> None:
        path.write_bytes(b"QFI")
        raise Abandoned

    monkeypatch.setattr(programs, "write_with", killed)
    with pytest.raises(Abandoned):
        DiskSnapshots(Disks(folder.parent), lambda: 0).set_aside(Idle(folder, runs=True), lambda xml, flags: None)
    assert OVERLAY not in names(folder)


def test_guest_goes_over_to_an_overlay_that_is_whole_and_recorded(folder: Path) -> None:
    taken: list[bool] = []

    def take(xml: str, flags: int) -> None:
        taken.append(backing_file(folder / OVERLAY, QCOW2) == str(folder / ROOT_DISK))
        taken.append(snapshot_record.read(folder) is SnapshotStep.OPEN)

    snapshots = DiskSnapshots(Disks(folder.parent), lambda: 0)
    snapshots.set_aside(Idle(folder, runs=True), take)
    assert taken == [True, True]
    snapshots.settle(UUID, Idle(folder, runs=False))
    assert names(folder) == {ROOT_DISK, OWNER}
