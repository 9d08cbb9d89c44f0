"""An overlay with writes of its own alone is kept for an operator, but went with the folder when the guest left its host."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from minova.errors import HypervisorError
from minova.objects.servers.disk_export import TransferKey
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks
from tests.functional.virt.libvirt.test_driver import instance

MOVE, KEY = "5f6bbd5a-1f8a-4b5f-8f57-6a1c3a3b9d01", TransferKey(identity="i", secret="0" * 64)


@pytest.mark.parametrize("way", ["cold", "live"])
def test_a_guest_with_a_kept_overlay_does_not_move(driver: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    new_instance = instance()
    driver.prepare(new_instance, driver.available_nodes()[0], 1, None)
    kept = driver._disks.folder(new_instance.uuid) / "snapshot.kept-1"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.touch()
    entry = disk_owner.DiskOwner(host="hv1", attempt=1)
    moving = Mock(files=lambda *_: (), files_beside=lambda *_: (), image_files=lambda *_: (), shown=lambda *_: entry)
    monkeypatch.setattr(driver, "_moving", moving)
    monkeypatch.setattr(driver, "_exports", Mock(start=lambda *_: 1))
    serve = driver.export_disks if way == "cold" else driver.live_source
    if way == "live":
        driver.power_on(new_instance)
    with pytest.raises(HypervisorError, match=r"snapshot\.kept-1 alone\. Compare it with the disk"):
        serve(new_instance, MOVE, KEY)
    kept.unlink()
    assert serve(new_instance, MOVE, KEY) is not None


def test_a_kept_overlay_stays_in_the_folder(tmp_path: Path) -> None:
    """An offload asks whether one is open. Hosts that share the folder leave it where it is."""
    disks, uuid = Disks(tmp_path), instance().uuid
    snapshots = DiskSnapshots(disks, lambda: 0)
    assert not snapshots.has_kept(uuid)
    snapshots.require_none_kept(uuid, "hv1")
    (tmp_path / uuid).mkdir()
    (tmp_path / uuid / "snapshot.kept-1").touch()
    # Saved memory belongs to no kept overlay.
    assert (snapshots.has_kept(uuid), snapshots.is_open(uuid)) == (True, False)
    for host in ("hv1", "former"):
        disk_owner.register_host(tmp_path, host)
    disks.recognise(frozenset({"former"}))
    with pytest.raises(HypervisorError):
        snapshots.require_none_kept(uuid, "hv1")
    disk_owner.register_host(tmp_path, "hv2")
    snapshots.require_none_kept(uuid, "hv1")
