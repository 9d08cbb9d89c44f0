"""A live migration on shared disks that has broken leaves them to the server's host: its hard reboot takes them over."""

from pathlib import Path

import msgspec
import pytest

from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.guest_files import image_locks
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner
from minova.virt.libvirt.storage.disks import Disks, WriteDrive

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FLAVOR = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1)


def moved(host: str = "two", attempt: int = 2) -> Instance:
    return Instance(uuid=UUID, display_name="one", flavor=FLAVOR, host=host, attempt=attempt)


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    """Host `one` has made them, by attempt 1."""
    folder = tmp_path / UUID
    folder.mkdir()
    (folder / "disk").write_bytes(b"precious")
    disk_owner_note = DiskOwner(
        host="one", attempt=1, disk=disk_owner.inode(folder / "disk"), formats={"disk": "qcow2"}
    )
    (folder / disk_owner.OWNER).write_bytes(msgspec.json.encode(disk_owner_note))
    return Disks(tmp_path)


def owner(disks: Disks) -> tuple[str, int]:
    entry = disk_owner.read(disks.folder(UUID))
    assert entry is not None
    return entry.host, entry.attempt


def test_the_host_of_the_row_takes_them(disks: Disks) -> None:
    assert disks.are_left(moved(), "two")
    disks.take_left(moved(), "two")
    disks.require_owner(UUID, "two")
    assert (owner(disks), disks.are_left(moved(), "two")) == (("two", 2), False)
    assert (disks.folder(UUID) / "disk").read_bytes() == b"precious"


@pytest.mark.parametrize("instance", [moved(host="one"), moved(attempt=1), moved(attempt=0)])
def test_no_other_action_does(disks: Disks, instance: Instance) -> None:
    """Neither a host that the server has left, nor an action that is older than the disks."""
    assert not disks.are_left(instance, "two")
    with pytest.raises(DisksOfAnotherHost, match="now of host one"):
        disks.require_owner(UUID, "two")


def test_disks_that_a_guest_uses_stay(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_locks, "is_open", lambda path: path == disks.folder(UUID) / "disk")
    with pytest.raises(HypervisorError, match="the guest is not down"):
        disks.take_left(moved(), "two")
    assert owner(disks) == ("one", 1)


def test_bug_a_move_took_disks_over_that_a_guest_uses(disks: Disks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move falls back, and its destination, which was forced down, runs the guest still."""
    monkeypatch.setattr(image_locks, "is_open", lambda path: path == disks.folder(UUID) / "disk")
    with pytest.raises(HypervisorError, match="the guest is not down"):
        MovingDisks(disks).take_over(moved(), "two", 3, WriteDrive(lambda path: None, is_cd=True))
    assert owner(disks) == ("one", 1)


def test_bug_guest_could_not_arrive_on_a_full_disk_although_its_record_stood(
    disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a live migration names this host and attempt before the guest comes."""
    moving = MovingDisks(disks)
    moving.own(UUID, "two", 2)

    def full(owner: object, entry: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk_owner.OwnerFile, "write", full)
    moving.own(UUID, "two", 2)
    assert owner(disks) == ("two", 2)
