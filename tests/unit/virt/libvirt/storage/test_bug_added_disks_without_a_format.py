"""A resize that added an ephemeral disk or swap recorded no format of it, and a move none of the config drive: the host's image cache
was never cleaned again.
"""

from pathlib import Path

import msgspec
import pytest

from minova.errors import UnknownDiskFormat
from minova.objects.catalogue.flavor import Flavor, LocalDisk
from minova.objects.servers.disk_export import PciAddresses
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_images, disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.storage.disks import Disks, WriteDrive

ADDRESSES = PciAddresses(machine="q35", devices={"disk": "0000:01:00.0"})
PLAIN = Instance(
    uuid="5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11",
    display_name="one",
    flavor=Flavor(flavorid="1", name="larger", vcpus=1, memory_mb=64, root_gb=0, swap=8),
)
ENCRYPTED = msgspec.structs.replace(
    PLAIN, flavor=msgspec.structs.replace(PLAIN.flavor, extra_specs={"hw:ephemeral_encryption": "true"})
)
DRIVE = WriteDrive(lambda path: path.touch(), is_cd=True)


def _passphrase(instance_uuid: str, *, make: bool, **_: object) -> str:
    return "0" * 64


class Host:
    def __init__(self, path: Path, formats: dict[str, str], *more: str) -> None:
        self.disks = Disks(path, passphrase_of=_passphrase)
        self.folder = path / PLAIN.uuid
        self.folder.mkdir()
        for name in ("disk", *more):
            (self.folder / name).write_bytes(b"\0" * 4096)
        root = disk_owner.inode(self.folder / "disk")
        with disk_owner.locked(self.folder) as owner:
            owner.write(DiskOwner(host="one", attempt=1, disk=root, formats=formats, addresses=ADDRESSES))

    def resize(self, instance: Instance) -> None:
        MovingDisks(self.disks).take_over(instance, "one", 2, DRIVE)

    @property
    def recorded(self) -> dict[str, str]:
        return disk_owner.written_formats(self.folder)


@pytest.mark.parametrize(("instance", "written"), [(PLAIN, "raw"), (ENCRYPTED, "qcow2")])
def test_an_added_disk_has_a_recorded_format(tmp_path: Path, instance: Instance, written: str) -> None:
    host = Host(tmp_path, {"disk": written})
    if instance is ENCRYPTED:
        root = tmp_path / "root"
        disk_images.empty(root, 1 << 20, lambda *_: None, "0" * 64)
        (host.folder / "disk").write_bytes(root.read_bytes())  # of the recorded inode
    host.resize(instance)
    assert host.recorded == {"disk": written, "disk.swap": written}
    assert host.disks.bases_in_use() == frozenset()
    swap = host.folder / "disk.swap"
    if instance is ENCRYPTED:  # it grows to its size
        assert host.disks.growth() >= (8 << 20) - swap.stat().st_blocks * 512 > 0


def test_a_config_drive_that_is_made_after_a_move_has_a_recorded_format(tmp_path: Path) -> None:
    host = Host(tmp_path, {"disk": "raw"})
    host.resize(msgspec.structs.replace(PLAIN, config_drive=True))
    assert (host.folder / "disk.config").exists()
    assert host.recorded["disk.config"] == "raw"
    assert host.disks.bases_in_use() == frozenset()


def test_a_start_of_the_host_records_single_missing_formats(tmp_path: Path) -> None:
    host = Host(tmp_path, {"disk": "raw"}, "disk.swap")
    with pytest.raises(UnknownDiskFormat):
        host.disks.bases_in_use()
    host.disks.own(PLAIN.uuid, "one", lambda: {"disk": "qcow2", "disk.swap": "raw"})
    assert host.recorded == {"disk": "raw", "disk.swap": "raw"}
    assert host.disks.bases_in_use() == frozenset()
    assert host.disks.addresses(PLAIN.uuid) == ADDRESSES


def test_the_image_cache_is_cleaned_while_a_disk_is_encrypted(tmp_path: Path) -> None:
    host = Host(tmp_path, {"disk": "raw", "disk.swap": "qcow2"})
    seen: list[frozenset[str]] = []
    swap = LocalDisk(size_mb=8, guest_format="swap")
    finish = lambda part, size: seen.append(host.disks.bases_in_use())  # noqa: E731
    disk_images.formatted(host.folder / "disk.swap", swap, "disk.swap", finish, "0" * 64)
    assert seen == [frozenset()]
