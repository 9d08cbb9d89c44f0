"""Guests of one network, or one guest with many addresses, take no threads of minova-metadata from those of others."""

import http.client
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from minova import conf as configuration
from minova import errors
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.metadata.app import MetadataApp
from minova.metadata.guests import NETWORK_ID, LocalGuest, LocalGuests
from minova.metadata.recent import BURST, RATE
from minova.objects.guests.guest_metadata import GuestMetadata
from minova.virt.config_drive.builder import GuestFiles
from minova.virt.namespaces.network import HostSubnet, LocalNetwork
from tests.fakes.host_networks import FakeHostNetworks
from tests.functional.metadata.test_service import Served
from tests.unit.virt.config_drive.test_contents import BASIC
from tests.waiting import wait_for

NETWORK, OTHER_NETWORK = str(uuid.uuid4()), str(uuid.uuid4())


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
    conductor = Conductor()
    yield conductor
    conductor.go.set()


@pytest.fixture
def listeners(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Served, Served]]:
    """The service on two networks."""
    monkeypatch.setattr(service, "LocalGuests", Guests)
    conf = configuration.load([], "test", files=[])
    listening = {
        network_id: socket.create_server(("127.0.0.1", 0), backlog=512) for network_id in (NETWORK, OTHER_NETWORK)
    }
    networks = FakeHostNetworks(listening.__getitem__)
    subnet = HostSubnet(cidr="10.1.0.0/24", gateway="10.1.0.1")
    for network_id in listening:
        networks.ensure(LocalNetwork(network_id=network_id, subnets=(subnet,)))
    running = service.local(conf, cast(ConductorApi, conductor), networks)
    running.start()
    ports = [each.getsockname()[1] for each in listening.values()]
    yield Served(ports[0]), Served(ports[1])
    conductor.go.set()
    running.stop()


@pytest.fixture
def served(listeners: tuple[Served, Served]) -> Served:
    return listeners[0]


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


def test_slow_requests_of_one_network_leave_connections_to_others(
    listeners: tuple[Served, Served], conductor: Conductor
) -> None:
    busy, quiet = listeners
    clients = [begin(busy, "busy", f"127.1.{number // 250}.{number % 250 + 1}") for number in range(300)]
    try:
        wait_for("all threads of its network", lambda: conductor.waiting >= service.THREADS)
        with closing(begin(quiet, "quiet", "127.0.0.9")) as client:
            assert client.getresponse().status == 200
    finally:
        conductor.go.set()
        for client in clients:
            client.close()


def test_bug_each_address_of_a_guest_had_a_rate_of_its_own(served: Served) -> None:
    statuses = set()
    for number in range(int(BURST) * 3):
        with closing(begin(served, "quiet", f"127.2.{number // 250}.{number % 250 + 1}")) as client:
            statuses.add(client.getresponse().status)
        if 429 in statuses:
            break
    assert statuses == {200, 429}


class NoGuest:
    """A conductor that knows the guests of one network alone."""

    def __init__(self) -> None:
        self.asked = 0

    def metadata_of_address(
        self, ctx: RequestContext, *, host: str, address: str, network_id: str = ""
    ) -> GuestMetadata:
        if network_id == OTHER_NETWORK:
            return GuestMetadata(instance=BASIC)
        self.asked += 1
        raise errors.NotFound("No guest has this address.")


def test_bug_each_address_without_a_guest_was_a_question_to_conductors() -> None:
    conductor = NoGuest()
    files = GuestFiles(configuration.load([], "test", files=[]))
    app = MetadataApp(LocalGuests(cast(ConductorApi, conductor), "host"), files, 1.0)

    def status(network_id: str, address: str) -> str:
        said: list[str] = []
        environ = {NETWORK_ID: network_id, "REMOTE_ADDR": address, "PATH_INFO": "/", "REQUEST_METHOD": "GET"}
        app(environ, lambda line, headers: said.append(line[:3]))
        return said[0]

    began = time.monotonic()
    statuses = {status(NETWORK, f"10.0.{number // 250}.{number % 250 + 1}") for number in range(3000)}
    most = BURST + RATE * (time.monotonic() - began) + 1
    assert BURST <= conductor.asked <= most
    assert statuses == {"404", "429"}
    assert status(OTHER_NETWORK, "10.0.0.1") == "200"
