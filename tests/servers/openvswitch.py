"""A private Open vSwitch in user space (`datapath_type = netdev`), in the network namespace of a private libvirtd; no kernel module is needed.

libvirt finds it by OVS_RUNDIR, which its programs inherit; an agent of Neutron in the same namespace by the usual port.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.servers.libvirtd import Libvirtd
from tests.servers.namespace import Namespace
from tests.servers.private_server import PrivateServer, program

PACKAGE = "openvswitch-switch"
START = """\
set -eu
cd "$1"
[ -e conf.db ] || ovsdb-tool create conf.db
ovsdb-server conf.db --remote=punix:db.sock --remote=ptcp:6640:127.0.0.1 --pidfile --detach --log-file --unixctl="$1/ovsdb.ctl"
ovs-vsctl --no-wait init
exec ovs-vswitchd --disable-system --pidfile --log-file --unixctl="$1/vswitchd.ctl"
"""
FOLDERS = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")


class SwitchedLibvirtd(Libvirtd):
    """A libvirtd in a network namespace of its own, whose Open vSwitch is that of `switch`, a folder."""

    def __init__(self, switch: Path, **options: Any) -> None:
        super().__init__(networks=True, **options)
        self._switch = switch

    def environment(self) -> dict[str, str]:
        return super().environment() | dict.fromkeys(FOLDERS, str(self._switch))


class OpenVSwitch(PrivateServer):
    """`namespace`: where its bridges are. `vsctl` configures it."""

    name = "openvswitch"
    close_signal = signal.SIGTERM

    def __init__(self, namespace: Namespace, directory: Path) -> None:
        super().__init__(directory)
        self._namespace = namespace

    @property
    def folders(self) -> dict[str, str]:
        """Variables by which its programs find it."""
        return dict.fromkeys(FOLDERS, str(self.directory))

    @property
    def database(self) -> str:
        return f"unix:{self.directory}/db.sock"

    def prepare(self) -> None:
        program("ovs-vswitchd", PACKAGE)

    def command(self) -> list[str]:
        return self._namespace.enter("sh", "-c", START, "sh", str(self.directory))

    def environment(self) -> dict[str, str]:
        return super().environment() | self.folders

    def answers(self) -> bool:
        return (self.directory / "vswitchd.ctl").exists()

    def vsctl(self, *words: str) -> list[str]:
        return self._namespace.run("ovs-vsctl", f"--db={self.database}", "--timeout=30", *words).split()
