"""The folders of all guests of a host, INSTANCES/UUID: what they take, what their disks are based on, and their console logs."""

import logging
import os
import re
import shutil
import uuid
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from oslo_utils import units

from minova.errors import HypervisorError, UnknownDiskFormat
from minova.private_files import make_folder
from minova.virt.driver.disks import LeftDisks
from minova.virt.libvirt.guest_files import console_logs, disk_formats
from minova.virt.libvirt.guest_files.qemu_access import QemuAccess
from minova.virt.libvirt.storage import disk_owner

LOG = logging.getLogger(__name__)
# Matches names of folders of instances.
_UUID = "-".join("[0-9a-f]" * length for length in (8, 4, 4, 4, 12))
CONSOLE_BYTES = 100 * 1024
RESCUE_DISK = "disk.rescue"
# Lies beside the root disk during a snapshot. Not named disk.*, since it is not a disk of the flavor.
OVERLAY, OVERLAY_RECORD = "snapshot.overlay", "snapshot.json"
# Overlays whose writes no record explains.
KEPT_OVERLAYS = "snapshot.kept-*"
_ROTATED = re.compile(r"console\.log\.\d+")


class SpaceUsage(NamedTuple):
    """The usage of a file system, in bytes; `free` excludes the space reserved for root."""

    total: int
    used: int
    free: int


class GuestFolders:
    def __init__(self, instances_path: Path) -> None:
        self.path = instances_path.absolute()
        self._qemu = QemuAccess()

    def folder(self, instance_uuid: str) -> Path:
        """Returns the folder of the instance. Raises ValueError if the name is not a UUID, since it could lead
        anywhere.
        """
        return self.path / str(uuid.UUID(instance_uuid))

    def console_log(self, instance_uuid: str) -> Path:
        return self.folder(instance_uuid) / console_logs.NAME

    def share_written(self, path: Path) -> None:
        """Share a file with QEMU's user for writing."""
        self._qemu.write(path)

    def take_back(self, path: Path) -> None:
        """Make a file readable for this process again, if libvirt has left it to root."""
        self._qemu.take_back(path)

    def with_rescue_disk(self) -> tuple[str, ...]:
        """Returns the names of the folders with a rescue disk."""
        return tuple(path.parent.name for path in sorted(self.path.glob(f"{_UUID}/{RESCUE_DISK}")))

    def left_disks(self, host: str, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        """Returns the disks of this host of instances that are not in `with_domain`. Leaves out what cannot be read, and
        folders that have no UUID as their name, such as copies that people made.
        """
        left_disks = []
        for file in sorted(self.path.glob(f"{_UUID}/{disk_owner.OWNER}")):
            uuid = file.parent.name
            entry = None if uuid in with_domain else disk_owner.read(file.parent)
            if entry is not None and entry.host == host:
                with suppress(OSError):
                    used = sum(path.stat().st_blocks * 512 for path in file.parent.glob("disk*"))
                    left_disks.append(LeftDisks(uuid=uuid, attempt=entry.attempt, disk_gb=-(-used // units.Gi)))
        return tuple(left_disks)

    def attempt_of(self, instance_uuid: str, host: str) -> int | None:
        """Returns the attempt that has made the disks of the instance; None if this host owns none."""
        entry = disk_owner.read(self.folder(instance_uuid))
        return entry.attempt if entry is not None and entry.host == host else None

    def bound_console_logs(self, host: str, limit: int) -> None:
        """Empty each console log of more than `limit` bytes; its last `limit` bytes are kept beside it.

        Logs of guests whose disks belong to another host are left alone. Failures are logged.
        """
        for log in self.path.glob(f"*/{console_logs.NAME}"):
            try:
                if log.stat().st_size <= limit:
                    continue
                self._qemu.take_back(log)
                with disk_owner.locked(log.parent) as owner:
                    entry = owner.read()
                    if (entry is None or entry.host == host) and console_logs.bound(log, limit):
                        LOG.info("Console log %s had more than %d bytes and was emptied", log, limit)
            except FileNotFoundError:  # removed meanwhile
                continue
            except (OSError, HypervisorError) as error:
                LOG.warning("Console log %s has more than %d bytes and cannot be emptied: %s", log, limit, error)

    def console_output(self, instance_uuid: str) -> str:
        """Returns the end of the guest's output, at most 100 kB, as Nova does."""
        log = self.console_log(instance_uuid)
        former_log = b""
        # virtlogd rotates a log to .0, .1 and so on, the oldest last.
        rotated = sorted(path for path in log.parent.glob(f"{console_logs.NAME}.*") if _ROTATED.fullmatch(path.name))
        for path in (log, *rotated):
            self._qemu.take_back(path)
            with suppress(FileNotFoundError):
                former_log = _tail(path, CONSOLE_BYTES - len(former_log)) + former_log
        return former_log.decode(errors="replace")

    def usage(self) -> SpaceUsage:
        make_folder(self.path)
        space = shutil.disk_usage(self.path)
        return SpaceUsage(space.total, space.used, space.free)

    def growth(self) -> int:
        """Returns the bytes by which the thin disks here may still grow."""
        disks = 0
        for folder in self.path.glob("*"):
            try:
                disks += sum(disk_formats.growth(path, written) for path, written in self._files(folder))
            except OSError as error:  # the other guests of the host still count
                LOG.warning("The growth of the disks in %s is unknown: %s", folder, error.strerror)
        return disks + sum(disk_formats.growth(path, disk_formats.QCOW2) for path in self._overlays())

    def with_open_snapshot(self) -> tuple[str, ...]:
        """Returns the names of the folders in which a snapshot is open."""
        return tuple(path.parent.name for path in self._overlays())

    def _overlays(self) -> Iterator[Path]:
        for path in sorted(self.path.glob(f"*/{OVERLAY}")):
            self._qemu.take_back(path)
            yield path

    def bases_in_use(self) -> frozenset[str]:
        """Returns names of the files on which the disks here are based.

        Raises UnknownDiskFormat if no format is recorded for a disk, so that its base cannot be determined.
        """
        backing: set[str | None] = set()
        for folder in self.path.glob("*"):
            try:
                backing.update(self._backing_files(folder))
            except OSError as error:
                raise UnknownDiskFormat(f"{error.filename or folder} cannot be read: {error.strerror}") from error
        return frozenset(Path(name).name for name in backing if name)

    def _backing_files(self, folder: Path) -> Iterator[str | None]:
        for path, written in self._files(folder):
            if written is None:
                raise UnknownDiskFormat(
                    f"No format is written down for {path}: its own host does that when its minova-compute starts; "
                    "remove the file if it belongs to no instance"
                )
            yield disk_formats.backing_file(path, written)

    def _files(self, folder: Path) -> Iterator[tuple[Path, str | None]]:
        """Yields each disk in the folder with its recorded format, if any. A half-made disk has the format recorded for
        its final name. Raises OSError.
        """
        files = sorted(folder.glob("disk*"))
        formats = disk_owner.written_formats(folder) if files else {}
        for path in files:
            self._qemu.take_back(path)
            yield path, formats.get(path.name) or formats.get(path.name.removesuffix(".part"))

    def direct_io(self) -> bool:
        """Whether the file system can do O_DIRECT, which QEMU's cache mode none needs."""
        probe = self.path / f".direct-io-{os.getpid()}"
        try:
            os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
        return True


def _tail(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - length))
        return file.read(length)
