"""A private libvirtd with the QEMU driver, in a mount namespace of its own: the tests' and the demo's hypervisor.

    python -m tests.servers.libvirtd start DIR    # prints the URI; lives on
    python -m tests.servers.libvirtd stop DIR     # ends it with all its guests

It sees the machine's files as everyone does, but its own folders in place of /etc/libvirt, /run/libvirt and so on: a
libvirtd of the machine itself is neither seen nor disturbed.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import uuid
from pathlib import Path
from typing import Any

from tests.servers.private_server import PrivateServer, ServerError, end_server, keeper_of, program

# Debian's libvirt looks this user and group up before it reads that it shall be another. They come with
# libvirt-daemon-system, together with services that the tests must not start; so they are shown to libvirtd alone.
ACCOUNT, ACCOUNT_ID = "libvirt-qemu", 64055
# A user for clients that are not root: libvirtd looks them up.
CLIENT, CLIENT_ID = "minova-tests", 64999
ACCOUNTS = ((ACCOUNT, ACCOUNT_ID), (CLIENT, CLIENT_ID))
ACCOUNT_FILES = {
    "passwd": ("/etc/passwd", "{0}:x:{1}:{1}::/var/lib/libvirt:/usr/sbin/nologin\n"),
    "group": ("/etc/group", "{0}:x:{1}:\n"),
}
# Each of these folders is the private one named beside it, as far as this libvirtd can see.
FOLDERS = {
    "etc": "/etc/libvirt",
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
LIBVIRTD_CONF = """\
listen_tls = 0
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
host_uuid = "{host_uuid}"
log_outputs = "2:stderr"
"""
# Root and no ownership games, so that guests may use files wherever the tests put them; or ACCOUNT, and libvirtd gives it the
# disks, as Debian has it. No namespace per guest, as this one holds them all; logs go to plain files, since there is no virtlogd.
QEMU_CONF = """\
user = "{user}"
group = "{user}"
dynamic_ownership = {dynamic}
remember_owner = 0
security_driver = "none"
namespaces = []
stdio_handler = "file"
hugetlbfs_mount = "{huge_pages}"
"""
# Control groups are hidden: libvirt then leaves them alone, whatever their version and manager, and two
# private libvirtds cannot meet in one group because their guests have the same name. Pages of 2 MiB are there for guests
# where the kernel has any; a kernel without them runs all other guests.
ENTER = """\
set -eu
directory=$1; shift
while [ "$1" != -- ]; do
    [ -e "$2" ] || mkdir -p "$2"
    mount --bind "$directory/$1" "$2"
    shift 2
done
shift
umount --recursive --lazy /sys/fs/cgroup 2>/dev/null || true
if [ "$NETWORKS" = 1 ]; then
    mount -t sysfs sysfs /sys
    ip link set lo up
fi
mount -t hugetlbfs -o pagesize=2M none "$directory/huge" 2>/dev/null || true
exec "$@"
"""


class Libvirtd(PrivateServer):
    """Reached at `uri`. Its guests live on when it is stopped, killed and started again; `close` ends them too."""

    name = "libvirtd"
    close_signal = signal.SIGTERM
    outlived = True

    def __init__(
        self, directory: Path | None = None, *, qemu_user: str = "root", networks: bool = False, **options: Any
    ) -> None:
        """`networks`: in a network namespace of its own, where it may make bridges and translate addresses."""
        super().__init__(directory, **options)
        self._qemu_user = qemu_user
        self._networks = networks

    @property
    def uri(self) -> str:
        return uri_of(self.directory)

    @property
    def proc_net(self) -> Path:
        """Where the kernel shows its network namespace."""
        return Path(f"/proc/{self.pid}/net")

    def prepare(self) -> None:
        if os.geteuid() != 0:
            raise ServerError("a private libvirtd needs root, to make its mount namespace")
        program("qemu-system-x86_64", "qemu-system-x86")
        if self._networks:
            _remove_left_networks()
        if len(os.fsencode(socket_of(self.directory))) > 107:
            raise ServerError(f"{self.directory} is too long a path for libvirt's socket: use a shorter one")
        for folder in (*FOLDERS, "huge"):
            (self.directory / folder).mkdir(exist_ok=True)
        configuration = self.directory / "etc" / "libvirtd.conf"
        if not configuration.exists():
            # Many machines have no usable UUID of their own, and a compute node must keep its one.
            configuration.write_text(LIBVIRTD_CONF.format(host_uuid=uuid.uuid4()))
        (self.directory / "etc" / "qemu.conf").write_text(
            QEMU_CONF.format(
                user=self._qemu_user, dynamic=int(self._qemu_user != "root"), huge_pages=self.directory / "huge"
            )
        )
        for name, (original, line) in ACCOUNT_FILES.items():
            (self.directory / name).write_text(with_accounts(Path(original).read_text(), line))

    def close(self) -> None:
        super().close()
        if self._networks:
            _remove_left_networks()

    def command(self) -> list[str]:
        own = ["--mount", "--propagation=slave", *(["--net"] if self._networks else [])]
        enter = ["unshare", *own, "sh", "-c", ENTER, "sh", str(self.directory)]
        shown = FOLDERS | {name: original for name, (original, _) in ACCOUNT_FILES.items()}
        places = [word for pair in shown.items() for word in pair]
        libvirtd = program("libvirtd", "libvirt-daemon")
        return [*enter, *places, "--", libvirtd, f"--pid-file={self.directory}/libvirtd.pid"]

    def environment(self) -> dict[str, str]:
        # No bus, so that no systemd of the machine takes the guests under its wing.
        return dict(os.environ) | {
            # swtpm, which has a user of its own, writes there. The folder of the tests belongs to root.
            "TMPDIR": "/tmp",
            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
            "NETWORKS": str(int(self._networks)),
        }

    def answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(socket_of(self.directory))
                return True
        except OSError:
            return False


def _remove_left_networks() -> None:
    from tests.servers.left_networks import remove_left_networks  # noqa: PLC0415  - the demo runs this file without minova's packages

    remove_left_networks()


def with_accounts(lines: str, line: str) -> str:
    """The lines of /etc/passwd or /etc/group, with ACCOUNTS."""
    known_accounts = {each.partition(":")[0] for each in lines.splitlines()}
    return lines + "".join(line.format(*account) for account in ACCOUNTS if account[0] not in known_accounts)


def socket_of(directory: Path) -> str:
    return str(directory / "run" / "libvirt-sock")


def uri_of(directory: Path) -> str:
    """The connection URI of the private libvirtd in `directory`."""
    return f"qemu+unix:///system?socket={socket_of(directory)}"


def start(directory: Path) -> None:
    """Start one that outlives this process; where one is running already that is the one."""
    keeper = keeper_of(directory)
    server = Libvirtd(directory)
    if keeper is not None and server.answers():
        return
    if keeper is not None:
        end_server(directory)
    server.open(detached=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Start or stop a private libvirtd.")
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    directory = options.directory.resolve()
    try:
        if options.action == "stop":
            end_server(directory)
            return 0
        start(directory)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    print(uri_of(directory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
