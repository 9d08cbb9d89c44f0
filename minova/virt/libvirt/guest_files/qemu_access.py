"""Gives QEMU's user access to the files of guests through QEMU's group; all other users of the machine have none.

    state folder, instances, INSTANCES/UUID, _base   0750, QEMU's group: it may search
    disks, console.log                               0660: QEMU writes
    base images                                      0640: QEMU reads
    owner.json and all other files                   0600, minova's alone

libvirt gives disks and base images to QEMU's user when a guest starts (`dynamic_ownership`); their group then still lets
minova-compute read them. Where QEMU runs as minova-compute's own user, there is no group to let in.
"""

import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from minova.errors import InvalidConfiguration
from minova.private_files import FOLDER_MODE
from minova.virt.libvirt.guest_files import root_files

LOG = logging.getLogger(__name__)
WRITTEN, READ = 0o660, 0o640


class QemuUser(msgspec.Struct, frozen=True, kw_only=True):
    """The user and group as which libvirt runs QEMU."""

    uid: int
    gid: int


class QemuAccess:
    """`group` is QEMU's group, or None if QEMU runs as the same user as this process.
    `takes_back`: whether a file that belongs to root is one that libvirt has left behind.
    """

    def __init__(self, group: int | None = None, *, takes_back: bool = False) -> None:
        self._group = group
        self._takes_back = takes_back
        self._logged: set[Path] = set()

    @classmethod
    def of(cls, user: QemuUser | None) -> "QemuAccess":
        """Creates the access for this user. `user` is None if libvirt does not run QEMU as another user. Raises
        InvalidConfiguration if this process cannot share files with the user.
        """
        if user is None or user.uid == os.geteuid():
            return cls()
        if os.geteuid() and user.gid not in {os.getegid(), *os.getgroups()}:
            raise InvalidConfiguration(
                f"libvirt runs QEMU as user {user.uid} with group {user.gid}. Add the user of minova-compute ({os.geteuid()}) "
                "to that group, so that both can use the disks of guests"
            )
        return cls(user.gid, takes_back=os.geteuid() != 0 and user.uid != 0)

    @property
    def program_group(self) -> int | None:
        """The group as which a program without other rights reads the files; None if it needs the rights of this process."""
        return self._group if os.geteuid() == 0 else None

    def search(self, folders: Iterable[Path]) -> None:
        """Let QEMU search these folders. Raises InvalidConfiguration if one cannot be shared."""
        for folder in folders:
            try:
                self._share(folder, FOLDER_MODE)
            except OSError as error:
                raise InvalidConfiguration(
                    f"{folder} cannot be shared with QEMU's group {self._group}: {error.strerror}"
                ) from error

    def write(self, path: Path) -> None:
        self._share(path, WRITTEN)

    def read(self, path: Path) -> None:
        self._share(path, READ)

    def take_back(self, path: Path) -> None:
        """Make a file of a guest readable for this process again, if libvirt has left it to root. A failure is logged
        once.
        """
        try:
            if self._takes_back and path.lstat().st_uid == 0:
                root_files.take_back(path)
        except FileNotFoundError:
            return
        except Exception as error:  # noqa: BLE001  - the helper hands on errors of any kind; reading the file says what is missing
            if path not in self._logged:
                LOG.warning("%s belongs to root and cannot be taken back: %s", path, error)
            self._logged.add(path)

    def _share(self, path: Path, mode: int) -> None:
        if self._group is None:
            return
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            path = path.resolve()
            status = path.stat()
        if status.st_gid != self._group:
            os.chown(path, -1, self._group)
        # A base image may belong to QEMU's user by now, and only its owner can change the mode.
        if stat.S_IMODE(status.st_mode) != mode and (os.geteuid() in {0, status.st_uid} or mode & ~status.st_mode):
            path.chmod(mode)


def folders_above(instances: Path, state: Path) -> list[Path]:
    """Returns the folders of minova that lead to the files of guests: from the state folder down, if the instances are
    in it.
    """
    folders = [folder for folder in (instances, *instances.parents) if folder == state or state in folder.parents]
    return [*reversed(folders or [instances])]
