"""The disks of instances, as files: INSTANCES/UUID/disk, disk.eph0, disk.swap, console.log.

Each is made under a temporary name and renamed, so that what has its final name is whole. Whose they are, where hosts share
the folder, is in `disk_owner`.
"""

import logging
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from minova.errors import (
    HardwareNotOffered,
    HypervisorUnavailable,
    ImageUnacceptable,
    InvalidConfiguration,
    StaleAttempt,
    UnknownDiskFormat,
)
from minova.objects.instance import Instance
from minova.private_files import make_folder
from minova.virt import image_format, programs
from minova.virt.disk_space import disk_full
from minova.virt.driver import RowHost
from minova.virt.inspections import inspect_once
from minova.virt.libvirt import disk_owner
from minova.virt.libvirt.disk_owner import DiskOwner, OwnerFile
from minova.virt.libvirt.guest_files import console_logs, disk_formats
from minova.virt.libvirt.guest_files.qemu_access import QemuAccess, QemuUser, folders_above
from minova.virt.libvirt.guest_xml import Disk

LOG = logging.getLogger(__name__)
MB, GB = 1 << 20, 1 << 30
CONSOLE_BYTES = 100 * 1024
_PACKAGES = {"qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs", "mkswap": "util-linux"}
_ROTATED = re.compile(r"console\.log\.\d+")


class SpaceUsage(NamedTuple):
    """Of a file system, in bytes; `free` is what is not kept for root."""

    total: int
    used: int
    free: int


