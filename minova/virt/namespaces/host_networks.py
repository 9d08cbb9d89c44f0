"""The local networks of this host, for processes with and without root's rights."""

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from minova.virt.namespaces.kernel import OWN
from minova.virt.namespaces.namespaces import RUN, NetworkNamespaces
from minova.virt.namespaces.network import GuestInterface, LocalNetwork, NetworkRecord
from minova.virt.namespaces.remote import RemoteNamespaces


class HostNetworks(Protocol):
    """The methods of `NetworkNamespaces`."""

    def records(self) -> Mapping[str, NetworkRecord]: ...

    def ensure(self, network: LocalNetwork, mac: str = "") -> None: ...

    def enter(self, network_id: str, host: GuestInterface) -> None: ...

    def forget(self, network_id: str, macs: Collection[str]) -> None: ...

    def remove(self, network_id: str) -> None: ...

    def broken(self) -> Mapping[str, str]: ...

    def track(self, bridges: Collection[str]) -> None: ...

    def make_protocol_sets(self, numbers: Collection[int]) -> None: ...

    def namespaces(self) -> Mapping[str, int]: ...

    def listener(self, network_id: str) -> socket.socket: ...


def of_this_host(helper: str, proc_net: Path = Path("/proc/net"), bridges: Collection[str] = ()) -> HostNetworks:
    """Returns the networks of the host. `helper`: the socket of minova-network-helper, which does the work for a process
    without root's rights. `bridges`: as `NetworkNamespaces` has them; the helper reads its own configuration.

    `proc_net`: /proc/PID/net of libvirtd, if it has a network namespace of its own.
    """
    if os.geteuid():
        return RemoteNamespaces(Path(helper))
    own = proc_net.resolve().parent / "ns" / "net"
    number = own.stat().st_ino
    if number == OWN.stat().st_ino:
        return NetworkNamespaces(RUN, bridges=lambda: bridges)
    return NetworkNamespaces(RUN / f"host-{number}", own, f"@{number}", lambda: bridges)
