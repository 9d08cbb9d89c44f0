"""Records which host owns disks: several hosts may share one instances_path.

INSTANCES/.hosts/HOST       each host that keeps disks in this folder: so hosts see that they share it (Nova's way, too)
INSTANCES/UUID/owner.json   the host and build attempt that made the disks, the inode of the root disk, and each file's format

A host takes the lock of an owner file before it makes or removes the disks beside it. The inode shows when a host that
writes no owner file (an older release) has replaced the disk since.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from minova.codecs import Decoder
from minova.errors import DisksOfAnotherHost, HypervisorError
from minova.objects.servers.disk_export import PciAddresses
from minova.private_files import make_folder, sync_folder

LOG = logging.getLogger(__name__)
OWNER, HOSTS, ROOT_DISK = "owner.json", ".hosts", "disk"
# The next owner file in the making. One that a crash has left is overwritten.
PART = f"{OWNER}.part"
# Seconds to wait for a process, perhaps on another host, that works on the same disks.
LOCK_WITHIN = 10.0
PAUSE = 0.05
# In the record of disks that came without one, see `OwnerFile.own`. No attempt of a build has this number.
UNKNOWN_ATTEMPT = 0


class FormerDisk(msgspec.Struct, frozen=True, kw_only=True):
    """A root disk that a new one will replace, together with the disks beside it. `format` is None if no format was recorded for it.

    `formats`: of all disks; empty from releases that recorded that of the root disk alone. `secrets`: see `DiskOwner`.
    """

    inode: int
    format: str | None
    formats: dict[str, str] = {}
    secrets: dict[str, str] = {}


class FormerOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The host and build attempt that made disks which another host has taken over."""

    host: str
    attempt: int


class DiskOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an owner file.

    `disk`: the inode of the root disk; None while it is being made.
    `formats`: {file name: format}; empty from releases that recorded none.
    `drive_is_cd`: whether the config drive was made as a CD.
    `former`: the root disk that existed when this one was begun.
    `addresses`: where the guest has its devices; None if that is not known.
    `secrets`: {kind: mark} of the secrets with which disks and TPM were made (`disk_keys.mark_of`).
    `shown`: the UUID of the last migration for which this host has described these disks to a destination.
    `taken_from`: an evacuation has brought the server here, with its disks. They go back to this host if it fails.
    """

    host: str
    attempt: int
    disk: int | None = None
    formats: dict[str, str] = {}
    drive_is_cd: bool = True
    former: FormerDisk | None = None
    taken_from: FormerOwner | None = None
    addresses: PciAddresses | None = None
    secrets: dict[str, str] = {}
    shown: str = ""


class SecretsInUse(msgspec.Struct, frozen=True, kw_only=True):
    """Which secrets encrypt what is there. `marks`: see `DiskOwner.secrets`. `replaced`: a rebuild has not replaced it yet."""

    marks: dict[str, str] = {}
    replaced: bool = True


_OWNER = Decoder(DiskOwner)


class OwnerFile:
    """The open and locked owner file of one instance's folder."""

    def __init__(self, folder: Path, file: BinaryIO) -> None:
        self._folder = folder
        self._file = file

    def read(self) -> DiskOwner | None:
        """Returns the entry, or None if no host is recorded as owner of these disks."""
        self._file.seek(0)
        try:
            return _OWNER.from_json(self._file.read())
        except msgspec.MsgspecError:
            return None

    def write(self, owner: DiskOwner) -> None:
        """After a crash at any point, and for readers without the lock, the file is the former or the new one. A failure leaves the former
        one.

        The lock is on the file itself: the new one is locked before it gets the name. A process that waits for the former one finds
        another inode under the name, and waits for that.
        """
        path = self._folder / OWNER
        part = path.with_name(PART)
        part.unlink(missing_ok=True)
        new = _open(part)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(new, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.write(msgspec.json.encode(owner))
            new.flush()
            os.fsync(new.fileno())
            part.rename(path)
        except BaseException:
            new.close()
            part.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file = new
        sync_folder(self._folder)

    def close(self) -> None:
        self._file.close()

    def take(self, entry: DiskOwner) -> DiskOwner:
        """Record that this attempt makes the disks, in these formats; an existing root disk keeps its own format until
        it is replaced. Returns the written entry. Raises DisksOfAnotherHost if a later attempt on another host has made the
        disks.
        """
        owner = self.read()
        if owner is not None and owner.host != entry.host and owner.attempt > entry.attempt:
            raise DisksOfAnotherHost(f"The disks in {self._folder} are of attempt {owner.attempt} on host {owner.host}")
        if owner is not None:
            entry = msgspec.structs.replace(entry, addresses=owner.addresses)
        present_inode = inode(self._folder / ROOT_DISK)
        if present_inode is not None:
            formats = {} if owner is None else _formats_now(self._folder, owner)
            marks = {} if owner is None else _secrets_now(self._folder, owner).marks
            former = FormerDisk(inode=present_inode, format=formats.get(ROOT_DISK), formats=formats, secrets=marks)
            entry = msgspec.structs.replace(entry, former=former)
        self.write(entry)
        return entry

    def take_over(
        self, host: str, attempt: int, old_attempt: int = 0, former_hosts: frozenset[str] = frozenset()
    ) -> bool:
        """Record that this attempt of an evacuated server uses the disks as they are. Returns False if there is no root
        disk, or one that this host has made itself for an earlier attempt of the evacuation.

        Raises DisksOfAnotherHost if a later attempt has them. Raises HypervisorError if it is not known whose they are, or if this
        host has made them before `old_attempt`, with which the server was elsewhere: on shared storage they may be the ones that
        it had there. `former_hosts`: earlier names of this host; another one may have made what has such a name.
        """
        if inode(self._folder / ROOT_DISK) is None:
            return False
        owner = self.read()
        if owner is None or not _has_own_disk(self._folder, owner):
            raise HypervisorError(f"Whose the disks in {self._folder} are is not recorded: they are left as they are")
        if owner.taken_from is None and (owner.host == host or owner.host in former_hosts):
            if owner.host == host and owner.attempt > old_attempt:
                return False
            if owner.host == host or owner.attempt != old_attempt:
                raise HypervisorError(
                    f"The disks in {self._folder} are of attempt {owner.attempt} on this host ({owner.host}), which the server has "
                    "left since: they are left as they are"
                )
        if owner.attempt > attempt or (owner.attempt == attempt and owner.host != host):
            raise DisksOfAnotherHost(f"The disks in {self._folder} are of attempt {owner.attempt} on host {owner.host}")
        former = owner.taken_from or FormerOwner(host=owner.host, attempt=owner.attempt)
        self.write(msgspec.structs.replace(owner, host=host, attempt=attempt, taken_from=former))
        return True

    def hand_over(self, host: str, attempt: int) -> DiskOwner:
        """Record that this attempt of a moved server has the disks. Returns the written entry. Raises DisksOfAnotherHost if a
        later attempt has them, HypervisorError if it is not known whose they are.
        """
        entry = self.read()
        if entry is None or not self.is_of(entry.host):
            raise HypervisorError("Which host has made the disks is not recorded")
        if entry.attempt > attempt:
            raise DisksOfAnotherHost(f"The disks are of attempt {entry.attempt} on host {entry.host}")
        # An evacuation of before has succeeded: the host that it took the disks from has no claim to them any more.
        new_entry = msgspec.structs.replace(entry, host=host, attempt=attempt, taken_from=None)
        if new_entry != entry:  # a disk that is full needs no room for what stands there
            self.write(new_entry)
        return new_entry

    def own(self, host: str, formats: dict[str, str]) -> None:
        """Record that the disks are this host's: it has another name, they were copied here, or a release that keeps no record has made
        them. `formats`: by the domain, which may not name all of them.
        """
        entry, root = self.read(), inode(self._folder / ROOT_DISK)
        if entry is None:
            self.write(DiskOwner(host=host, attempt=UNKNOWN_ATTEMPT, disk=root, formats=formats))
        elif _has_own_disk(self._folder, entry):
            self.write(msgspec.structs.replace(entry, host=host, formats={**formats, **entry.formats}))
        else:
            self.write(
                msgspec.structs.replace(entry, host=host, disk=root, formats={**entry.formats, **formats}, former=None)
            )

    def note_formats(self, formats: dict[str, str]) -> dict[str, str]:
        """Record the formats of files that have none yet. Returns all recorded ones. Disks that no host is recorded to own have no
        record.
        """
        entry = self.read()
        if entry is None:
            return {}
        noted = {**formats, **entry.formats}
        if noted != entry.formats:
            self.write(msgspec.structs.replace(entry, formats=noted))
        return noted

    def is_taken_over(self, host: str) -> bool:
        """Whether this host has the disks from another one, with an evacuation."""
        owner = self.read()
        return owner is not None and owner.host == host and owner.taken_from is not None

    def give_back(self) -> None:
        """Undo `take_over`."""
        owner = self.read()
        if owner is not None and owner.taken_from is not None:
            former = {"host": owner.taken_from.host, "attempt": owner.taken_from.attempt}
            self.write(msgspec.structs.replace(owner, **former, taken_from=None))

    def is_of(self, host: str) -> bool:
        """Whether this host made the existing disks."""
        owner = self.read()
        return owner is not None and owner.host == host and _has_own_disk(self._folder, owner)


def _has_own_disk(folder: Path, owner: DiskOwner) -> bool:
    """Whether the existing root disk is the one that the owner made, or the one that it had to replace."""
    root_inode = inode(folder / ROOT_DISK)
    return owner.disk is None or root_inode is None or root_inode == owner.disk or _is_former(root_inode, owner)


def _is_former(root_inode: int | None, owner: DiskOwner) -> bool:
    return owner.former is not None and root_inode == owner.former.inode and root_inode != owner.disk


def _formats_now(folder: Path, owner: DiskOwner) -> dict[str, str]:
    """Returns the formats of the existing files. A disk opened in the format of its successor would be destroyed, or
    QEMU would trust a header that the guest has written (CVE-2015-7548).
    """
    if not _is_former(inode(folder / ROOT_DISK), owner):
        return owner.formats if _has_own_disk(folder, owner) else {}
    former = owner.former
    assert former is not None
    # Successors have these names until all of them are complete.
    formats = {f"{name}.part": written for name, written in owner.formats.items()}
    formats |= former.formats or {name: written for name, written in owner.formats.items() if name != ROOT_DISK}
    return formats if former.format is None else {**formats, ROOT_DISK: former.format}


def written_formats(folder: Path) -> dict[str, str]:
    """Returns {file name: format} as recorded by the owner. Empty if none is recorded, by an older release or not yet.

    It takes no lock, so that an audit does not wait for a build.
    """
    owner = read(folder)
    return _formats_now(folder, owner) if owner is not None else {}


def secrets_in_use(folder: Path) -> SecretsInUse:
    owner = read(folder)
    return SecretsInUse() if owner is None else _secrets_now(folder, owner)


def _secrets_now(folder: Path, owner: DiskOwner) -> SecretsInUse:
    if owner.former is not None and _is_former(inode(folder / ROOT_DISK), owner):
        return SecretsInUse(marks=owner.former.secrets, replaced=False)
    return SecretsInUse(marks=owner.secrets)


def drive_is_cd(folder: Path) -> bool:
    """Whether the config drive in the folder was made as a CD."""
    owner = read(folder)
    return owner is None or owner.drive_is_cd


def read(folder: Path) -> DiskOwner | None:
    try:
        return _OWNER.from_json((folder / OWNER).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


@contextmanager
def locked(folder: Path, *, make: bool = False) -> Iterator[OwnerFile]:
    """Yields the locked owner file of this folder; creates both if `make` is set. Raises FileNotFoundError if there is
    no folder.

    Raises HypervisorError if another process holds the lock.
    """
    until = time.monotonic() + LOCK_WITHIN
    while True:
        if make:
            make_folder(folder)
        try:
            file = _open(folder / OWNER)
        except FileNotFoundError:
            if make and time.monotonic() < until:
                continue  # another process has just removed the folder
            raise
        with closing(OwnerFile(folder, file)) as owner:
            _lock(file, folder, until)
            if inode(folder / OWNER) == os.fstat(file.fileno()).st_ino:
                yield owner
                return


def _open(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")


def _lock(file: BinaryIO, folder: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise HypervisorError(
                    f"The disks in {folder} are in use by another process for {LOCK_WITHIN:g} s"
                ) from None
        except OSError as error:
            LOG.warning("%s cannot be locked (%s): hosts that share it are not kept apart", folder, error.strerror)
            return
        time.sleep(PAUSE)


def inode(path: Path) -> int | None:
    """Returns the inode, or None if the file does not exist."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


# -- hosts of a folder -------------------------------------------------------------------------------------------------


def register_host(instances_path: Path, host: str) -> None:
    """Record that this host keeps disks here."""
    folder = instances_path / HOSTS
    make_folder(folder)
    (folder / host).touch()


def other_hosts(instances_path: Path, host: str) -> frozenset[str]:
    """Returns the other hosts that keep disks in this folder."""
    try:
        return frozenset(path.name for path in (instances_path / HOSTS).iterdir()) - {host}
    except FileNotFoundError:
        return frozenset()
