"""The metadata service of a host that is a network namespace: its socket is there, all else in the tests' process."""

import ctypes
import os
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from minova import conf as configuration
from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.objects.servers.guest_metadata import GuestMetadata
from minova.objects.servers.instance import Instance
from tests.servers.libvirtd import Libvirtd

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000


class Conductor:
    """Knows guests by their addresses. `asked`: for which ones."""

    def __init__(self, guests: Mapping[str, Instance]) -> None:
        self._guests = guests
        self.asked: list[str] = []

    def metadata_of_address(
        self, ctx: RequestContext, *, host: str, address: str, network_id: str = ""
    ) -> GuestMetadata:
        self.asked.append(address)
        if address not in self._guests:
            raise errors.NotFound(f"No instance of this host has the address {address}.")
        return GuestMetadata(instance=self._guests[address])


@contextmanager
def metadata_service(server: Libvirtd, guests: Mapping[str, Instance]) -> Iterator[Conductor]:
    conductor = Conductor(guests)
    conf = configuration.load([], "test", files=[])
    running = service.local(conf, cast(ConductorApi, conductor), _socket_in(server))
    running.start()
    try:
        yield conductor
    finally:
        running.stop()


def _socket_in(server: Libvirtd) -> socket.socket:
    pid = (server.directory / "server.pid").read_text().strip()

    def make() -> socket.socket:
        # Of this thread alone, which ends.
        handle = os.open(Path(f"/proc/{pid}/ns/net"), os.O_RDONLY)
        try:
            if _LIBC.setns(handle, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(handle)
        return service.listen_locally()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()
