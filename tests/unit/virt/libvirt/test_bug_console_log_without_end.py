"""A guest that printed without end filled the disk of its host where libvirt ran without virtlogd."""

import os
from pathlib import Path

import msgspec
import pytest

from minova.virt.libvirt.storage.disk_owner import OWNER, DiskOwner
from minova.virt.libvirt.storage.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
LIMIT = 200_000


class Guest:
    """What QEMU has open of a guest's log."""

    def __init__(self, path: Path, host: str | None = "hv1") -> None:
        self.disks = Disks(path)
        self.folder = path / UUID
        self.folder.mkdir()
        self.log = self.folder / "console.log"
        if host is not None:
            (self.folder / OWNER).write_bytes(msgspec.json.encode(DiskOwner(host=host, attempt=1)))
        self.handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def prints(self, lines: int, first: int = 0) -> None:
        os.write(self.handle, b"".join(b"line %08d\n" % number for number in range(first, first + lines)))

    def bound(self) -> None:
        self.disks.bound_console_logs("hv1", LIMIT)


def test_long_log_is_cut_and_its_end_kept(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.prints(100_000)
    guest.bound()
    assert guest.log.stat().st_size == 0
    assert (guest.folder / "console.log.0").stat().st_size == LIMIT
    assert guest.disks.console_output(UUID).endswith("line 00099999\n")


def test_open_log_goes_on_at_its_new_beginning(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.prints(100_000)
    guest.bound()
    guest.prints(2, first=100_000)
    assert guest.log.read_bytes() == b"line 00100000\nline 00100001\n"
    assert guest.disks.console_output(UUID).endswith("line 00099999\nline 00100000\nline 00100001\n")


def test_rounds_without_end_keep_a_folder_small(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    for _ in range(20):
        guest.prints(50_000)
        guest.bound()
    assert sum(path.stat().st_size for path in guest.folder.iterdir()) < 2 * LIMIT
    assert {path.name for path in guest.folder.iterdir()} == {"console.log", "console.log.0", OWNER}


def test_short_log_is_left_alone(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.prints(10)
    guest.bound()
    assert guest.log.stat().st_size == 140
    assert not (guest.folder / "console.log.0").exists()


def test_log_is_emptied_even_if_its_end_cannot_be_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    guest = Guest(tmp_path)
    guest.prints(100_000)
    # As on a full disk: the copy cannot be made.
    (guest.folder / "console.log.0.part").mkdir()
    guest.bound()
    assert guest.log.stat().st_size == 0
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize(("host", "size"), [("hv2", 1_400_000), (None, 0)])
def test_log_of_another_host_is_left_alone(tmp_path: Path, host: str | None, size: int) -> None:
    guest = Guest(tmp_path, host)
    guest.prints(100_000)
    guest.bound()
    assert guest.log.stat().st_size == size


def test_log_that_leads_elsewhere_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    guest = Guest(tmp_path)
    guest.prints(100_000)
    guest.log.rename(tmp_path / "elsewhere")
    guest.log.symlink_to(tmp_path / "elsewhere")
    guest.bound()
    assert (tmp_path / "elsewhere").stat().st_size == 1_400_000
    assert "cannot be emptied" in caplog.text
