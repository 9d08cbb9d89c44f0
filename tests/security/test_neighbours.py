"""All namespaces of a host share the kernel's tables of neighbours, for IPv4 and for IPv6: an address takes an entry when something
is sent to it. Real packets, without hypervisor.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.guests.guest_metadata import ADDRESS
from minova.virt.namespaces import rules
from minova.virt.namespaces.kernel import run, within
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import HostSubnet
from tests.security.test_local_networks import add, ask
from tests.servers.veth_host import VethHost

pytestmark = pytest.mark.timeout(120)
NETWORK, MAC = str(uuid.uuid4()), "fa:16:3e:00:00:01"
RANGE = HostSubnet(cidr="10.9.0.0/16", gateway="10.9.0.1", dhcp=False)
RANGE6 = HostSubnet(cidr="2001:db8:2::/64", gateway="2001:db8:2::1", mode="slaac")
# More than a network may have, and less than overflows the tables of the machine.
FORGED, MOST = 700, 512
# Begins TCP connections from so many addresses to port 80 of an address, by a MAC address, and prints for how many of its addresses
# somebody asks by ARP.
FORGE = """
import socket, struct, sys, time
mac = lambda text: bytes.fromhex(text.replace(":", ""))
target, gateway, count = socket.inet_aton(sys.argv[1]), mac(sys.argv[2]), int(sys.argv[3])
own = mac(open("/sys/class/net/eth0/address").read().strip())
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as raw:
    raw.bind(("eth0", 0x0806))
    asked = set()
    def hear():
        raw.setblocking(False)
        try:
            while True:
                frame = raw.recv(2000)
                if frame[20:22] == b"\\0\\1" and frame[6:12] != own:
                    asked.add(frame[38:42])
        except BlockingIOError:
            raw.setblocking(True)
    for number in range(count):
        source = struct.pack("!BBH", 10, 9, 512 + number)
        body = struct.pack("!HHIIBBHHH", 1024, 80, 1, 0, 0x50, 2, 1000, 0, 0)
        body = body[:16] + checksum(source + target + struct.pack("!BBH", 0, 6, len(body)) + body) + body[18:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0, source, target)
        head = head[:10] + checksum(head) + head[12:]
        raw.send(gateway + own + b"\\x08\\x00" + head + body)
        hear()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        time.sleep(0.05)
        hear()
print(len(asked))
"""
# Reaches the resolver at an address, and then begins connections to it from so many other addresses of its range.
FORGE6 = """
import socket, sys, time
IPV6_FREEBIND = 78
resolver = (sys.argv[1], 53)
until = time.monotonic() + 60
while True:
    try:
        socket.create_connection(resolver, 1).close()
        break
    except OSError:  # an address is still being tested
        assert time.monotonic() < until
        time.sleep(0.1)
for number in range(int(sys.argv[2])):
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as asking:
        asking.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        asking.setblocking(False)
        asking.bind((f"2001:db8:2::1:{number:x}", 0))
        asking.connect_ex(resolver)
"""
# Solicits routers as an interface without an address, until one has advertised itself to all.
SOLICIT = """
import socket
own = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
to = lambda last: bytes.fromhex("ff02") + bytes(13) + bytes([last])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD)) as raw:
    raw.bind(("eth0", 0x86DD))
    raw.settimeout(2)
    frame = b""
    for _ in range(5):
        body = bytes.fromhex("85007bb800000000")
        raw.send(bytes.fromhex("333300000002") + own + bytes.fromhex("86dd600000000008 3aff") + bytes(16) + to(2) + body)
        try:
            while not (frame[6:12] != own and frame[20:21] == b":" and frame[38:55] == to(1) + bytes([134])):
                frame = raw.recv(2000)
            print("advertised")
            break
        except TimeoutError:
            pass
"""


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@pytest.fixture
def networks(host: VethHost, tmp_path: Path) -> Iterator[NetworkNamespaces]:
    namespaces = NetworkNamespaces(tmp_path / "run", host.path, f"@{host.name}")
    yield namespaces
    namespaces.remove(NETWORK)


@pytest.mark.parametrize("target", [ADDRESS, "192.0.2.7"], ids=["answers of the namespace", "answers from outside"])
def test_bug_forged_addresses_filled_the_table_of_neighbours_for_all(
    host: VethHost, networks: NetworkNamespaces, target: str
) -> None:
    """With "neighbor table overflow" the host and guests of other networks reached no machine that they had not reached before."""
    network = add(host, networks, NETWORK, RANGE)
    host.neighbour("192.0.2.7/24", "192.0.2.2/24")
    guest = host.guest(NETWORK, MAC, "10.9.0.5/16", RANGE.gateway)
    assert ask(guest, target, 80) == "ConnectionRefusedError"
    requests_seen = int(guest.python(FORGE, target, network.mac, str(FORGED)))
    assert MOST // 2 < requests_seen <= MOST
    assert ask(guest, target, 80) == "ConnectionRefusedError", "the guest itself is known"


def test_bug_forged_addresses_kept_advertisements_from_all(host: VethHost, networks: NetworkNamespaces) -> None:
    """Each address for which the namespace asks took two places: its own, and that of its multicast group."""
    add(host, networks, NETWORK, RANGE, RANGE6)
    guest = host.guest(NETWORK, MAC, "2001:db8:2::5/64")
    inside = Path("/run/netns") / f"minova-{NETWORK}@{host.name}"
    guest.python(FORGE6, RANGE6.gateway, str(FORGED))
    neighbours = within(inside, lambda: run(["nft", "list", "set", "inet", rules.TABLE, "neighbours6"]))
    assert neighbours.count(" expires ") == MOST
    assert "ff02::" not in neighbours
    counter = within(inside, lambda: run(["nft", "list", "counter", "inet", rules.TABLE, "dropped_neighbours"]))
    assert "packets 0 " not in counter
    assert guest.python(SOLICIT).split() == ["advertised"]
