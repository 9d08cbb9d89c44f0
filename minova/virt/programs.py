"""Runs programs that make disks: with limits, as a user without rights, and with explicit formats.

    prlimit: CPU time, memory, file size, open files --> setpriv: nobody, no groups, no new rights --> qemu-img, mkfs, mkswap

If the service runs as root, the program becomes `nobody`. It gets the one file that it writes as an open descriptor, so
that it needs no right to any folder; it cannot reach any other file. Neither step runs code between fork and exec,
which is unsafe in a process with threads.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
from oslo_utils import units

from minova.errors import DiskFull, HypervisorError, InvalidConfiguration
from minova.virt.disk_space import says_disk_full

# The time limit in seconds for a program that copies nothing.
WITHIN = 120.0
# Seconds between two checks whether a copy is still wanted.
CHECK_EVERY = 0.2
# The user without rights on every Linux.
NOBODY = 65534
# Includes the folders where Debian installs programs for administrators.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_PACKAGES = {"prlimit": "util-linux", "setpriv": "util-linux"}
_COMPLAINT = 1000


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run: seconds of CPU time (`cpu`) and of elapsed time (`within`), bytes of address space and of the
    largest file, and open files.
    """

    cpu: int = 60
    within: float = WITHIN
    memory: int = 2048 * units.Mi
    file_size: int = 64 * units.Mi
    open_files: int = 64


def require(packages: dict[str, str]) -> None:
    """Raises InvalidConfiguration if one of these programs, or a program that starts them, is not installed or not
    allowed.
    """
    for name, package in (_PACKAGES | packages).items():
        if shutil.which(name, path=PATH) is None:
            raise InvalidConfiguration(f"{name} is not installed (Debian package {package})")
    try:
        _run(["true"], RunLimits(), ())
    except HypervisorError as error:
        raise InvalidConfiguration(
            f"Programs cannot be started with limits, as root without rights (CAP_SETUID, CAP_SETGID): {error}"
        ) from error


def write_with(
    path: Path,
    command: Sequence[str],
    limits: RunLimits,
    *after: str,
    inherited: Sequence[int] = (),
    named: str = "{}",
    check: Callable[[], None] | None = None,
) -> None:
    """Run a program on one file: its arguments are `command`, the name of the file in the pattern `named`, and `after`. The file
    is created if needed, readable by this user only. `inherited`: other descriptors that the program gets. `check`: as for `copy_with`.

    Raises DiskFull, or HypervisorError with the program's error text if the program fails.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    as_nobody = os.geteuid() == 0
    try:
        if as_nobody:
            os.fchown(handle, NOBODY, NOBODY)
        _run([*command, named.format(f"/proc/self/fd/{handle}"), *after], limits, (handle, *inherited), check)
    finally:
        if as_nobody:
            os.fchown(handle, 0, 0)
        os.close(handle)


def convert(
    source: Path, path: Path, command: Sequence[str], limits: RunLimits, *, inherited: Sequence[int] = ()
) -> None:
    """Run a program that reads one file and writes another: its arguments are `command`, the name of the source, and
    the name of the other file.

    The source must belong to this process, since its ownership passes to the program. Raises as `write_with`.
    """
    handle = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.geteuid() == 0:
            os.fchown(handle, NOBODY, NOBODY)
        write_with(path, [*command, f"/proc/self/fd/{handle}"], limits, inherited=(handle, *inherited))
    finally:
        os.close(handle)


def copy_with(
    path: Path, source: Path, command: Sequence[str], limits: RunLimits, check: Callable[[], None] | None = None
) -> None:
    """Run a program that reads `source`, whose name is in the command, and writes one file, whose name is the last
    argument.

    If the service runs as root, the program becomes a user without rights in the group of `source`, if that group may
    read it. `check` is called several times a second; an exception of it ends the program. Raises as `write_with`.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    status = source.stat()
    group = status.st_gid if os.geteuid() == 0 and status.st_gid and status.st_mode & 0o040 else None
    try:
        if group is not None:
            os.fchown(handle, NOBODY, group)
        words = [*command, f"/proc/self/fd/{handle}"]
        prefixed = limited(words, limits, drop_rights=group is not None, group=group or NOBODY)
        _wait(_started(prefixed, (handle,)), words[0], check, None)
    finally:
        if group is not None:
            os.fchown(handle, 0, 0)
        os.close(handle)


def run(
    command: Sequence[str], limits: RunLimits, *, answers: Collection[int] = (0,), inherited: Sequence[int] = ()
) -> int:
    """Run a program with the rights of the service, because it opens files by their names. Returns its exit code, which
    is one of `answers`.

    Raises as `write_with`, and HypervisorError if the command takes longer than its limit of CPU time.
    """
    started = _started(limited(command, limits, drop_rights=False), inherited)
    return _wait(started, command[0], None, float(limits.cpu), answers)


def let_read(folder: Path) -> None:
    """Give a folder and everything in it to the user as which the programs run."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def limited(command: Sequence[str], limits: RunLimits, *, drop_rights: bool, group: int = NOBODY) -> list[str]:
    """Returns the command prefixed with `prlimit`, and with `setpriv` if it must drop the rights of root."""
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
        words += ["setpriv", f"--reuid={NOBODY}", f"--regid={group}", *rights, "--"]
    return [*words, *command]


def _run(
    command: Sequence[str], limits: RunLimits, handles: Sequence[int], check: Callable[[], None] | None = None
) -> None:
    started = _started(limited(command, limits, drop_rights=os.geteuid() == 0), handles)
    _wait(started, command[0], check, limits.within)


def _started(command: Sequence[str], handles: Sequence[int]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # Nothing of the service's own environment, which may contain secrets.
        env={"LC_ALL": "C", "PATH": PATH},
        stdin=subprocess.DEVNULL,
        cwd="/",
        pass_fds=tuple(handles),
    )


def _wait(
    process: "subprocess.Popen[str]",
    name: str,
    check: Callable[[], None] | None,
    within: float | None,
    answers: Collection[int] = (0,),
) -> int:
    """Wait for the program and return its exit code, one of `answers`. `within` is the limit in seconds; None: no limit, as long as `check` raises nothing."""
    until = None if within is None else time.monotonic() + within
    with process:
        while True:
            try:
                output, complaint = process.communicate(timeout=CHECK_EVERY if check is not None else within)
                break
            except subprocess.TimeoutExpired as error:
                if until is not None and time.monotonic() >= until:
                    process.kill()
                    raise HypervisorError(f"{name}: no end within {within:g} s") from error
            _checked(process, check)
    if process.returncode in answers:
        return process.returncode
    words = " ".join((complaint or output).split())[:_COMPLAINT] or f"exit code {process.returncode}"
    if says_disk_full(words):
        raise DiskFull(f"{name}: {words}")
    raise HypervisorError(f"{name}: {words}")


def _checked(process: "subprocess.Popen[str]", check: Callable[[], None] | None) -> None:
    try:
        if check is not None:
            check()
    except BaseException:
        process.kill()
        raise
