"""Disks of an evacuated server, on storage that its new host shares with the one that has died: no attempt loses them."""

from pathlib import Path

import msgspec
import pytest

from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.service import OTHER_HOST
from minova.objects.servers.instance import Instance
from minova.virt.driver.domains import RowHost
from minova.virt.libvirt.guest_files import image_locks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner, FormerOwner, register_host
from minova.virt.libvirt.storage.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


class Storage:
    """Hosts `dead`, `one` and `two` share a folder; `dead` has made the disk by attempt 1."""

    def __init__(self, path: Path) -> None:
        self.disks = Disks(path)
        self.folder = path / UUID
        self.folder.mkdir()
        self.disk = self.folder / "disk"
        self.disk.write_bytes(b"precious")
        for host in ("dead", "one", "two"):
            register_host(path, host)
        self.write(DiskOwner(host="dead", attempt=1, disk=disk_owner.inode(self.disk), formats={"disk": "qcow2"}))

    def write(self, owner: DiskOwner) -> None:
        (self.folder / disk_owner.OWNER).write_bytes(msgspec.json.encode(owner))

    def take(self, host: str, attempt: int) -> bool:
        return self.disks.take_over(UUID, host, attempt)

    def undo(self, host: str) -> None:
        self.disks.remove(UUID, host, RowHost(undone=True))

    @property
    def owner(self) -> tuple[str, int]:
        owner = disk_owner.read(self.folder)
        assert owner is not None
        return owner.host, owner.attempt

    @property
    def is_whole(self) -> bool:
        return self.disk.read_bytes() == b"precious" and disk_owner.written_formats(self.folder) == {"disk": "qcow2"}


def back(host: str = "dead", attempt: int = 1) -> Instance:
    """The server as it is after an evacuation that has failed."""
    flavor = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1)
    return Instance(uuid=UUID, display_name="one", flavor=flavor, host=host, attempt=attempt)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def test_an_attempt_takes_the_disks_over_as_they_are(storage: Storage) -> None:
    for _ in range(2):  # idempotent
        assert storage.take("one", 2)
    assert (storage.owner, storage.is_whole) == (("one", 2), True)


def test_an_attempt_that_fails_gives_them_back(storage: Storage) -> None:
    storage.take("one", 2)
    for _ in range(2):
        storage.undo("one")
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


def test_they_go_back_to_the_first_host_whatever_hosts_have_tried(storage: Storage) -> None:
    storage.take("one", 2)
    assert storage.take("two", 3)
    storage.undo("one")  # it comes late
    assert storage.owner == ("two", 3)
    storage.undo("two")
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


def test_an_attempt_that_took_nothing_over_removes_nothing(storage: Storage) -> None:
    storage.undo("one")
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


@pytest.mark.parametrize("row", [RowHost(host="dead"), RowHost(host="two"), RowHost(known=False)])
def test_a_late_clean_up_gives_them_back(storage: Storage, row: RowHost) -> None:
    storage.take("one", 2)
    storage.disks.remove(UUID, "one", row)
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


def test_bug_server_whose_evacuation_has_failed_may_not_use_its_disks(storage: Storage) -> None:
    """The host that has taken them over is dead, and gives nothing back."""
    storage.take("one", 2)
    for row in (None, back(host="one"), back(attempt=2), back(attempt=3)):
        with pytest.raises(DisksOfAnotherHost, match="are now of host one"):
            storage.disks.require_owner(UUID, "dead", row)
    for _ in range(2):
        storage.disks.require_owner(UUID, "dead", back())
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)
    # The other host comes back.
    storage.disks.remove(UUID, "one", RowHost(host="dead"))
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)
    assert storage.take("two", 3)


