"""What one guest may take of the table in which its host tracks connections: real packets, without hypervisor."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.virt.namespaces import shares
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import HostSubnet
from tests.security.test_local_networks import ASK_AGAIN, add, ask, saying
from tests.servers.veth_host import VethGuest, VethHost

pytestmark = pytest.mark.timeout(120)
OURS, THEIRS, FLAT = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
RANGE = HostSubnet(cidr="10.9.0.0/16", gateway="10.9.0.1", dhcp=False)
OUR_MAC, THEIR_MAC = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
SIZE = 1 << 16
OF_A_NETWORK, OF_AN_INTERFACE = SIZE // shares.OF_A_NETWORK, SIZE // shares.OF_AN_INTERFACE
# Connections of `reaches`, which are tracked for a while after their end, and count no more.
CLOSED = 10
# Sends datagrams, each of a connection of its own: to a MAC and an IP address, how many, and the kind. "ports": from the own
# addresses and many ports; "forged": from many MAC and IP addresses; "bare": with a protocol without ports, as "forged".
FLOOD = """
import socket, struct, sys
target, address, count, kind = sys.argv[1:]
mac = lambda text: bytes.fromhex(text.replace(":", ""))
own = mac(open("/sys/class/net/eth0/address").read().strip())
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    for number in range(int(count)):
        forged = kind != "ports"
        source = b"\\x0a\\x09" + struct.pack("!H", 1024 + number if forged else 5)
        sender = b"\\x02\\x00\\x00" + struct.pack("!I", number)[1:] if forged else own
        body = b"" if kind == "bare" else struct.pack("!HHHH", 1024 + number, 5000, 9, 0) + b"x"
        protocol = 253 if kind == "bare" else 17
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0, source, socket.inet_aton(address))
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        raw.send(mac(target) + sender + b"\\x08\\x00" + head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:] + body)
"""


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@pytest.fixture
def networks(host: VethHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkNamespaces]:
    monkeypatch.setattr(shares, "table_size", lambda: SIZE)
    namespaces = NetworkNamespaces(tmp_path / "run", host.path, f"@{host.name}", lambda: {"brflat"})
    yield namespaces
    for network_id in namespaces.records():
        namespaces.remove(network_id)
    namespaces.track([])
    assert shares.TABLE not in host.run("nft", "list", "tables")


def tracked(host: VethHost, zone: int) -> int:
    lines = host.run("cat", "/proc/net/nf_conntrack").splitlines()
    return sum(f"zone={zone} " in line for line in lines)


def flood(guest: VethGuest, mac: str, kind: str, address: str = "10.9.0.6") -> None:
    guest.python(FLOOD, mac, address, str(2 * OF_A_NETWORK), kind)


def dropped(host: VethHost) -> int:
    listed = host.run("nft", "list", "counter", "inet", shares.TABLE, shares.DROPPED)
    return int(listed.partition("packets ")[2].split()[0])


def reaches(guest: VethGuest, address: str) -> bool:
    return ask(guest, address, 80) == "hello"


def test_bug_one_guest_filled_the_table_of_connections_for_all(host: VethHost, networks: NetworkNamespaces) -> None:
    for network_id in (OURS, THEIRS):
        add(host, networks, network_id, RANGE)
    attacker = host.guest(OURS, OUR_MAC, "10.9.0.5/16", RANGE.gateway)
    target = host.guest(OURS, THEIR_MAC, "10.9.0.6/16", RANGE.gateway)
    beside = host.guest(OURS, "fa:16:3e:00:00:03", "10.9.0.7/16", RANGE.gateway)
    others = [host.guest(THEIRS, mac, f"10.9.0.{mac[-1]}/16", RANGE.gateway) for mac in (OUR_MAC, THEIR_MAC)]
    zones = {network_id: record.zone for network_id, record in networks.records().items()}
    with saying(target, 80, "hello"), saying(others[1], 80, "hello"):
        flood(attacker, THEIR_MAC, "ports")
        assert OF_AN_INTERFACE // 2 < tracked(host, zones[OURS]) <= OF_AN_INTERFACE
        assert reaches(beside, "10.9.0.6"), "another guest of the network has its own share"
        before = dropped(host)
        assert before >= OF_A_NETWORK
        networks.broken()  # the rules are made again
        assert dropped(host) >= before
        flood(attacker, THEIR_MAC, "ports")
        assert tracked(host, zones[OURS]) <= OF_AN_INTERFACE + CLOSED
        for kind in ("forged", "bare"):
            flood(attacker, THEIR_MAC, kind)
            assert OF_A_NETWORK // 2 < tracked(host, zones[OURS]) <= OF_A_NETWORK + CLOSED
        assert reaches(others[0], "10.9.0.2"), "another network"


def test_bug_routed_connections_of_one_network_filled_the_table(host: VethHost, networks: NetworkNamespaces) -> None:
    """Also where the host does not filter frames of bridges by their addresses."""
    host.run("sysctl", "-q", "net.bridge.bridge-nf-call-iptables=0")
    network = add(host, networks, OURS, RANGE)
    host.neighbour("198.51.100.1/24", "198.51.100.2/24")
    attacker = host.guest(OURS, OUR_MAC, "10.9.0.5/16", RANGE.gateway)
    flood(attacker, network.mac, "ports", "198.51.100.1")
    assert OF_A_NETWORK // 2 < tracked(host, 0) <= OF_A_NETWORK + CLOSED


def test_bug_busy_interface_kept_its_share_when_the_table_grew(
    host: VethHost, networks: NetworkNamespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps the limit of a list as long as it has connections."""
    add(host, networks, OURS, RANGE)
    guest = host.guest(OURS, OUR_MAC, "10.9.0.5/16", RANGE.gateway)
    host.guest(OURS, THEIR_MAC, "10.9.0.6/16", RANGE.gateway)
    zone = networks.records()[OURS].zone
    flood(guest, THEIR_MAC, "ports")
    assert OF_AN_INTERFACE // 2 < tracked(host, zone) <= OF_AN_INTERFACE
    monkeypatch.setattr(shares, "table_size", lambda: 4 * SIZE)
    networks.broken()
    flood(guest, THEIR_MAC, "ports")
    assert tracked(host, zone) > 2 * OF_AN_INTERFACE