class Disks:
    """Those of one host. Errors: DiskFull; HypervisorUnavailable when a program fails."""

    def __init__(self, instances_path: Path) -> None:
        self.path = instances_path.absolute()
        self._qemu = QemuAccess()

    def check(self) -> None:
        """InvalidConfiguration: a program or the folder cannot be used."""
        programs.require(_PACKAGES)
        try:
            make_folder(self.path)
        except OSError as error:
            raise InvalidConfiguration(f"[DEFAULT] instances_path = {self.path}: {error.strerror}") from error

    def let_in(self, user: QemuUser | None, state_path: Path) -> None:
        """Let QEMU's user reach the disks, those of existing guests too. Raises InvalidConfiguration if it cannot."""
        self._qemu = QemuAccess.of(user)
        self._qemu.search(folders_above(self.path, state_path.absolute()))

    def folder(self, instance_uuid: str) -> Path:
        """ValueError: the name is not a UUID, and could lead anywhere."""
        return self.path / str(uuid.UUID(instance_uuid))

    def console_log(self, instance_uuid: str) -> Path:
        return self.folder(instance_uuid) / console_logs.NAME

    def plan(self, instance: Instance) -> tuple[Disk, ...]:
        """The disks that the instance's flavor gives it."""
        folder, flavor = self.folder(instance.uuid), instance.flavor
        wanted = {"disk": True, "disk.eph0": flavor.ephemeral_gb, "disk.swap": flavor.swap}
        return tuple(
            Disk(path=str(folder / name), driver_format=disk_formats.FORMATS[name])
            for name, is_wanted in wanted.items()
            if is_wanted
        )

    def make(self, instance: Instance, base: "Base", host: str, attempt: int) -> None:
        """Make every disk anew. StaleAttempt: a later attempt on another host has made them. HardwareNotOffered: the image
        is larger than the whole file system here, and the flavor gives the disk no other size.
        """
        folder = self.folder(instance.uuid)
        what = f"Disks of instance {instance.uuid} in {self.path}"
        if not instance.flavor.root_gb and base.virtual_size > self.usage().total:
            # Placement counts no disk for such a flavor, so that nothing else compares the image's size with the host's.
            raise HardwareNotOffered(
                f"Image of virtual size {base.virtual_size} bytes: larger than the host's disk, and flavor "
                f"{instance.flavor.name} sets no other size"
            )
        formats = {Path(disk.path).name: disk.driver_format for disk in self.plan(instance)}
        with disk_full(what), disk_owner.locked(folder, make=True) as owner:
            owner.take(host, attempt, formats)
            self._share(folder, base)
            made = lambda disk: owner.write(  # noqa: E731
                DiskOwner(host=host, attempt=attempt, disk=disk, formats=formats)
            )
            _overlay(folder / "disk", base, instance.flavor.root_gb * GB, made, self._qemu)
            if instance.flavor.ephemeral_gb:
                mkfs = ("mkfs.ext4", "-q", "-F", "-L", "ephemeral0")
                _formatted(folder / "disk.eph0", instance.flavor.ephemeral_gb * GB, *mkfs, qemu=self._qemu)
            if instance.flavor.swap:
                _formatted(folder / "disk.swap", instance.flavor.swap * MB, "mkswap", qemu=self._qemu)

    def _share(self, folder: Path, base: "Base") -> None:
        """With QEMU's user: the folders and the base image. The console log is made here, because it is read here."""
        self._qemu.search((folder, base.path.parent))
        self._qemu.read(base.path)
        log = folder / console_logs.NAME
        log.touch(mode=0o600)
        self._qemu.write(log)

    def require_owner(self, instance_uuid: str, host: str) -> None:
        """StaleAttempt: on shared storage another host has made these disks since."""
        with suppress(FileNotFoundError), disk_owner.locked(self.folder(instance_uuid)) as owner:
            entry = owner.read()
            if entry is not None and entry.host != host:
                raise StaleAttempt(f"The disks of instance {instance_uuid} are now of host {entry.host}")

    def remove(self, instance_uuid: str, host: str, row: RowHost) -> None:
        """Remove the folder with all in it, if it belongs to this host. What is not there is fine.

        HypervisorUnavailable: it cannot be removed, or no one knows whose it is.
        """
        folder = self.folder(instance_uuid)
        try:
            with disk_owner.locked(folder) as owner:
                kept = self._kept(instance_uuid, owner, host, row)
                if kept:
                    LOG.warning("The files in %s are not removed: %s", folder, kept)
                    return
                _remove_folder(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            path = error.filename or folder
            raise HypervisorUnavailable(f"{path} cannot be removed: {error.strerror or error}") from error

    def _kept(self, instance_uuid: str, owner: OwnerFile, host: str, row: RowHost) -> str | None:
        """Why the files must stay; None if they may go. Raises HypervisorUnavailable if that is unknown now."""
        entry, own = owner.read(), owner.is_of(host)
        if row.known and row.host == host:
            return None
        if row.known and row.host is not None:
            if not own:
                return f"instance {instance_uuid} is on host {row.host}, and host {host} has not made them"
            shared = row.host in disk_owner.other_hosts(self.path, host)
            return f"instance {instance_uuid} is on host {row.host}, which shares this folder" if shared else None
        if own or (entry is None and row.known):
            return None
        if entry is None:
            raise HypervisorUnavailable(f"Whether the disks of instance {instance_uuid} may go is not known yet")
        return f"host {entry.host} has made them"

    def own(self, instance_uuid: str, host: str, formats: Callable[[], dict[str, str]] = dict) -> None:
        """Put the host's name to disks that are known to be its own, and of which no owner file says so.

        `formats` is asked for the format of each file where none is written down.
        """
        folder = self.folder(instance_uuid)
        with suppress(FileNotFoundError), disk_owner.locked(folder) as owner:
            entry, own = owner.read(), owner.is_of(host)
            if own and entry is not None and entry.formats:
                return
            known = formats()
            if own and not known:
                return
            attempt = entry.attempt if entry is not None else 0
            disk = disk_owner.inode(folder / disk_owner.ROOT_DISK)
            owner.write(DiskOwner(host=host, attempt=attempt, disk=disk, formats=known))

    def bound_console_logs(self, host: str, limit: int) -> None:
        """Empty each console log of more than `limit` bytes; its last `limit` bytes are kept beside it.

        Logs of guests whose disks are another host's are left alone. What cannot be done is logged.
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
            except (OSError, HypervisorUnavailable) as error:
                LOG.warning("Console log %s has more than %d bytes and cannot be emptied: %s", log, limit, error)

    def console_output(self, instance_uuid: str) -> str:
        """The last of what the guest has printed, at most 100 kB of it, as Nova gives it."""
        log = self.console_log(instance_uuid)
        kept = b""
        # virtlogd turns a log over to .0, .1 and so on, the oldest last.
        rotated = sorted(path for path in log.parent.glob(f"{console_logs.NAME}.*") if _ROTATED.fullmatch(path.name))
        for path in (log, *rotated):
            self._qemu.take_back(path)
            with suppress(FileNotFoundError):
                kept = _tail(path, CONSOLE_BYTES - len(kept)) + kept
        return kept.decode(errors="replace")

    def usage(self) -> SpaceUsage:
        make_folder(self.path)
        space = shutil.disk_usage(self.path)
        return SpaceUsage(space.total, space.used, space.free)

    def growth(self) -> int:
        """Bytes that the thin disks here may still grow by."""
        return sum(disk_formats.growth(path, written) for path, written in self._files())

    def bases_in_use(self) -> frozenset[str]:
        """Names of the files that the disks here stand on.

        UnknownDiskFormat: there is a disk of which no format is written down, so that its base cannot be told.
        """
        backing = set()
        for path, written in self._files():
            if written is None:
                raise UnknownDiskFormat(
                    f"No format is written down for {path}: its own host does that when its minova-compute starts; "
                    "remove the file if it belongs to no instance"
                )
            backing.add(disk_formats.backing_file(path, written))
        return frozenset(Path(name).name for name in backing if name)

    def _files(self) -> Iterator[tuple[Path, str | None]]:
        """Each disk with the format that is written down for it, if any. A half-made one has that of its name."""
        for folder in self.path.glob("*"):
            files = sorted(folder.glob("disk*"))
            formats = disk_owner.written_formats(folder) if files else {}
            for path in files:
                self._qemu.take_back(path)
                yield path, formats.get(path.name.removesuffix(".part"))

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


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """An image's file that an instance's disk may stand on."""

    path: Path
    disk_format: str
    virtual_size: int

    @classmethod
    def of(cls, instance: Instance, path: Path | None) -> "Base":
        """ImageUnacceptable: there is none, it is not what it says, or it is too large for the flavor."""
        image, flavor = instance.image, instance.flavor
        if image is None or path is None:
            raise ImageUnacceptable(f"Instance {instance.uuid} names no image to boot from")
        facts = inspect_once(path, image.disk_format)
        reasons = image_format.unfit(image, flavor, facts.virtual_size)
        if reasons:
            raise ImageUnacceptable(f"Image {image.id} does not fit flavor {flavor.name}: {'; '.join(reasons)}")
        return cls(path=path.absolute(), disk_format=facts.disk_format, virtual_size=facts.virtual_size)


def _remove_folder(folder: Path) -> None:
    """The owner file goes last: what is left after an error still says whose it is."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != disk_owner.OWNER:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder)


def _overlay(path: Path, base: Base, size: int, made: Callable[[int], None], qemu: QemuAccess) -> None:
    """`made` hears the inode of the disk before it has its name.

    With `-u` qemu-img does not open the base, which strangers have made: its format and its size are known by inspection.
    """
    if not base.path.is_file():
        raise HypervisorUnavailable(f"Base image {base.path} is missing")
    part = path.with_name(f"{path.name}.part")
    command = ["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-F", base.disk_format, "-b", str(base.path)]
    try:
        programs.write_with(part, command, programs.Limits(), str(size or base.virtual_size))
        qemu.write(part)
        made(part.stat().st_ino)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _formatted(path: Path, size: int, *command: str, qemu: QemuAccess) -> None:
    """A thin raw file with a file system or swap area in it."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.truncate(size)
        part.chmod(0o600)
        programs.write_with(part, command, programs.Limits(file_size=size))
        qemu.write(part)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _tail(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - length))
        return file.read(length)