def test_a_server_is_not_back_while_the_other_host_has_its_disks_open(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.take("one", 2)
    monkeypatch.setattr(image_locks, "is_open", lambda path: path == storage.disk)
    with pytest.raises(HypervisorError, match="the guest is not down"):
        storage.disks.require_owner(UUID, "dead", back())
    assert storage.owner == ("one", 2)


def test_a_host_with_a_new_name_has_the_disks_of_its_server_back(storage: Storage) -> None:
    storage.take("one", 2)
    storage.disks.recognise(frozenset({"dead"}))
    for _ in range(2):
        storage.disks.require_owner(UUID, "renamed", back(host="renamed"))
    assert (storage.owner, storage.is_whole) == (("renamed", 1), True)


def test_the_old_host_that_returns_leaves_them(storage: Storage) -> None:
    storage.take("one", 2)
    storage.disks.remove(UUID, "dead", RowHost(host="one"))
    assert (storage.owner, storage.is_whole) == (("one", 2), True)


def test_bug_host_that_is_not_told_names_removed_the_disks_that_it_shares(storage: Storage) -> None:
    """The server was evacuated to a host whose mount of the folder failed, and which has made its disks anew elsewhere."""
    storage.disks.remove(UUID, "dead", RowHost(host=OTHER_HOST))
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


@pytest.mark.parametrize(
    ("row", "is_removed"),
    [
        (RowHost(host="elsewhere"), True),
        (RowHost(), True),
        (RowHost(host="two"), False),  # it shares the folder
        (RowHost(host="dead"), False),  # another host has the former name
        (RowHost(known=False), False),
        (RowHost(undone=True), False),
    ],
)
def test_bug_host_with_a_new_name_kept_its_copy_of_a_moved_guest(
    storage: Storage, row: RowHost, is_removed: bool
) -> None:
    register_host(storage.disks.path, "renamed")
    storage.disks.recognise(frozenset({"dead"}))
    storage.disks.remove(UUID, "renamed", row)
    assert storage.folder.exists() is not is_removed


def test_host_with_a_new_name_removes_no_disks_that_it_had_taken_over(storage: Storage) -> None:
    storage.take("one", 2)
    storage.disks.recognise(frozenset({"one"}))
    storage.disks.remove(UUID, "renamed", RowHost(host="elsewhere"))
    assert (storage.owner, storage.is_whole) == (("one", 2), True)


def test_bug_renamed_host_kept_the_disks_of_evacuated_servers_for_ever(storage: Storage) -> None:
    """Its former name alone stands beside its own in the folder: nobody shares it."""
    for host in ("one", "two"):
        (storage.folder.parent / disk_owner.HOSTS / host).unlink()
    register_host(storage.folder.parent, "former")
    storage.disks.recognise(frozenset({"former"}))
    storage.disks.remove(UUID, "dead", RowHost(host=OTHER_HOST))
    assert not storage.folder.exists()


def test_bug_former_name_of_a_host_that_another_one_has_now(storage: Storage) -> None:
    """The server runs there, on these disks."""
    for host in ("one", "two"):
        (storage.folder.parent / disk_owner.HOSTS / host).unlink()
    register_host(storage.folder.parent, "renamed")
    storage.disks.recognise(frozenset({"dead"}))
    storage.disks.remove(UUID, "renamed", RowHost(host=OTHER_HOST))
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)


def test_a_deletion_removes_them(storage: Storage) -> None:
    storage.take("one", 2)
    storage.disks.remove(UUID, "one", RowHost(host="one"))
    assert not storage.folder.exists()


def test_a_later_attempt_keeps_an_earlier_one_away(storage: Storage) -> None:
    storage.take("two", 3)
    with pytest.raises(DisksOfAnotherHost, match="of attempt 3 on host two"):
        storage.take("one", 2)


def test_an_owner_that_cannot_be_believed_is_no_owner(storage: Storage) -> None:
    storage.write(DiskOwner(host="dead", attempt=1, disk=1))  # an older release has replaced the disk since
    for _ in range(2):
        with pytest.raises(HypervisorError, match="is not recorded"):
            storage.take("one", 2)
        (storage.folder / disk_owner.OWNER).unlink(missing_ok=True)
    assert storage.disk.read_bytes() == b"precious"


def test_without_disks_there_is_nothing_to_take(storage: Storage) -> None:
    storage.disk.unlink()
    assert not storage.take("one", 2)
    assert not Disks(storage.folder / "elsewhere").take_over(UUID, "one", 2)


def test_disks_that_this_host_has_made_before_are_made_anew(storage: Storage) -> None:
    storage.write(DiskOwner(host="one", attempt=1, disk=disk_owner.inode(storage.disk)))
    assert not storage.take("one", 2)


def test_bug_an_evacuation_back_to_the_host_that_has_made_the_disks_makes_them_anew(storage: Storage) -> None:
    """A live migration on shared disks has brought the server to another host, which has died before it recorded that."""
    with pytest.raises(HypervisorError, match="which the server has left since"):
        storage.disks.take_over(UUID, "dead", 3, old_attempt=2)
    assert (storage.owner, storage.is_whole) == (("dead", 1), True)
    # What an earlier attempt of this evacuation has made is made anew.
    storage.write(DiskOwner(host="one", attempt=3, disk=disk_owner.inode(storage.disk)))
    assert not storage.disks.take_over(UUID, "one", 4, old_attempt=2)


def test_a_guest_that_still_runs_keeps_its_disks(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_locks, "is_open", lambda path: path == storage.disk)
    with pytest.raises(HypervisorError, match="the guest is not down"):
        storage.take("one", 2)
    assert storage.owner == ("dead", 1)


def test_what_was_taken_from_whom_is_read_by_any_release(storage: Storage) -> None:
    """A release without the field ignores it."""
    storage.take("one", 2)
    owner = disk_owner.read(storage.folder)
    assert owner is not None
    assert owner.taken_from == FormerOwner(host="dead", attempt=1)


def test_bug_host_of_an_evacuation_of_before_took_disks_back_after_a_move(storage: Storage) -> None:
    storage.take("one", 2)
    with disk_owner.locked(storage.folder) as owner:
        owner.hand_over("two", 3)
    with pytest.raises(DisksOfAnotherHost, match="are now of host two"):
        storage.disks.require_owner(UUID, "dead", back())
    assert storage.owner == ("two", 3)


def test_disks_of_an_unknown_attempt_are_not_taken_back(storage: Storage) -> None:
    """Any server of that host could claim them, also one of a restored database."""
    owner = DiskOwner(host="dead", attempt=disk_owner.UNKNOWN_ATTEMPT, disk=disk_owner.inode(storage.disk))
    storage.write(msgspec.structs.replace(owner, formats={"disk": "qcow2"}))
    storage.take("one", 2)
    with pytest.raises(DisksOfAnotherHost, match="are now of host one"):
        storage.disks.require_owner(UUID, "dead", back())
