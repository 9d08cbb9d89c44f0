"""The files of a service belong to its own user: no other user of the machine may read them.

The umask gives new files mode 0600 and new sockets 0700. Folders have 0750, so that an administrator may share one with
a group: minova-compute shares the folders of disks with QEMU's group.
"""

import logging
import os
import re
import stat
import threading
from collections.abc import Iterable
from pathlib import Path

LOG = logging.getLogger(__name__)
UMASK = 0o077
FOLDER_MODE = 0o750
_OTHERS = stat.S_IRWXO
# Matches a line of a configuration file that contains a password, either alone or in a URL.
_PASSWORD = re.compile(r"^\s*(?:\w*password\s*=\s*\S|\w+\s*=\s*\S+://[^\s/]*:[^\s/]+@)", re.MULTILINE)


def set_umask() -> None:
    """Set the umask of the whole process. Call it before any thread runs."""
    os.umask(UMASK)


def make_folder(path: Path) -> None:
    """Make the folder and its missing parents."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    path.chmod(FOLDER_MODE)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in place of an earlier one. After a crash at any point, the file is the earlier or the new one, and
    the new one once this has returned. Several processes may write the same file. Raises OSError; then the file is the
    earlier one.
    """
    half = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.rename(path)
    except OSError:
        half.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, so that new and renamed files outlive a power cut."""
    sync(folder)


def sync(path: Path) -> None:
    """Write the bytes of a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def close_to_others(paths: Iterable[Path]) -> None:
    """Remove the rights of all other users from files that an earlier release made. Files that belong to another user
    stay as they are.
    """
    for path in paths:
        try:
            status = path.lstat()
            if status.st_uid != os.geteuid() or not status.st_mode & _OTHERS:
                continue
            # A sticky folder, such as /tmp, is meant for all users, and a link has no rights of its own.
            if not stat.S_ISLNK(status.st_mode) and not status.st_mode & stat.S_ISVTX:
                path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
                LOG.info("Other users can no longer read %s", path)
        except (FileNotFoundError, PermissionError):
            # A folder above it is closed to this service, which says so where it needs the file.
            continue
        except OSError as error:
            LOG.warning("Other users may be able to read %s: %s", path, error.strerror)


def readable_by_others(path: Path) -> bool:
    """Returns whether the file's mode lets every user read it; False if there is no such file."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def holds_password(path: Path) -> bool:
    """Returns whether a line of this configuration file contains a password. Raises OSError."""
    return _PASSWORD.search(path.read_text(errors="replace")) is not None
