"""Asks minova-network-helper for what needs root's rights: see `NetworkNamespaces` for the calls."""

import socket
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path

from minova.errors import HypervisorError
from minova.virt.namespaces import calls
from minova.virt.namespaces.network import GuestInterface, LocalNetwork, NetworkRecord

# Seconds for one call: the helper waits for programs.
_WITHIN = 120.0


class RemoteNamespaces:
    """Safe for threads. Raises HypervisorError if the helper does not answer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def records(self) -> Mapping[str, NetworkRecord]:
        return self._ask(calls.Records())[0].records

    def ensure(self, network: LocalNetwork, mac: str = "") -> None:
        self._ask(calls.Ensure(network, mac))

    def enter(self, network_id: str, host: GuestInterface) -> None:
        self._ask(calls.Enter(network_id, host))

    def forget(self, network_id: str, macs: Collection[str]) -> None:
        self._ask(calls.Forget(network_id, sorted(macs)))

    def remove(self, network_id: str) -> None:
        self._ask(calls.Remove(network_id))

    def broken(self) -> Mapping[str, str]:
        return self._ask(calls.Broken())[0].broken

    def track(self, bridges: Collection[str]) -> None:
        self._ask(calls.Track(sorted(bridges)))

    def make_protocol_sets(self, numbers: Collection[int]) -> None:
        self._ask(calls.MakeProtocolSets(sorted(numbers)))

    def namespaces(self) -> Mapping[str, int]:
        return self._ask(calls.Namespaces())[0].namespaces

    def listener(self, network_id: str) -> socket.socket:
        _, (listening,) = self._ask(calls.Listener(network_id))
        return listening

    def _ask(self, call: calls.Call) -> tuple[calls.HelperAnswer, list[socket.socket]]:
        answer: calls.HelperAnswer
        try:
            with closing(socket.socket(socket.AF_UNIX)) as connection:
                connection.settimeout(_WITHIN)
                connection.connect(str(self._path))
                calls.send(connection, call)
                answer, sockets = calls.receive(connection, calls.ANSWERS)
        except (OSError, EOFError) as error:
            raise HypervisorError(
                f"minova-network-helper, which makes local networks, does not answer at {self._path}: {error or 'it has closed'}"
            ) from error
        if answer.refused:
            raise ValueError(answer.refused)
        if answer.failed:
            raise HypervisorError(answer.failed)
        return answer, sockets
