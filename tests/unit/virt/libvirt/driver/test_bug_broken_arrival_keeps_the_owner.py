"""A guest that cannot go on where it has arrived has moved all the same: its shared disks are of its new host.

Otherwise an evacuation to its former host finds disks that this host has made itself, and makes them anew.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from minova.errors import HypervisorUnavailable, NotFound
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.driver.migration import LibvirtMigration
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.storage.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FLAVOR = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1)
INSTANCE = Instance(uuid=UUID, display_name="one", flavor=FLAVOR, host="two", attempt=2)


class NoLibvirt:
    @contextmanager
    def connection(self, *_: object) -> Iterator[None]:
        raise HypervisorUnavailable("libvirt is away")
        yield


class Two(LibvirtMigration):
    def __init__(self, disks: Disks) -> None:
        self._moving = MovingDisks(disks)
        self._host: Any = NoLibvirt()

    def _ready(self) -> Any:
        return SimpleNamespace(host="two")


def test_disks_of_an_arrival_that_fails_are_of_the_new_host(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    with pytest.raises(NotFound, match="no disks"):
        Two(disks).arrive(INSTANCE, 2)
    folder = disks.folder(UUID)
    folder.mkdir()
    (folder / "disk").write_bytes(b"precious")
    owner = DiskOwner(host="one", attempt=1, disk=disk_owner.inode(folder / "disk"), formats={"disk": "qcow2"})
    (folder / disk_owner.OWNER).write_bytes(msgspec.json.encode(owner))
    with pytest.raises(HypervisorUnavailable):
        Two(disks).arrive(INSTANCE, 2)
    assert disks.take_over(UUID, "one", 3), "an evacuation to the former host keeps them"
