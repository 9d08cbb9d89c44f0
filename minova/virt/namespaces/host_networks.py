"""The local networks of this host, for processes with and without root's rights."""

import os
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from minova.errors import HypervisorError
from minova.virt.namespaces.kernel import OWN
from minova.virt.namespaces.namespaces import RUN, NetworkNamespaces
from minova.virt.namespaces.network import GuestInterface, LocalNetwork, NetworkRecord
from minova.virt.namespaces.remote import RemoteNamespaces

# The first process, and a thread of the kernel where that one is hidden from root.
_FIRST = (Path("/proc/1/ns/net"), Path("/proc/2/ns/net"))
# A setting that the kernel's first network namespace alone has, and the number of its first namespace of processes (PROC_PID_INIT_INO).
_OF_FIRST_NAMESPACE = Path("/proc/sys/net/core/netdev_max_backlog")
_FIRST_PIDS = 0xEFFFFFFC


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


def of_this_host(
    helper: str, owner: str, proc_net: Path = Path("/proc/net"), bridges: Collection[str] = ()
) -> HostNetworks:
    """Returns the networks of the host. `helper`: the socket of minova-network-helper, which does the work for a process
    without root's rights. `owner`, `bridges`: as `NetworkNamespaces` has them; the helper reads its own configuration, so that
    no process without rights names itself another owner.

    `proc_net`: /proc/PID/net of libvirtd, if it has a network namespace of its own. Files of a host with another network namespace
    than the machine's stand apart: each of the two would remove the networks of the other one, whose bridges it does not see.
    """
    if os.geteuid():
        return RemoteNamespaces(Path(helper))
    return of_namespace(proc_net.resolve().parent / "ns" / "net", lambda: bridges, owner)


def of_namespace(own: Path, bridges: Callable[[], Collection[str]], owner: str) -> NetworkNamespaces:
    """Returns the networks of a process with root's rights whose bridges are in this network namespace."""
    number = own.stat().st_ino
    if number == _of_machine():
        return NetworkNamespaces(bridges=bridges, owner=owner)
    return NetworkNamespaces(RUN / f"host-{number}", own, f"@{number}", bridges, owner)


def _of_machine() -> int | None:
    """Returns the number of the machine's, or the container's, network namespace; None: it is not known, but another one than
    that of this process.
    """
    for namespace in _FIRST:
        with suppress(OSError):
            return namespace.stat().st_ino
    # The unit of minova-network-helper may not look at processes with more capabilities.
    try:
        own, pids = OWN.stat().st_ino, OWN.with_name("pid").stat().st_ino
    except OSError:
        raise HypervisorError("the network namespace of this process is not known: is /proc mounted?") from None
    # Outside of containers the first process is in the kernel's first network namespace. In a container it cannot be seen where it is.
    is_elsewhere = pids == _FIRST_PIDS and not _OF_FIRST_NAMESPACE.exists()
    return None if is_elsewhere else own
