"""How a guest goes over from the overlay of a snapshot to its disk."""

from pathlib import Path

import pytest

from minova.virt.libvirt.storage.disk_snapshots import DiskSnapshots
from minova.virt.libvirt.storage.disks import Disks
from minova.virt.libvirt.storage.guest_folders import OVERLAY

UUID = "5d3a1f9e-2a0b-4f8e-9d5c-0c7a8b1f2e11"


class Guest:
    """A domain that runs from its overlay, and whose commit goes on and on."""

    def __init__(self, overlay: Path) -> None:
        self._overlay = overlay

    def UUIDString(self) -> str:  # noqa: N802
        return UUID

    def isActive(self) -> bool:  # noqa: N802
        return True

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        return (
            f"""<domain><devices><disk><source file='{self._overlay}'/><target dev='vda'/></disk></devices></domain>"""
        )

    def blockJobInfo(self, target: str) -> dict[str, int]:  # noqa: N802
        return {"cur": 1, "end": 2}


def test_long_commit_tells_that_it_goes_on_and_can_be_left(tmp_path: Path) -> None:
    overlay, asked = tmp_path / UUID / OVERLAY, 0
    overlay.parent.mkdir()
    overlay.touch()

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        DiskSnapshots(Disks(tmp_path), lambda: 0).settle(UUID, Guest(overlay), check)
    # The next call goes on with it.
    assert overlay.exists()
