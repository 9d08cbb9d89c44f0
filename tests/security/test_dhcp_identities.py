"""What a guest could do to another guest of its network by the other's identifiers of DHCP: the client identifier of IPv4
(option 61), the DUID of IPv6, the link-local address and the MAC address in a relay's message. On a real dnsmasq.
"""

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from minova.objects.network.addresses import link_local
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import GuestInterface, HostSubnet, LocalNetwork
from tests.nightly import daily
from tests.servers.dhcp_forger import (
    ACK,
    DECLINE6,
    DISCOVER,
    RELEASE,
    RELEASE6,
    RENEW,
    REQUEST,
    REQUEST6,
    SOLICIT,
    Message4,
    Message6,
)
from tests.servers.veth_host import VethGuest, VethHost
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(180)
NETWORK = str(uuid.uuid4())
OUR_MAC, THEIR_MAC = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
FOUR = HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1")
SIX = HostSubnet(cidr="2001:db8:2::/64", gateway="2001:db8:2::1", mode="dhcpv6-stateful")
OURS, THEIRS = "2001:db8:2::5", "2001:db8:2::6"
OUR_DUID, THEIR_DUID, THEIR_NEW_DUID = ("0004" + digits * 16 for digits in ("0a", "0b", "0c"))
THEIR_ID = "ff" + "0b" * 8
ROOT = Path(__file__).parents[2]


class Place(NamedTuple):
    networks: NetworkNamespaces
    attacker: VethGuest
    victim: VethGuest


