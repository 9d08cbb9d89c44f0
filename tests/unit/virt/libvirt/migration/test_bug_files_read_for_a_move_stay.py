"""A process that died while it served a guest's files left copies of what libvirt keeps: of saved memory, as much as the guest has."""

from pathlib import Path

import msgspec
import pytest

from minova.virt.libvirt.migration import libvirt_files
from minova.virt.libvirt.storage import disk_owner
from minova.virt.libvirt.storage.disk_owner import DiskOwner

COPIES = ("memory.save", "memory.save.part", "nvram.fd", "tpm2.0.state")
KEPT = ("disk", "owner.json", "memory.save.3", "tpm2.0.state.3")


@pytest.mark.parametrize(
    ("owner", "left"), [("one", KEPT), ("two", KEPT + COPIES), (None, ("disk", *KEPT[2:], *COPIES))]
)
def test_next_process_removes_copies_beside_own_disks(tmp_path: Path, owner: str | None, left: tuple[str, ...]) -> None:
    """Another host, on shared storage, may serve its own now. What a move has brought here belongs to the guest."""
    folder = tmp_path / "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"
    folder.mkdir()
    for name in {*KEPT, *COPIES} - {disk_owner.OWNER}:
        (folder / name).write_bytes(b"x")
    if owner is not None:
        (folder / disk_owner.OWNER).write_bytes(msgspec.json.encode(DiskOwner(host=owner, attempt=1)))
    libvirt_files.remove_copies_for_moves(tmp_path, "one")
    assert {path.name for path in folder.iterdir()} == set(left)
