"""Two guests of one host with the same address, from their interfaces through minova-metadata and the conductor to its database."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova import conf as configuration
from minova.metadata import service
from minova.objects.guests.guest_metadata import ADDRESS
from minova.objects.network.vif import Vif
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import network_of
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.network_cases import network, on, subnet
from tests.security.test_tenants_networks import harness
from tests.servers.veth_host import VethGuest, VethHost
from tests.waiting import wait_for

__all__ = ["harness"]

pytestmark = pytest.mark.timeout(120)
CIDR = "10.9.0.0/24"
# Prints the status and the body of an answer, from one of the guest's addresses; or the name of the error.
GET = """
import http.client, sys
client = http.client.HTTPConnection(sys.argv[1], timeout=20, source_address=(sys.argv[2], 0))
try:
    client.request("GET", "/openstack/latest/user_data")
    answer = client.getresponse()
    print(answer.status, answer.read().decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@pytest.fixture
def networks(host: VethHost, harness: ConductorHarness, tmp_path: Path) -> Iterator[NetworkNamespaces]:
    """With minova-metadata, which asks the conductor."""
    namespaces = NetworkNamespaces(tmp_path / "run", host.path, f"@{host.name}")
    conf = configuration.load([], "test", files=[])
    conf.set_override("host", "a")
    running = service.local(conf, harness.conductor, namespaces)
    running.start()
    yield namespaces
    running.stop()
    for network_id in namespaces.records():
        namespaces.remove(network_id)


def get(guest: VethGuest, address: str) -> str:
    return guest.python(GET, ADDRESS, address).strip()


def test_bug_guests_with_one_address_read_the_user_data_of_another_tenant(
    host: VethHost,
    harness: ConductorHarness,
    networks: NetworkNamespaces,
) -> None:
    guests: dict[str, tuple[Vif, VethGuest]] = {}
    for name in ("ours", "theirs"):
        new_network = network(harness)
        subnet(harness, new_network, CIDR, enable_dhcp=False)
        server = harness.active(**on(new_network), user_data=base64.b64encode(name.encode()).decode())
        (vif,) = harness.conductor.interfaces_of_host(CTX, host="a")[server]
        host.bridge(vif.network_id)
        networks.ensure(network_of(vif, metadata=True))
        address = f"{vif.addresses[0].ip_address}/24"
        guests[name] = vif, host.guest(vif.network_id, vif.mac_address, address, "10.9.0.1")
    (address,) = {vif.addresses[0].ip_address for vif, _ in guests.values()}
    for name, (_, guest) in guests.items():
        wait_for("the service listens in its network", lambda guest=guest: "Error" not in get(guest, address))  # type: ignore[misc]
        assert get(guest, address) == f"200 {name}"
    # An address that the host knows on the other network alone.
    more = harness.active(**on(new_network), user_data="c2VjcmV0")
    (vif,) = harness.conductor.interfaces_of_host(CTX, host="a")[more]
    other = vif.addresses[0].ip_address
    for _, guest in guests.values():
        guest.run("ip", "address", "add", f"{other}/24", "dev", "eth0")
    assert get(guests["ours"][1], other).startswith("404")
    assert get(guests["theirs"][1], other) == "200 secret", "on its own network, where nothing filters the guest here"
