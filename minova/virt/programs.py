"""Programs that make disks: with limits, as a user without rights, and with explicit formats.

    prlimit: CPU time, memory, file size, open files --> setpriv: nobody, no groups, no new rights --> qemu-img, mkfs, mkswap

Of a service that runs as root the program becomes `nobody`. It gets the one file that it is to write as an open descriptor, so
that it needs no right to any folder; every other file is out of its reach. Neither step runs code between fork and exec, which
a process with threads must not.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from minova.errors import DiskFull, HypervisorUnavailable, InvalidConfiguration
from minova.virt.disk_space import says_disk_full

MB = 1 << 20
# Seconds: none of these programs copies anything.
WITHIN = 120.0
# The user without rights of every Linux.
NOBODY = 65534
# Where Debian keeps what only administrators call.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_PACKAGES = {"prlimit": "util-linux", "setpriv": "util-linux"}
_COMPLAINT = 1000


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may take: seconds of CPU time, bytes of address space and of the largest file, open files."""

    cpu: int = 60
    memory: int = 2048 * MB
    file_size: int = 64 * MB
    open_files: int = 64


def require(packages: dict[str, str]) -> None:
    """InvalidConfiguration: one of these programs, or what starts them, is not installed or not allowed."""
    for name, package in (_PACKAGES | packages).items():
        if shutil.which(name, path=PATH) is None:
            raise InvalidConfiguration(f"{name} is not installed (Debian package {package})")
    try:
        _run(["true"], Limits(), None)
    except HypervisorUnavailable as error:
        raise InvalidConfiguration(
            f"Programs cannot be started with limits, as root without rights (CAP_SETUID, CAP_SETGID): {error}"
        ) from error


def write_with(path: Path, command: Sequence[str], limits: Limits, *after: str) -> None:
    """Run a program on one file: `command`, the file's name there, and `after`. The file is made if need be, for this user alone.

    Raises DiskFull; HypervisorUnavailable when the program fails, with its words.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    as_nobody = os.geteuid() == 0
    try:
        if as_nobody:
            os.fchown(handle, NOBODY, NOBODY)
        _run([*command, f"/proc/self/fd/{handle}", *after], limits, handle)
    finally:
        if as_nobody:
            os.fchown(handle, 0, 0)
        os.close(handle)


def limited(command: Sequence[str], limits: Limits, *, drop_rights: bool) -> list[str]:
    """The command behind `prlimit`, and behind `setpriv` if it is to lose the rights of root."""
    words = [
        "prlimit",
        f"--cpu={limits.cpu}",
        f"--as={limits.memory}",
        f"--fsize={limits.file_size}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--",
    ]
    if drop_rights:
        rights = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        words += ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", *rights, "--"]
    return [*words, *command]


def _run(command: Sequence[str], limits: Limits, handle: int | None) -> None:
    name = command[0]
    try:
        done = subprocess.run(
            limited(command, limits, drop_rights=os.geteuid() == 0),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WITHIN,
            # Nothing of the service's own surroundings, which may hold secrets.
            env={"LC_ALL": "C", "PATH": PATH},
            stdin=subprocess.DEVNULL,
            cwd="/",
            pass_fds=() if handle is None else (handle,),
        )
    except subprocess.TimeoutExpired as error:
        raise HypervisorUnavailable(f"{name}: no end within {WITHIN:g} s") from error
    if done.returncode == 0:
        return
    words = " ".join((done.stderr or done.stdout).split())[:_COMPLAINT] or f"exit code {done.returncode}"
    if says_disk_full(words):
        raise DiskFull(f"{name}: {words}")
    raise HypervisorUnavailable(f"{name}: {words}")
