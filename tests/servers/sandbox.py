"""Runs a command with the limits of a systemd unit, where no systemd runs: `command(...)` gives the words to start it.

What a unit asks for is done as systemd does it: a mount namespace of its own in which all is read-only but ReadWritePaths, with
new /tmp, /dev and /proc and without homes; its user and capabilities; a filter of system calls. Not done are the limits that need
namespaces of other kinds or control groups: PrivateUsers, ProtectHostname, IPC.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.servers.kept_paths import ENTER, ROOT, KeptPaths, bind, checked, mount
from tests.servers.libvirtd import ACCOUNT_FILES, with_accounts

UNITS = ROOT / "etc" / "systemd"
STATE = "/var/lib/minova"
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"

_LIBC = ctypes.CDLL(None, use_errno=True)
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1
_PR_SET_MDWE, _REFUSE_EXEC_GAIN = 65, 1
_CLONE_NAMESPACES = 0x7E020080
_UNKNOWN_CALL = -1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}


def command(
    unit: str, words: Iterable[str], *, writable: Path, keep: Iterable[Path], uid: int, groups: Iterable[int]
) -> list[str]:
    """`unit`: of etc/systemd. `writable` stands for the unit's state folder. `keep`: paths that stay although the unit hides homes
    and /tmp. `uid` is the user and group, `groups` the others of the unit, which need not exist here.
    """
    options = [
        f"--writable={writable}",
        f"--uid={uid}",
        *(f"--group={gid}" for gid in groups),
        *(f"--keep={path}" for path in keep),
    ]
    return [*ENTER, __file__, *options, str(UNITS / f"{unit}.service"), "--", *map(str, words)]


def settings(unit: Path) -> dict[str, list[str]]:
    """The words of each setting of [Service]; an empty value begins anew, as in systemd."""
    values_by_setting: dict[str, list[str]] = {}
    for line in unit.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            values_by_setting[name] = [
                *values_by_setting.get(name, []),
                *([value] if name == "SystemCallFilter" else value.split()),
            ]
    return values_by_setting


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _set_read_only(path: str, *, on: bool) -> None:
    attributes = _MountAttributes(attr_set=_RDONLY * on, attr_clr=_RDONLY * (not on))
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    checked(
        _LIBC.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_RECURSIVE, ctypes.byref(attributes), size), path
    )


def enter(unit: dict[str, list[str]], writable: Path, keep: list[Path], uid: int) -> None:
    """Make the file systems of the unit for this user."""
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["ReadWritePaths"] == [STATE]
    kept = KeptPaths((*keep, writable), uid)
    hidden = [
        path
        for path, setting in (("/tmp", "PrivateTmp"), ("/home", "ProtectHome"), ("/root", "ProtectHome"))
        if unit[setting] == ["yes"]
    ]
    for place in hidden:
        mount("none", place, "tmpfs", data="mode=1777" if place == "/tmp" else "mode=755")
    if unit["PrivateDevices"] == ["yes"]:
        _new_devices()
    kept.show()
    _new_accounts()
    options = {"ProtectProc": "hidepid", "ProcSubset": "subset"}
    mount(
        "proc",
        "/proc",
        "proc",
        data=",".join(f"{name}={unit[setting][0]}" for setting, name in options.items() if setting in unit),
    )
    _set_read_only("/", on=True)
    for place in (str(writable), "/tmp", "/dev"):
        _set_read_only(place, on=False)


def _new_accounts() -> None:
    """The unit's user has an entry, which libvirt looks for."""
    for original, line in ACCOUNT_FILES.values():
        lines = with_accounts(Path(original).read_text(), line)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(lines)
            file.flush()
            Path(file.name).chmod(0o644)
            bind(file.name, Path(original))


def _new_devices() -> None:
    numbers = {name: Path(f"/dev/{name}").stat().st_rdev for name in _DEVICES}
    shared = os.open("/dev/shm", os.O_PATH)
    mount("none", "/dev", "tmpfs", data="mode=755")
    for name, number in numbers.items():
        os.mknod(f"/dev/{name}", 0o666 | stat.S_IFCHR, number)
        Path(f"/dev/{name}").chmod(0o666)
    Path("/dev/shm").mkdir()
    bind(f"/proc/self/fd/{shared}", Path("/dev/shm"))


def allowed_calls(lines: list[str]) -> set[str]:
    """The system calls of SystemCallFilter lines, with systemd's own lists of them."""
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True
    )
    sets: dict[str, list[str]] = {}
    members: list[str] = []
    for line in listed.stdout.splitlines():
        if line.startswith("@"):
            members = sets.setdefault(line.strip(), [])
        elif line.startswith("    ") and not line.strip().startswith("#"):
            members.append(line.strip())

    def calls(name: str) -> Iterator[str]:
        if not name.startswith("@"):
            yield name
        for member in sets.get(name, ()):
            yield from calls(member)

    call_names = set(calls("@default"))
    for line in lines:
        names = {call for name in line.removeprefix("~").split() for call in calls(name)}
        call_names = call_names - names if line.startswith("~") else call_names | names
    return call_names


def filter_calls(unit: dict[str, list[str]]) -> None:
    # libseccomp's own binding, which Debian has and the package index has not.
    sys.path.append(DEBIAN_PACKAGES)
    import seccomp  # noqa: PLC0415

    if unit["MemoryDenyWriteExecute"] == ["yes"]:
        checked(_LIBC.prctl(_PR_SET_MDWE, _REFUSE_EXEC_GAIN, 0, 0, 0), "PR_SET_MDWE")
    calls = allowed_calls(unit["SystemCallFilter"])
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    if unit["RestrictNamespaces"] == ["yes"]:
        calls -= {"unshare", "setns", "clone", "clone3"}
        rules.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_NAMESPACES, 0))
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    for family in unit["RestrictAddressFamilies"]:
        rules.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.EQ, _FAMILIES[family]))
    for call in sorted(calls - {"socket"}):
        if seccomp.resolve_syscall(seccomp.Arch(), call) != _UNKNOWN_CALL:  # a call of another architecture
            rules.add_rule(seccomp.ALLOW, call)
    rules.load()


def _setpriv(unit: dict[str, list[str]], uid: int, groups: list[int]) -> list[str]:
    def change(option: str, setting: str) -> str:
        names = [f"+{name.removeprefix('CAP_').lower()}" for name in unit.get(setting, [])]
        return f"--{option}=" + ",".join(["-all", *names])

    assert unit["NoNewPrivileges"] == ["yes"]
    others = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    capabilities = [
        change("bounding-set", "CapabilityBoundingSet"),
        change("inh-caps", "AmbientCapabilities"),
        change("ambient-caps", "AmbientCapabilities"),
    ]
    return ["setpriv", "--no-new-privs", f"--reuid={uid}", f"--regid={uid}", others, *capabilities]


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a command with the limits of a systemd unit.")
    parser.add_argument("--writable", type=Path)
    parser.add_argument("--keep", type=Path, action="append", default=[])
    parser.add_argument("--uid", type=int)
    parser.add_argument("--group", type=int, action="append", default=[])
    parser.add_argument("unit", type=Path)
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    unit = settings(options.unit)
    if options.uid is None:
        # As the unit's user by now.
        filter_calls(unit)
        os.umask(int(unit["UMask"][0], 8))
        os.execvp(options.words[0], options.words)
    enter(unit, options.writable, options.keep, options.uid)
    again = [sys.executable, "-P", __file__, str(options.unit), "--", *options.words]
    become = [*_setpriv(unit, options.uid, options.group), *again]
    os.execvp(become[0], become)


if __name__ == "__main__":
    main()