def test_connections_that_have_ended_do_not_count(host: VethHost, networks: NetworkNamespaces) -> None:
    add(host, networks, OURS, RANGE)
    guest = host.guest(OURS, OUR_MAC, "10.9.0.5/16", RANGE.gateway)
    target = host.guest(OURS, THEIR_MAC, "10.9.0.6/16", RANGE.gateway)
    with saying(target, 80, "hello"):
        said = guest.python(ASK_AGAIN, "10.9.0.6", "80", str(OF_AN_INTERFACE * 3 // 2))
    assert said.split() == ["hello"] * (OF_AN_INTERFACE * 3 // 2)


def test_connections_from_outside_take_no_share(host: VethHost, networks: NetworkNamespaces) -> None:
    """A flood from outside does not use up what guests may open; nor is it limited to their share."""
    host.run("ip", "link", "add", "brflat", "type", "bridge", "forward_delay", "0")
    host.run("ip", "link", "set", "brflat", "up")
    networks.track(["brflat"])
    outside = host.guest(FLAT, THEIR_MAC, "10.9.0.6/16", bridge="brflat", tap="eth1")
    guest = host.guest(FLAT, OUR_MAC, "10.9.0.5/16", bridge="brflat")
    flood(outside, OUR_MAC, "ports")
    zone = int(host.run("nft", "list", "map", "inet", "minova", "zones").partition('"brflat" : ')[2].split()[0])
    # Not each of them: a machine with much to do loses some on the way.
    assert tracked(host, zone) > OF_A_NETWORK + OF_AN_INTERFACE
    with saying(outside, 80, "hello"):
        assert reaches(guest, "10.9.0.6")
    flood(guest, THEIR_MAC, "ports")
    assert tracked(host, zone) <= 2 * OF_A_NETWORK + OF_AN_INTERFACE + CLOSED
