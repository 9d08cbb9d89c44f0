"""The metadata service of a host that is a network namespace: its sockets are there, all else in the tests' process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from minova import conf as configuration
from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.objects.guests.guest_metadata import GuestMetadata
from minova.objects.servers.instance import Instance
from minova.virt.namespaces.host_networks import of_this_host
from tests.servers.libvirtd import Libvirtd


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
    running = service.local(conf, cast(ConductorApi, conductor), of_this_host("", server.uri, server.proc_net))
    running.start()
    try:
        yield conductor
    finally:
        running.stop()
