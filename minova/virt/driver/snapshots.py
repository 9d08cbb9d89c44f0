"""Copies of root disks while their guests run."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from minova.objects.servers.instance import Instance


class SnapshotDriver(Protocol):
    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        """Write the current root disk into this file, as a qcow2 image without a backing file. The guest continues to
        run.

        The guest's file systems are quiesced if its agent answers. Raises QuiesceFailed if the agent does not answer
        and the image requires it, NotFound if there is no domain. Raises SavedMemoryKept if the guest's memory is saved
        together with an overlay, which has its last writes. Meanwhile `check` is called several times a second; an
        exception of it ends the work.
        """
        ...

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        """Whether an overlay beside the instance's disk may have its last writes, with or without a domain, or is kept for an operator."""
        ...

    def open_snapshots(self) -> tuple[str, ...]:
        """Returns instances of this host whose last writes are in an overlay beside their disks, because of a snapshot
        in progress or an interrupted one.
        """
        ...

    def end_snapshot(self, instance_uuid: str, check: Callable[[], None] = ...) -> None:
        """Commit the last writes to the disk. A failure is logged and left to the next call. The guest continues to run
        meanwhile. `check` is called several times a second; an exception of it ends the wait, and not the commit.
        """
        ...
