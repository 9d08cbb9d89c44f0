"""A host has another name now. Servers that had a task meanwhile, or whose domain is lost, could not use their own disks: the record
named the former host, and no start, snapshot, rebuild or move of theirs was possible. Another host may have the former name now.
"""

from pathlib import Path

import msgspec
import pytest

from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport
from minova.objects.servers.instance import Instance
from minova.virt.libvirt.migration.moving_disks import MovingDisks
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import UNKNOWN_ATTEMPT, DiskOwner, FormerOwner
from minova.virt.libvirt.storage.disks import Disks

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FLAVOR = Flavor(flavorid="1", name="nano", vcpus=1, memory_mb=64, root_gb=1)
# Host `new` was `old` before.
ATTEMPT = 2


def server(host: str | None = "new", attempt: int = ATTEMPT) -> Instance:
    return Instance(uuid=UUID, display_name="one", flavor=FLAVOR, host=host, attempt=attempt)


def record(disks: Disks, host: str = "old", attempt: int = ATTEMPT, taken_from: FormerOwner | None = None) -> None:
    folder = disks.folder(UUID)
    disk_owner_note = DiskOwner(
        host=host,
        attempt=attempt,
        disk=disk_owner.inode(folder / "disk"),
        formats={"disk": "raw"},
        taken_from=taken_from,
    )
    (folder / disk_owner.OWNER).write_bytes(msgspec.json.encode(disk_owner_note))


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    folder = tmp_path / UUID
    folder.mkdir()
    (folder / "disk").write_bytes(b"precious")
    disks = Disks(tmp_path)
    disks.recognise(frozenset({"old"}))
    record(disks)
    return disks


def owner(disks: Disks) -> str:
    entry = disk_owner.read(disks.folder(UUID))
    assert entry is not None
    return entry.host


@pytest.mark.parametrize("taken_from", [None, FormerOwner(host="dead", attempt=1)])
def test_bug_a_renamed_host_could_not_use_its_own_disks(disks: Disks, taken_from: FormerOwner | None) -> None:
    record(disks, taken_from=taken_from)
    disks.require_owner(UUID, "new", server())
    assert owner(disks) == "new"
    disks.require_owner(UUID, "new")
    assert (disks.folder(UUID) / "disk").read_bytes() == b"precious"
    assert disk_owner.written_formats(disks.folder(UUID)) == {"disk": "raw"}


def test_bug_a_host_that_starts_with_a_new_name_owned_only_disks_of_idle_guests(disks: Disks) -> None:
    for _ in range(2):
        disks.own_renamed(server(), "new")
    assert (owner(disks), disks.attempt_of(UUID, "new")) == ("new", ATTEMPT)


def test_bug_a_renamed_host_could_not_use_disks_whose_attempt_is_not_known(disks: Disks) -> None:
    """They were made by a release without records, or copied."""
    record(disks, attempt=UNKNOWN_ATTEMPT)
    with pytest.raises(DisksOfAnotherHost):
        disks.require_owner(UUID, "new", server(host="old"))
    disks.require_owner(UUID, "new", server())
    assert owner(disks) == "new"


@pytest.mark.parametrize(
    ("row", "recorded"),
    [
        (server(host="old"), "old"),  # the server is on the host that has the name now
        (server(attempt=1), "old"),  # or it is there since: this request is late
        (server(attempt=3), "old"),  # or it was there before, with these disks: a broken move has left them
        (server(), "other"),
        (None, "old"),
    ],
)
def test_disks_that_another_host_may_have_made_are_not_its_own(
    disks: Disks, row: Instance | None, recorded: str
) -> None:
    record(disks, host=recorded)
    with pytest.raises(DisksOfAnotherHost, match=f"now of host {recorded}"):
        disks.require_owner(UUID, "new", row)
    if row is not None:
        disks.own_renamed(row, "new")
    assert owner(disks) == recorded


def test_a_broken_move_from_the_host_that_has_the_name_now_is_settled_as_before(disks: Disks) -> None:
    assert disks.are_left(server(attempt=3), "new")
    assert not disks.are_left(server(), "new")


# -- evacuations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old_attempt", "is_taken"),
    [
        (ATTEMPT, True),  # shared with the dead host, which has the former name now
        (3, False),  # this host's own copy, which the server has left long ago
        (1, False),
        (0, False),  # of a conductor that does not say it
    ],
)
def test_bug_an_evacuation_took_an_old_copy_of_a_former_name_for_the_disks_of_the_dead_host(
    disks: Disks, old_attempt: int, is_taken: bool
) -> None:
    if is_taken:
        assert disks.take_over(UUID, "new", 4, old_attempt)
        return
    with pytest.raises(HypervisorError, match="left as they are"):
        disks.take_over(UUID, "new", 4, old_attempt)
    assert owner(disks) == "old"
    assert (disks.folder(UUID) / "disk").read_bytes() == b"precious"


# -- moves ---------------------------------------------------------------------------------------------------------------


def begin(disks: Disks, row: Instance, attempt: int) -> dict[str, str]:
    export = DiskExport(host="a", attempt=1, address="192.0.2.1", port=1, files=())
    return MovingDisks(disks)._begin(row, "new", attempt, export, {"disk": "raw"})


def test_bug_a_renamed_destination_could_not_go_on_with_what_it_had_fetched(disks: Disks) -> None:
    assert begin(disks, server(host="a", attempt=1), ATTEMPT) == {"disk": "raw"}
    assert owner(disks) == "new"
    assert (disks.folder(UUID) / "disk").exists()


def test_bug_a_renamed_destination_kept_what_an_earlier_attempt_has_left(disks: Disks) -> None:
    begin(disks, server(host="a", attempt=2), 3)
    assert not (disks.folder(UUID) / "disk").exists()


def test_a_destination_takes_nothing_from_the_host_that_has_its_former_name_now(disks: Disks) -> None:
    with pytest.raises(HypervisorError, match="are of host old"):
        begin(disks, server(host="old"), 3)
    assert (disks.folder(UUID) / "disk").exists()
