"""Whose disks these are: several hosts may share one instances_path.

INSTANCES/.hosts/HOST       each host that keeps disks in this folder: so hosts see that they share it (Nova's way, too)
INSTANCES/UUID/owner.json   the host and build attempt that made the disks, the inode of the root disk, and each file's format

A host takes the lock of an owner file before it makes or removes the disks beside it. The inode tells when a host that
writes no owner file (an older release) has replaced the disk since.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from minova.codecs import Decoder
from minova.errors import HypervisorUnavailable, StaleAttempt
from minova.private_files import make_folder

LOG = logging.getLogger(__name__)
OWNER, HOSTS, ROOT_DISK = "owner.json", ".hosts", "disk"
# Seconds to wait for a process, perhaps on another host, that works on the same disks.
LOCK_WITHIN = 10.0
PAUSE = 0.05


class FormerDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A root disk that a new one is to replace. `format` None: none was written down for it."""

    inode: int
    format: str | None


class DiskOwner(msgspec.Struct, frozen=True, kw_only=True):
    """`disk` is the inode of the root disk; None while it is being made. `formats`: how each file was made, by its name;
    empty from releases that wrote none down. `drive_is_cd`: as what the config drive was made. `former`: the root disk that was
    there when this one was begun.
    """

    host: str
    attempt: int
    disk: int | None = None
    formats: dict[str, str] = {}
    drive_is_cd: bool = True
    former: FormerDisk | None = None


_OWNER = Decoder(DiskOwner)


class OwnerFile:
    """The open and locked owner file of one instance's folder."""

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self._folder = folder
        self._file = file

    def read(self) -> DiskOwner | None:
        """None: no host has put its name to these disks."""
        self._file.seek(0)
        try:
            return _OWNER.from_json(self._file.read())
        except msgspec.MsgspecError:
            return None

    def write(self, owner: DiskOwner) -> None:
        # In place: the lock is on this very file.
        self._file.seek(0)
        self._file.truncate()
        self._file.write(msgspec.json.encode(owner))
        self._file.flush()
        os.fsync(self._file.fileno())

    def take(self, entry: DiskOwner) -> DiskOwner:
        """This attempt makes the disks, in these formats; a root disk that is there keeps its own until it is replaced. Answers
        what is written. StaleAttempt: a later attempt on another host has made them.
        """
        owner = self.read()
        if owner is not None and owner.host != entry.host and owner.attempt > entry.attempt:
            raise StaleAttempt(f"The disks in {self._folder} are of attempt {owner.attempt} on host {owner.host}")
        there = inode(self._folder / ROOT_DISK)
        if there is not None:
            known = {} if owner is None else _formats_now(self._folder, owner)
            entry = msgspec.structs.replace(entry, former=FormerDisk(inode=there, format=known.get(ROOT_DISK)))
        self.write(entry)
        return entry

    def is_of(self, host: str) -> bool:
        """Whether this host made what is there now."""
        owner = self.read()
        return owner is not None and owner.host == host and _made(self._folder, owner)


def _made(folder: Path, owner: DiskOwner) -> bool:
    """Whether the root disk that is there now is the one that the owner made, or was to replace."""
    root_inode = inode(folder / ROOT_DISK)
    return owner.disk is None or root_inode is None or root_inode == owner.disk or _is_former(root_inode, owner)


def _is_former(root_inode: int | None, owner: DiskOwner) -> bool:
    return owner.former is not None and root_inode == owner.former.inode and root_inode != owner.disk


def _formats_now(folder: Path, owner: DiskOwner) -> dict[str, str]:
    """Of the files that are there. A disk opened in the format of its successor would be destroyed, or be one whose header
    the guest has written (CVE-2015-7548).
    """
    if not _is_former(inode(folder / ROOT_DISK), owner):
        return owner.formats if _made(folder, owner) else {}
    former = owner.former.format if owner.former is not None else None
    formats = {name: written for name, written in owner.formats.items() if name != ROOT_DISK}
    # The successor has this name until it is whole.
    formats |= {f"{ROOT_DISK}.part": owner.formats[ROOT_DISK]} if ROOT_DISK in owner.formats else {}
    return formats if former is None else {**formats, ROOT_DISK: former}


def written_formats(folder: Path) -> dict[str, str]:
    """The format of each file as its owner wrote it down, by name. Empty where none is: by an older release, or just now.

    It takes no lock, so that an audit waits for no build.
    """
    owner = _read(folder)
    return _formats_now(folder, owner) if owner is not None else {}


def drive_is_cd(folder: Path) -> bool:
    """As what the config drive in the folder was made."""
    owner = _read(folder)
    return owner is None or owner.drive_is_cd


def _read(folder: Path) -> DiskOwner | None:
    try:
        return _OWNER.from_json((folder / OWNER).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


@contextmanager
def locked(folder: Path, *, make: bool = False) -> Iterator[OwnerFile]:
    """The owner file of this folder, made with it if `make`. FileNotFoundError: there is no folder.

    HypervisorUnavailable: another process holds it.
    """
    until = time.monotonic() + LOCK_WITHIN
    while True:
        if make:
            make_folder(folder)
        try:
            file = open_owner(folder)
        except FileNotFoundError:
            if make and time.monotonic() < until:
                continue  # another process has just removed the folder
            raise
        with file:
            _lock(file, folder, until)
            if inode(folder / OWNER) == os.fstat(file.fileno()).st_ino:
                yield OwnerFile(folder, file)
                return


def open_owner(folder: Path) -> BinaryIO:
    handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    return os.fdopen(handle, "r+b")


def _lock(file: BinaryIO, folder: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise HypervisorUnavailable(
                    f"The disks in {folder} are in use by another process for {LOCK_WITHIN:g} s"
                ) from None
        except OSError as error:
            LOG.warning("%s cannot be locked (%s): hosts that share it are not kept apart", folder, error.strerror)
            return
        time.sleep(PAUSE)


def inode(path: Path) -> int | None:
    """None: it is not there."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


# -- hosts of a folder -------------------------------------------------------------------------------------------------


def register_host(instances_path: Path, host: str) -> None:
    """Say that this host keeps disks here."""
    folder = instances_path / HOSTS
    make_folder(folder)
    (folder / host).touch()


def other_hosts(instances_path: Path, host: str) -> frozenset[str]:
    """The other hosts that keep disks in this folder."""
    try:
        return frozenset(path.name for path in (instances_path / HOSTS).iterdir()) - {host}
    except FileNotFoundError:
        return frozenset()
