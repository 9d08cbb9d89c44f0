"""A domain that was lost while a snapshot was open: the guest's last writes are in the overlay, and were removed with it.

Here are the files alone; `test_interrupted_actions.py` has a real guest.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minova.errors import HypervisorError
from minova.virt.libvirt.storage import snapshot_record
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.storage.guest_folders import OVERLAY
from minova.virt.libvirt.storage.snapshot_record import SnapshotStep

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
BEFORE, LATER = 0x11, 0x22


class Files:
    """A disk with an overlay, as a snapshot has left them. Each has a mark that tells who wrote last."""

    def __init__(self, instances: Path) -> None:
        self.folder = instances / UUID
        self.folder.mkdir(parents=True)
        self.disk, self.overlay = self.folder / "disk", self.folder / OVERLAY
        run("qemu-img", "create", "-q", "-f", "qcow2", str(self.disk), "1M")
        self.write(self.disk, BEFORE)
        run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(self.disk), str(self.overlay))
        self.snapshots = DiskSnapshots(Disks(instances), lambda: 0)

    def write(self, path: Path, mark: int) -> None:
        run("qemu-io", "-f", "qcow2", "-c", f"write -P {mark} 0 64k", str(path))

    def has(self, mark: int) -> bool:
        """Whether the disk has this mark."""
        read = run("qemu-io", "-f", "qcow2", "-c", f"read -P {mark} 0 64k", str(self.disk))
        return "verification failed" not in read

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}

    @contextmanager
    def open_in_qemu(self) -> Iterator[None]:
        with subprocess.Popen(
            ["qemu-io", "-f", "qcow2", str(self.overlay)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.read(len("qemu-io>"))  # it has the file open
            try:
                yield
            finally:
                process.kill()


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "instances")


def test_overlay_of_a_lost_domain_is_committed(files: Files) -> None:
    files.write(files.overlay, LATER)
    snapshot_record.write(files.folder, SnapshotStep.OPEN)
    files.snapshots.settle(UUID, None)
    assert files.has(LATER)
    assert files.names() == {"disk"}
    # There is nothing to do a second time.
    files.snapshots.settle(UUID, None)
    assert files.names() == {"disk"}


def test_overlay_that_was_committed_does_not_undo_later_writes(files: Files) -> None:
    """A process that dies between the commit and the removal leaves it."""
    files.write(files.overlay, BEFORE)
    files.write(files.disk, LATER)
    snapshot_record.write(files.folder, SnapshotStep.COMMITTED)
    files.snapshots.settle(UUID, None)
    assert files.has(LATER)
    assert files.names() == {"disk"}


@pytest.mark.parametrize("step", [SnapshotStep.PIVOTING, None])
def test_nothing_is_removed_where_nothing_says_who_wrote_last(files: Files, step: SnapshotStep | None) -> None:
    files.write(files.overlay, LATER)
    if step is not None:
        snapshot_record.write(files.folder, step)
    before = files.names()
    with pytest.raises(HypervisorError, match=rf"qemu-img commit -f qcow2 {files.overlay}"):
        files.snapshots.settle(UUID, None)
    assert (files.names(), files.has(BEFORE)) == (before, True)
    # Where both have the same, no one has to decide.
    files.write(files.disk, LATER)
    files.snapshots.settle(UUID, None)
    assert files.names() == {"disk"}


def test_overlay_that_a_guest_has_open_is_left_alone(files: Files) -> None:
    snapshot_record.write(files.folder, SnapshotStep.OPEN)
    with files.open_in_qemu(), pytest.raises(HypervisorError, match="still has"):
        files.snapshots.settle(UUID, None)
    assert files.names() == {"disk", OVERLAY, "snapshot.json"}
    files.snapshots.settle(UUID, None)
    assert files.names() == {"disk"}
