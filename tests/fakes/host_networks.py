"""Local networks of a host that keeps books and makes nothing."""

import socket
from collections.abc import Callable, Collection, Mapping

import msgspec

from minova.virt.namespaces.network import GuestInterface, LocalNetwork, NetworkRecord, require_host


class FakeHostNetworks:
    """`broken_networks`: what `broken` answers. `open`: makes the sockets of `listener`."""

    def __init__(self, open: Callable[[str], socket.socket] | None = None) -> None:
        self.made: dict[str, NetworkRecord] = {}
        self.broken_networks: dict[str, str] = {}
        self.ensured: list[str] = []
        self._open = open

    def records(self) -> Mapping[str, NetworkRecord]:
        return dict(self.made)

    def ensure(self, network: LocalNetwork, mac: str = "") -> None:
        self.ensured.append(network.network_id)
        if not network.subnets:
            self.remove(network.network_id)
            return
        old = self.made.get(network.network_id)
        self.made[network.network_id] = (
            NetworkRecord(network=network, index=len(self.made), mac=mac or network.mac)
            if old is None
            else msgspec.structs.replace(old, network=network)
        )

    def make_protocol_sets(self, numbers: Collection[int]) -> None:
        """Does nothing."""

    def enter(self, network_id: str, host: GuestInterface) -> None:
        require_host(host)
        if network_id in self.made:
            self.forget(network_id, {host.mac})
            old = self.made[network_id]
            self.made[network_id] = msgspec.structs.replace(old, hosts=(*old.hosts, host))

    def forget(self, network_id: str, macs: Collection[str]) -> None:
        if network_id in self.made:
            old = self.made[network_id]
            left = tuple(host for host in old.hosts if host.mac not in macs)
            self.made[network_id] = msgspec.structs.replace(old, hosts=left)

    def remove(self, network_id: str) -> None:
        self.made.pop(network_id, None)

    def broken(self) -> Mapping[str, str]:
        return dict(self.broken_networks)

    def track(self, bridges: Collection[str]) -> None:
        """Tracks nothing."""

    def namespaces(self) -> Mapping[str, int]:
        return {network_id: record.index for network_id, record in self.made.items()}

    def listener(self, network_id: str) -> socket.socket:
        assert self._open is not None
        return self._open(network_id)
