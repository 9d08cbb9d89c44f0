"""No guest left a host whose file system was full: a mark that only hosts with the same disks need could not be written."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from minova.objects.servers.disk_export import DiskExport
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.storage.disks import Disks

UUID, MOVE = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11", "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01"


@pytest.fixture
def moving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MovingDisks:
    """The disks are of host `one`, whose file system is full."""
    (tmp_path / UUID).mkdir()
    owner = DiskOwner(host="one", attempt=1, shown="before")
    (tmp_path / UUID / disk_owner.OWNER).write_bytes(msgspec.json.encode(owner))

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    return MovingDisks(Disks(tmp_path))


def test_its_disks_are_shown_as_they_are_recorded(moving: MovingDisks) -> None:
    """A host that shares them finds the same record."""
    owner = moving.mark_shown(UUID, MOVE)
    assert (owner.host, owner.attempt, owner.shown) == ("one", 1, "before")
    assert moving.shares(UUID, DiskExport(host=owner.host, attempt=owner.attempt, shown=owner.shown))


def test_the_mark_is_written_if_there_is_room(moving: MovingDisks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    assert moving.mark_shown(UUID, MOVE).shown == MOVE
    assert not moving.shares(UUID, DiskExport(host="one", attempt=1, shown="before"))
