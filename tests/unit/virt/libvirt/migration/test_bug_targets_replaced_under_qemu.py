"""PREPARE of a live migration may come twice. By the second time, a QEMU that awaits the guest may have the disks open."""

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import LiveSource
from minova.virt.libvirt.migration import moving_disks
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage.disks import Disks

DRIVE, DISK = "disk.config", "disk"
INSTANCE = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=0),
)


class Destination:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = path / INSTANCE.uuid
        self._moving = MovingDisks(Disks(path))
        monkeypatch.setattr(moving_disks, "fetch", self._fetch)

    def _fetch(self, path: Path, export: DiskExport, file: ExportedFile, *_: Any) -> None:
        path.with_name("fetched").write_bytes(b"drive")
        path.with_name("fetched").rename(path)

    def prepare(self, attempt: int) -> None:
        export = DiskExport(
            host="one",
            attempt=1,
            shown="m",
            address="",
            port=1,
            files=(ExportedFile(name=DRIVE, export=DRIVE, size=5),),
            drive_is_cd=True,
        )
        source = LiveSource(xml="", inactive_xml="", cpu_xml=None, sizes={DISK: 4096}, export=export)
        key = TransferKey(identity="move", secret=secrets.token_hex(8))
        formats = {DISK: "raw", DRIVE: "raw"}
        self._moving.make_targets(INSTANCE, "two", attempt, source, formats, key, None, lambda: None)


def test_what_this_attempt_has_made_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = Destination(tmp_path, monkeypatch)
    destination.prepare(2)
    with (destination.folder / DISK).open("r+b") as disk, (destination.folder / DRIVE).open("rb") as drive:
        disk.write(b"of the guest")
        disk.flush()
        destination.prepare(2)
        for file in (disk, drive):
            assert Path(file.name).stat().st_ino == os.fstat(file.fileno()).st_ino


def test_what_an_earlier_attempt_has_left_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = Destination(tmp_path, monkeypatch)
    destination.prepare(2)
    (destination.folder / DISK).write_bytes(b"of another attempt")
    destination.prepare(3)
    assert (destination.folder / DISK).read_bytes() == bytes(4096)
