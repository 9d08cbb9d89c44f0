"""Guests of one network, or one guest with many addresses, take no threads of minova-metadata from those of others."""

import http.client
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from minova import conf as configuration
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.metadata.guests import NETWORK_ID, LocalGuest, LocalGuests
from minova.objects.guests.guest_metadata import GuestMetadata
from minova.virt.namespaces.network import LocalNetwork, Subnet
from tests.cluster import wait_for
from tests.fakes.host_networks import FakeHostNetworks
from tests.functional.metadata.test_service import Served
from tests.unit.virt.config_drive.test_contents import BASIC


class Conductor:
    """Answers guests of network `quiet` at once, others when `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.waiting = 0

    def metadata_of_address(
        self, ctx: RequestContext, *, host: str, address: str, network_id: str = ""
    ) -> GuestMetadata:
        if network_id != "quiet":
            self.waiting += 1
            self.go.wait(60)
        return GuestMetadata(instance=BASIC)


class Guests(LocalGuests):
    """A header stands for the network whose listener accepted the connection."""

    def caller(self, environ: dict[str, Any]) -> LocalGuest:
        return super().caller({**environ, NETWORK_ID: environ["HTTP_NETWORK"]})


@pytest.fixture
def conductor() -> Iterator[Conductor]:
    made = Conductor()
    yield made
    made.go.set()


@pytest.fixture
def served(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(service, "LocalGuests", Guests)
    conf = configuration.load([], "test", files=[])
    listening = socket.create_server(("127.0.0.1", 0))
    networks = FakeHostNetworks(lambda network_id: listening)
    subnet = Subnet(cidr="10.1.0.0/24", gateway="10.1.0.1")
    networks.ensure(LocalNetwork(network_id=str(uuid.uuid4()), subnets=(subnet,)))
    running = service.local(conf, cast(ConductorApi, conductor), networks)
    running.start()
    yield Served(listening.getsockname()[1])
    conductor.go.set()
    running.stop()


def begin(served: Served, network: str, source: str) -> http.client.HTTPConnection:
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20, source_address=(source, 0))
    client.request("GET", "/openstack/latest/meta_data.json", headers={"Network": network})
    return client


def test_guest_with_many_addresses_keeps_no_guest_of_another_network_waiting(
    served: Served, conductor: Conductor
) -> None:
    clients = [begin(served, "busy", f"127.0.1.{number + 1}") for number in range(40)]
    try:
        wait_for("all threads of its network", lambda: conductor.waiting >= service.THREADS)
        with closing(begin(served, "quiet", "127.0.0.9")) as client:
            assert client.getresponse().status == 200
        assert conductor.waiting == service.THREADS
        conductor.go.set()
        assert {client.getresponse().status for client in clients} == {200}, "each has its turn"
    finally:
        for client in clients:
            client.close()
