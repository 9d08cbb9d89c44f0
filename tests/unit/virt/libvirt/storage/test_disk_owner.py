"""The format of each disk stands in the file that says whose the disks are."""

from pathlib import Path

import msgspec
import pytest

from minova.virt.libvirt.storage.disk_owner import (
    OWNER,
    DiskOwner,
    FormerDisk,
    SecretsInUse,
    inode,
    read,
    secrets_in_use,
    written_formats,
)
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.xml.disk_xml import disk_formats_of

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
FORMATS = {"disk": "qcow2", "disk.swap": "raw"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guest_folder = tmp_path / UUID
    guest_folder.mkdir()
    (guest_folder / "disk").write_bytes(b"x")
    return guest_folder


def write(folder: Path, **fields: object) -> None:
    owner_fields: dict[str, object] = {"host": "hv1", "attempt": 1, "disk": inode(folder / "disk"), "formats": FORMATS}
    (folder / OWNER).write_bytes(msgspec.json.encode(owner_fields | fields))


def test_formats_are_read_back(folder: Path) -> None:
    write(folder)
    assert written_formats(folder) == FORMATS


@pytest.mark.parametrize("data", [b"", b"{", b'{"host": "hv1", "attempt": 1}', b'{"host": "hv1", "formats": 3}'])
def test_owner_files_of_older_releases_and_broken_ones_tell_no_format(folder: Path, data: bytes) -> None:
    (folder / OWNER).write_bytes(data)
    assert written_formats(folder) == {}


def test_disk_that_an_older_release_has_replaced_has_no_written_format(folder: Path) -> None:
    write(folder, disk=(inode(folder / "disk") or 0) + 1)
    assert written_formats(folder) == {}


def test_formats_of_an_older_release_come_from_the_domain(folder: Path) -> None:
    Disks(folder.parent).own(UUID, "hv1", lambda: FORMATS)
    assert written_formats(folder) == FORMATS
    # Once written down they are not asked for again.
    Disks(folder.parent).own(UUID, "hv1", lambda: {"disk": "raw"})
    assert written_formats(folder) == FORMATS


def test_formats_are_added_to_an_owner_file_without_them(folder: Path) -> None:
    (folder / OWNER).write_bytes(msgspec.json.encode(DiskOwner(host="hv1", attempt=7, disk=inode(folder / "disk"))))
    Disks(folder.parent).own(UUID, "hv1", lambda: FORMATS)
    assert written_formats(folder) == FORMATS
    assert msgspec.json.decode((folder / OWNER).read_bytes(), type=DiskOwner).attempt == 7


def test_bug_renamed_host_forgot_what_it_knew_of_its_disks(folder: Path) -> None:
    """The domain of a rescued guest names neither its root disk nor its ephemeral ones."""
    former = FormerDisk(inode=inode(folder / "disk") or 0, format="raw", secrets={"disks": "f"})
    entry = DiskOwner(host="old", attempt=7, disk=5, formats=FORMATS, former=former, secrets={"disks": "n"})
    (folder / OWNER).write_bytes(msgspec.json.encode(entry))
    before = secrets_in_use(folder)
    Disks(folder.parent).own(UUID, "new", lambda: {"disk.rescue": "qcow2"})
    renamed = {**FORMATS, "disk.rescue": "qcow2"}
    assert read(folder) == msgspec.structs.replace(entry, host="new", formats=renamed)
    assert secrets_in_use(folder) == before == SecretsInUse(marks={"disks": "f"}, replaced=False)


def test_copied_disks_keep_their_formats_and_secrets(folder: Path) -> None:
    entry = DiskOwner(host="hv1", attempt=7, disk=1, formats=FORMATS, secrets={"tpm": "n"}, drive_is_cd=False)
    (folder / OWNER).write_bytes(msgspec.json.encode(entry))
    Disks(folder.parent).own(UUID, "hv1", lambda: {"disk.rescue": "qcow2"})
    here = inode(folder / "disk")
    assert read(folder) == msgspec.structs.replace(entry, disk=here, formats={**FORMATS, "disk.rescue": "qcow2"})


def test_formats_in_a_domain() -> None:
    xml = f"""<domain><devices>
        <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/a/{UUID}/disk'/></disk>
        <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/a/{UUID}/disk.swap'/></disk>
        <disk type='file' device='cdrom'><driver name='qemu' type='raw'/></disk>
        <disk type='file' device='disk'><driver name='qemu'/><source file='/a/{UUID}/disk.eph0'/></disk>
        <disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='/elsewhere/disk'/></disk>
        <disk type='block' device='disk'><driver name='qemu' type='raw'/><source dev='/dev/sdb'/></disk>
        </devices></domain>"""
    assert disk_formats_of(xml, UUID) == FORMATS


def test_a_folder_of_another_name_is_no_guest(folder: Path) -> None:
    """A copy that a person made: conductors refuse a report with a guest whose name is no UUID."""
    write(folder, host="hv1")
    copy = folder.with_name(f"{UUID}.bak")
    copy.mkdir()
    write(copy, host="hv1")
    assert [left.uuid for left in Disks(folder.parent).left_disks("hv1", ())] == [UUID]