@pytest.fixture(params=daily(["", "brflat"], ("brflat",), "both have the same DHCP server"), ids=["local", "flat"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    over: str = request.param
    # Not in pytest's folders: dnsmasq has a user of its own, and reads its files again.
    with VethHost() as host, tempfile.TemporaryDirectory(prefix="minova-dhcp-") as name:
        Path(name).chmod(0o755)
        networks = NetworkNamespaces(Path(name) / "run", host.path, f"@{host.name}", lambda: {"brflat"})
        host.bridge(NETWORK, over)
        networks.ensure(LocalNetwork(network_id=NETWORK, subnets=(FOUR, SIX), over=over))
        ours, theirs = (host.guest(NETWORK, mac, bridge=over) for mac in (OUR_MAC, THEIR_MAC))
        networks.enter(NETWORK, GuestInterface(mac=OUR_MAC, address="10.9.0.5", address6=OURS, tap=ours.tap))
        networks.enter(NETWORK, GuestInterface(mac=THEIR_MAC, address="10.9.0.6", address6=THEIRS, tap=theirs.tap))
        try:
            yield Place(networks, ours, theirs)
        finally:
            networks.remove(NETWORK)


def say(guest: VethGuest, message: Message4 | Message6) -> dict[str, Any]:
    """Returns what the server answers; empty: nothing."""
    version = "4" if isinstance(message, Message4) else "6"
    command = [sys.executable, "-m", "tests.servers.dhcp_forger", version, msgspec.json.encode(message).decode()]
    done = subprocess.run(
        ["ip", "netns", "exec", guest.name, *command], capture_output=True, text=True, timeout=60, cwd=ROOT, check=True
    )
    return dict(json.loads(done.stdout or "{}"))


def insist(guest: VethGuest, message: Message4 | Message6) -> dict[str, Any]:
    """As `say`, up to five times: dnsmasq may read its files just now."""
    return next(filter(None, (say(guest, message) for _ in range(5))), {})


def with_addresses(answer: dict[str, Any]) -> dict[str, Any]:
    """dnsmasq may not know the client's MAC address yet."""
    return answer if answer.get("addresses") else {}


def lease(guest: VethGuest, address: str, duid: str) -> str:
    """The guest gets its address by DHCPv6. Returns the identifier of the server."""
    offer = wait_for("an offer", lambda: with_addresses(say(guest, Message6(kind=SOLICIT, duid=duid))), 40)
    assert offer.get("addresses") == [address], offer
    given = insist(guest, Message6(kind=REQUEST6, duid=duid, asked=address, server=offer["server"]))
    assert given.get("addresses") == [address], given
    return str(offer["server"])


def test_client_identifier_of_another_guest_changes_nothing(place: Place) -> None:
    offer = insist(place.victim, Message4(kind=DISCOVER, client_id=THEIR_ID))
    assert offer["address"] == "10.9.0.6"
    server = "10.9.0.1"
    request = Message4(kind=REQUEST, client_id=THEIR_ID, asked="10.9.0.6")
    assert insist(place.victim, request) == {"address": "10.9.0.6", "kind": ACK}
    place.victim.run("ip", "address", "add", "10.9.0.6/24", "dev", "eth0")
    # Neither is it given to another, nor does a release in its name end it.
    stolen = say(place.attacker, Message4(kind=REQUEST, client_id=THEIR_ID, asked="10.9.0.6"))
    assert stolen.get("kind") != ACK
    say(place.attacker, Message4(kind=RELEASE, client_id=THEIR_ID, own="10.9.0.6", server=server, within=0.2))
    renewed = insist(place.victim, Message4(kind=REQUEST, client_id=THEIR_ID, own="10.9.0.6"))
    assert renewed == {"address": "10.9.0.6", "kind": ACK}
    # A guest with the identifier of another, such as a copy of its disk, gets its own address.
    assert insist(place.attacker, Message4(kind=DISCOVER, client_id=THEIR_ID))["address"] == "10.9.0.5"


@pytest.mark.parametrize("kind", [RELEASE6, DECLINE6])
def test_bug_guest_ends_the_lease_of_another_by_its_duid(place: Place, kind: int) -> None:
    server = lease(place.victim, THEIRS, THEIR_DUID)
    say(place.attacker, Message6(kind=kind, duid=THEIR_DUID, asked=THEIRS, server=server, within=0.5))
    renewed = insist(place.victim, Message6(kind=RENEW, duid=THEIR_DUID, asked=THEIRS, server=server))
    assert (renewed["addresses"], renewed["refusals"]) == ([THEIRS], [])


@pytest.mark.parametrize(
    "forged", [{"relayed_for": THEIR_MAC}, {"source": link_local(THEIR_MAC)}], ids=["relay", "source"]
)
def test_bug_guest_declines_the_address_of_another_as_the_other(place: Place, forged: dict[str, Any]) -> None:
    """dnsmasq finds the MAC address of a client by its link-local address, or believes a relay."""
    server = str(insist(place.attacker, Message6(kind=SOLICIT, duid=OUR_DUID))["server"])
    stolen = say(place.attacker, Message6(kind=SOLICIT, duid=OUR_DUID, **forged))
    assert THEIRS not in stolen.get("addresses", [])
    for kind in (REQUEST6, DECLINE6):
        say(place.attacker, Message6(kind=kind, duid=OUR_DUID, asked=THEIRS, server=server, within=0.5, **forged))
    lease(place.victim, THEIRS, THEIR_DUID)


def test_guest_of_another_s_duid_gets_its_own_address(place: Place) -> None:
    """Copies of a disk may have equal identifiers."""
    lease(place.victim, THEIRS, THEIR_DUID)
    lease(place.attacker, OURS, THEIR_DUID)
    lease(place.victim, THEIRS, THEIR_DUID)


def test_bug_rebuilt_guest_waits_for_its_old_lease(place: Place) -> None:
    """It has another identifier, and until the lease of the old one ended, its own address was refused to it."""
    lease(place.victim, THEIRS, THEIR_DUID)
    (again,) = [each for each in place.networks.records()[NETWORK].hosts if each.mac == THEIR_MAC]
    place.networks.enter(NETWORK, again)  # as at each start
    lease(place.victim, THEIRS, THEIR_NEW_DUID)
