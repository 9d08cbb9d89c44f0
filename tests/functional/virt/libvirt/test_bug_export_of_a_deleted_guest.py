"""A server that is deleted in the middle of a move was served on: its disks kept their room, and its port was taken."""

import secrets
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from minova.objects.servers.disk_export import ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.migration.export_server import ExportedDisk, ExportServers
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from tests.servers.private_server import free_range

MOVES = ("5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01", "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d02")


def test_the_port_is_free_after_the_deletion(
    driver: Any, guest: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also that of another attempt to move it. Other guests are served on."""
    files = [tmp_path / "instances" / name / "disk" for name in (guest.uuid, "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11")]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1" * 512)
    served = (ExportedFile(name="disk", export="disk", size=512), ExportedDisk("disk", files[0]))
    owner = DiskOwner(host="hv1", attempt=3)
    moving = Mock(
        files=lambda *_: (served,), image_files=lambda *_: (), shown=lambda *_: owner, shares=lambda *_: False
    )
    monkeypatch.setattr(driver, "_moving", moving)
    driver.power_off(guest.uuid)
    exports = ExportServers("127.0.0.1", free_range(3))
    monkeypatch.setattr(driver, "_exports", exports)
    key = TransferKey(identity="m", secret=secrets.token_hex(32))
    try:
        ports = {driver.export_disks(guest, move, key).port for move in MOVES}
        other = exports.start("other", key, [ExportedDisk("disk", files[1])], None)
        for _ in range(2):
            driver.destroy(guest.uuid)
        assert {exports.start(move, key, [ExportedDisk("disk", files[1])], None) for move in ("1", "2")} == ports
        assert exports.start("other", key, [ExportedDisk("disk", files[1])], None) == other
    finally:
        exports.close()
