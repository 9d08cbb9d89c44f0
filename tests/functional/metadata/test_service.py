"""minova-metadata over HTTP. Addresses of the loopback network stand for those of guests."""

import contextlib
import hashlib
import hmac
import http.client
import json
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from minova import conf as configuration
from minova import errors
from minova.api.listener.service import HttpService
from minova.cmd import metadata as cmd
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.metadata import service
from minova.metadata.recent import BURST
from minova.objects.guests.guest_metadata import LONGEST_PASSWORD, GuestMetadata
from minova.objects.servers.instance import Instance
from minova.virt.namespaces.network import HostSubnet, LocalNetwork
from tests.fakes.host_networks import FakeHostNetworks
from tests.unit.virt.config_drive.test_contents import BASIC

FRONT, BACK, STRANGER, BUSY = "127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8"
# Of the test that holds all of its connections: the service notices a moment later that they have ended.
HOLDER = "127.0.0.9"
SECRET = "shared"
NETWORK = "7d1f0c52-0000-4000-8000-000000000009"


class Served(NamedTuple):
    """Where guests of a network find the service."""

    port: int


class Conductor:
    """Knows two guests of host hv1."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.away = False
        self.guests = {FRONT: guest("front"), BACK: guest("back"), BUSY: guest("busy")}

    def metadata_of_address(
        self, ctx: RequestContext, *, host: str, address: str, network_id: str = ""
    ) -> GuestMetadata:
        self.asked.append(address)
        if self.away:
            raise errors.ServiceUnavailable("rabbit at 192.0.2.1 is away")
        assert host == "hv1"
        if address not in self.guests:
            raise errors.NotFound(f"No instance of this host has the address {address}.")
        return GuestMetadata(instance=self.guests[address], availability_zone="north")

    def leave_password_of_address(
        self, ctx: RequestContext, *, host: str, address: str, password: str, network_id: str = ""
    ) -> None:
        instance = self.metadata_of_address(ctx, host=host, address=address).instance
        if instance.system_metadata:
            raise errors.Conflict("There is a password already.")
        self.guests[address] = msgspec.structs.replace(instance, system_metadata={"password": password})

    def metadata_of_instance(self, ctx: RequestContext, *, instance_uuid: str, project_id: str) -> GuestMetadata:
        self.asked.append(instance_uuid)
        guest = next((guest for guest in self.guests.values() if guest.uuid == instance_uuid), None)
        if guest is None or guest.project_id != project_id:
            raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
        return GuestMetadata(instance=guest)


def guest(name: str) -> Instance:
    return msgspec.structs.replace(BASIC, uuid=name, hostname=name)


@pytest.fixture(scope="module")
def conductor() -> Conductor:
    return Conductor()


@pytest.fixture(scope="module")
def local(conductor: Conductor) -> Iterator[Served]:
    conf = configuration.load([], "test", files=[])
    conf.set_override("host", "hv1")
    listening, networks = socket.create_server(("127.0.0.1", 0)), FakeHostNetworks(lambda network_id: listening)
    networks.ensure(LocalNetwork(network_id=NETWORK, subnets=(HostSubnet(cidr="127.0.0.0/8", gateway="127.0.0.1"),)))
    with pytest.MonkeyPatch.context() as patch:
        # Each request reads anew, but where a test says otherwise.
        patch.setattr(service, "LOCAL_SECONDS", 0.0)
        running = service.local(conf, cast(ConductorApi, conductor), networks)
    running.start()
    yield Served(listening.getsockname()[1])
    running.stop()


@pytest.fixture(scope="module")
def proxy(conductor: Conductor) -> Iterator[HttpService]:
    conf = configuration.load([], "test", files=[])
    conf.set_override("metadata_listen_port", 0)
    conf.set_override("metadata_proxy_shared_secret", SECRET, group="neutron")
    running = service.for_proxy(conf, cast(ConductorApi, conductor))
    running.start()
    yield running
    running.stop()


def ask(
    running: HttpService | Served,
    path: str,
    source: str = FRONT,
    method: str = "GET",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30, source_address=(source, 0))
    try:
        client.request(method, path, body=body, headers=headers or {})
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def test_guest_reads_its_own_and_a_stranger_nothing(local: Served) -> None:
    for source, name in ((FRONT, "front"), (BACK, "back")):
        status, content = ask(local, "/openstack/latest/meta_data.json", source)
        assert (status, json.loads(content)["hostname"]) == (200, f"{name}.novalocal")
        assert json.loads(content)["availability_zone"] == "north"
        assert ask(local, "/latest/meta-data/hostname", source) == (200, f"{name}.novalocal".encode())
    assert ask(local, "/", STRANGER)[0] == 404
    assert ask(local, "/openstack/latest/meta_data.json", STRANGER)[0] == 404


def test_nothing_in_a_request_leads_to_another_guest(local: Served) -> None:
    path = "/openstack/latest/meta_data.json"
    for name in ("X-Forwarded-For", "Forwarded", "X-Instance-ID"):
        assert ask(local, path, headers={name: BACK})[0] in (400, 403), name
    for name in ("Host", "X-Real-IP", "X_Forwarded_For", "Client-IP", "X-Tenant-ID"):
        status, content = ask(local, path, headers={name: BACK})
        assert (status, json.loads(content)["uuid"]) == (200, "front"), name
    # A whole URL in the place of the path.
    status, content = ask(local, f"http://{BACK}{path}")
    assert status == 404 or json.loads(content)["uuid"] == "front"


def test_password_is_left_once(local: Served) -> None:
    path = "/openstack/latest/password"
    assert ask(local, path, BACK) == (200, b"")
    assert ask(local, path, BACK, "POST", b"x" * (LONGEST_PASSWORD + 1))[0] == 400
    assert ask(local, path, BACK, "POST", b"\xff")[0] == 400
    assert ask(local, path, BACK, "POST", b"encrypted") == (200, b"")
    assert ask(local, path, BACK) == (200, b"encrypted")
    assert ask(local, path, BACK, "POST", b"another")[0] == 409
    assert ask(local, path, STRANGER, "POST", b"another")[0] == 404
    assert ask(local, path, FRONT) == (200, b"")


def test_methods(local: Served) -> None:
    assert ask(local, "/latest/meta-data/hostname", method="HEAD") == (200, b"")
    for method in ("POST", "PUT", "DELETE"):
        assert ask(local, "/latest/meta-data/hostname", method=method)[0] == 405
        assert ask(local, "/latest/api/token", method=method)[0] == 404
    assert ask(local, "/openstack/latest/password", method="PUT")[0] == 405


def test_head_of_a_request_is_bounded(local: Served) -> None:
    assert ask(local, "/" + "x" * (20 << 10))[0] == 431
    assert ask(local, "/latest", headers={"X-Long": "x" * (20 << 10)})[0] == 431


def test_large_body_is_not_read(local: Served) -> None:
    client = socket.create_connection(("127.0.0.1", local.port), 30, (FRONT, 0))
    with client:
        client.sendall(b"POST /openstack/latest/password HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000000\r\n\r\n")
        client.sendall(b"x" * 4096)
        assert client.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_guest_that_closes_its_half_after_its_request_is_answered(local: Served) -> None:
    """As nc does."""
    with socket.create_connection(("127.0.0.1", local.port), 30, (FRONT, 0)) as client:
        client.sendall(b"GET /latest/meta-data/hostname HTTP/1.1\r\nHost: h\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while block := client.recv(4096):
            answer += block
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\nfront.novalocal")


def test_one_address_has_so_many_connections(local: Served) -> None:
    held = [
        socket.create_connection(("127.0.0.1", local.port), 30, (HOLDER, 0))
        for _ in range(service.CONNECTIONS_OF_AN_ADDRESS)
    ]
    with socket.create_connection(("127.0.0.1", local.port), 30, (HOLDER, 0)) as beyond:
        beyond.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert beyond.recv(12) == b"HTTP/1.1 404"
        held[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            held[-1].recv(1)
    assert held[0].recv(1) == b"", "closed for the further one"
    assert ask(local, "/latest/meta-data/hostname")[0] == 200
    for client in held:
        client.close()


def test_caller_that_asks_without_end_is_slowed_down(local: Served) -> None:
    # Over one connection, and for as long as it takes: what a slow machine asks in a second hardly exceeds the rate.
    client = http.client.HTTPConnection("127.0.0.1", local.port, timeout=30, source_address=(BUSY, 0))
    statuses: list[int] = []
    with contextlib.closing(client):
        while 429 not in statuses and len(statuses) < BURST * 20:
            client.request("GET", "/latest/meta-data/hostname")
            answer = client.getresponse()
            answer.read()
            statuses.append(answer.status)
    assert statuses[: int(BURST)] == [200] * int(BURST)
    assert statuses[-1] == 429
    assert ask(local, "/latest/meta-data/hostname", FRONT)[0] == 200


def test_conductor_that_is_away_is_no_news_for_guests(local: Served, conductor: Conductor) -> None:
    conductor.away = True
    try:
        status, content = ask(local, "/latest/meta-data/hostname")
    finally:
        conductor.away = False
    assert status == 503
    assert b"192.0.2.1" not in content
    assert ask(local, "/latest/meta-data/hostname")[0] == 200


def test_guest_that_gets_an_address_reads_its_own_a_second_later(conductor: Conductor) -> None:
    assert service.LOCAL_SECONDS <= 1.0


def signed(uuid: str, project: str = "demo", secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), uuid.encode(), hashlib.sha256).hexdigest()
    return {"X-Instance-ID": uuid, "X-Tenant-ID": project, "X-Instance-ID-Signature": signature}


def test_proxy_reads_what_it_signs_and_answers_are_kept(proxy: HttpService, conductor: Conductor) -> None:
    conductor.asked.clear()
    for _ in range(3):
        status, content = ask(proxy, "/openstack/latest/meta_data.json", headers=signed("front"))
        assert (status, json.loads(content)["uuid"]) == (200, "front")
    assert conductor.asked == ["front"]
    assert ask(proxy, "/latest", headers=signed("front", "other"))[0] == 404
    assert ask(proxy, "/latest", headers=signed("absent"))[0] == 404
    assert ask(proxy, "/latest", headers=signed("front", secret="guess"))[0] == 403
    assert ask(proxy, "/latest", headers=signed("front") | {"X-Instance-ID": "back"})[0] == 403
    assert ask(proxy, "/latest")[0] == 400


def test_proxy_without_a_secret_is_refused() -> None:
    conf = configuration.load([], "test", files=[])
    with pytest.raises(errors.InvalidConfiguration, match="metadata_proxy_shared_secret is not set"):
        service.for_proxy(conf, cast(ConductorApi, None))


def test_service_that_is_to_serve_nothing_says_so() -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("metadata_service", False, group="networks")
    with pytest.raises(errors.InvalidConfiguration, match="there is nothing to serve"):
        cmd.compose(conf, cast(Any, None))


def test_bug_service_takes_the_guests_of_another_libvirtd(monkeypatch: pytest.MonkeyPatch) -> None:
    uri, asked = "qemu+unix:///system?socket=/demo/libvirt-sock", []
    conf = configuration.load([], "test", files=[])
    conf.set_override("connection_uri", uri, group="libvirt")

    def networks(helper: str, owner: str) -> FakeHostNetworks:
        asked.append(owner)
        return FakeHostNetworks()

    monkeypatch.setattr(cmd, "of_this_host", networks)
    cmd.local(conf, cast(Any, SimpleNamespace(client=lambda contract, **options: None)))
    assert asked == [uri]
