"""What a tenant could do from a `local` network to other tenants and to its host, on a host without hypervisor: bridges and guests are
namespaces. tests/integration/virt has the same parts with real guests.
"""

import contextlib
import re
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.objects.guests.guest_metadata import ADDRESS
from minova.virt.namespaces.kernel import within
from minova.virt.namespaces.namespaces import ROUNDS, NetworkNamespaces
from minova.virt.namespaces.network import GuestInterface, HostSubnet, LocalNetwork
from minova.virt.namespaces.rules import CONNECTIONS_OF_A_PORT, CONNECTIONS_OF_A_RESOLVER
from tests.servers.veth_host import VethGuest, VethHost

pytestmark = pytest.mark.timeout(120)
OURS, THEIRS = str(uuid.uuid4()), str(uuid.uuid4())
RANGE = HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1", dhcp=False)
OUR_MAC, THEIR_MAC = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
# Prints what a server says, or the name of the error.
ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as asked:
        print(asked.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""
# Connects to the metadata service from each address, and prints how many connections are open together.
HOLD = """
import socket, sys
held = []
for address in sys.argv[3:]:
    client = socket.socket()
    client.settimeout(2)
    client.bind((address, 0))
    try:
        client.connect((sys.argv[1], int(sys.argv[2])))
        held.append(client)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""
# Connects so many times, one after the other, and prints what the service says.
ASK_AGAIN = """
import socket, sys
for _ in range(int(sys.argv[3])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as client:
        while said := client.recv(100):
            print(said.decode())
"""
# Sends a frame with a datagram: source and destination MAC and IP addresses, ports 5000 and 5001, or the other way round.
FORGE = """
import socket, struct, sys
smac, dmac, source, target, *back = sys.argv[1:]
payload = b"attack"
udp = struct.pack("!HHHH", *((5001, 5000) if back else (5000, 5001)), 8 + len(payload), 0) + payload
head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target))
total = sum(struct.unpack("!10H", head))
total = (total & 0xFFFF) + (total >> 16)
total = (total & 0xFFFF) + (total >> 16)
head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
mac = lambda text: bytes.fromhex(text.replace(":", ""))
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    for _ in range(3):
        raw.send(mac(dmac) + mac(smac) + b"\\x08\\x00" + head + udp)
"""
# Asks for DHCP: the client's MAC address; the type of the message, 1 (discover) or 4 (decline); an address, and the server.
# A discover prints the address that it is offered, or nothing. With a fifth word the message comes in two fragments, and the
# first one has no client.
DHCP = """
import os, socket, struct, sys, time
mac = lambda text: bytes.fromhex(text.replace(":", ""))
client, kind, address, server = mac(sys.argv[1]), int(sys.argv[2]), *map(socket.inet_aton, sys.argv[3:5])
own, xid = mac(open("/sys/class/net/eth0/address").read().strip()), os.urandom(4)
body = struct.pack("!BBBB4sHH16x16s192x4s", 1, 1, 6, 0, xid, 0, 0x8000, client, bytes.fromhex("63825363"))
body += bytes([53, 1, kind]) + (b"\\x32\\x04" + address + b"\\x36\\x04" + server if kind == 4 else b"") + b"\\xff"
udp = struct.pack("!HHHH", 68, 67, 8 + len(body), 0) + body
def packet(part, flags):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(part), 7, flags, 64, 17, 0, bytes(4), b"\\xff" * 4)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return b"\\xff" * 6 + own + b"\\x08\\x00" + head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:] + part
parts = [packet(udp[:16], 0x2000), packet(udp[16:], 2)] if sys.argv[5:] else [packet(udp, 0)]
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as raw:
    raw.bind(("eth0", 0x0800))
    for part in parts:
        raw.send(part)
    until = time.monotonic() + (3 if kind == 1 else 0)
    while (left := until - time.monotonic()) > 0:
        raw.settimeout(left)
        try:
            heard = raw.recv(2000)[34:]
        except TimeoutError:
            break
        if heard[2:4] == b"\\x00\\x44" and heard[12:16] == xid:
            print(socket.inet_ntoa(heard[24:28]))
            break
"""
# Waits for a datagram on port 5001, and prints it; nothing if none comes.
HEAR = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
    heard.bind(("0.0.0.0", 5001))
    heard.settimeout(1.5)
    print("listening", flush=True)
    try:
        print(heard.recv(100).decode())
    except TimeoutError:
        pass
"""


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@pytest.fixture
def networks(host: VethHost, tmp_path: Path) -> Iterator[NetworkNamespaces]:
    namespaces = NetworkNamespaces(tmp_path / "run", host.path, f"@{host.name}", lambda: {"brflat"})
    yield namespaces
    for network_id in namespaces.records():
        namespaces.remove(network_id)


def add(
    host: VethHost, networks: NetworkNamespaces, network_id: str, *subnets: HostSubnet, reachable: bool = False
) -> LocalNetwork:
    host.bridge(network_id)
    network = LocalNetwork(network_id=network_id, subnets=subnets or (RANGE,), reachable=reachable)
    networks.ensure(network)
    return network


@contextlib.contextmanager
def saying(place: VethHost | VethGuest, port: int, what: str) -> Iterator[None]:
    """A service on all addresses of a place, which says something to each client."""
    listening = within(
        Path("/run/netns") / place.name, lambda: socket.create_server(("0.0.0.0", port), reuse_port=True)
    )
    with listening, _answering(listening, what):
        yield


@contextlib.contextmanager
def _answering(listening: socket.socket, what: str) -> Iterator[None]:
    """A process says it, so that no thread of the tests is left."""
    script = (
        "import socket, sys\n"
        "server = socket.socket(fileno=int(sys.argv[1]))\n"
        "while True:\n"
        "    client, _ = server.accept()\n"
        "    client.sendall(sys.argv[2].encode())\n"
        "    client.close()\n"
    )
    number = listening.fileno()
    with subprocess.Popen([sys.executable, "-c", script, str(number), what], pass_fds=[number]) as server:
        try:
            yield
        finally:
            server.kill()


def ask(place: VethHost | VethGuest, address: str, port: int) -> str:
    return place.python(ASK, address, str(port)).strip()


def hears(place: VethHost | VethGuest, guest: VethGuest, *forged: str) -> str:
    """What the place hears while the guest sends a forged datagram."""
    command = ["ip", "netns", "exec", place.name, sys.executable, "-c", HEAR]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hearing:
        assert hearing.stdout is not None
        assert hearing.stdout.readline() == "listening\n"
        guest.python(FORGE, *forged)
        return hearing.stdout.read().strip()


def test_two_tenants_with_the_same_addresses_reach_their_own_alone(host: VethHost, networks: NetworkNamespaces) -> None:
    """Finding 10: ranges needed not to overlap, so one tenant could learn and take the ranges of others."""
    for network_id in (OURS, THEIRS):
        add(host, networks, network_id)
    ours = host.guest(OURS, OUR_MAC, "10.9.0.5/24", RANGE.gateway)
    theirs = host.guest(THEIRS, THEIR_MAC, "10.9.0.5/24", RANGE.gateway)
    our_server = host.guest(OURS, "fa:16:3e:00:00:03", "10.9.0.7/24", RANGE.gateway)
    their_server = host.guest(THEIRS, "fa:16:3e:00:00:04", "10.9.0.7/24", RANGE.gateway)
    beside = host.neighbour("198.51.100.1/24", "198.51.100.2/24")
    with saying(our_server, 80, "ours"), saying(their_server, 80, "theirs"), saying(beside, 80, "outside"):
        for guest, own in ((ours, "ours"), (theirs, "theirs")):
            assert ask(guest, "10.9.0.7", 80) == own
            assert ask(guest, "198.51.100.1", 80) == "outside"


def test_bug_metadata_of_another_tenant_with_the_same_address(host: VethHost, networks: NetworkNamespaces) -> None:
    """Finding 1: the host answered in the network with the more specific route, and took the caller for another tenant's guest."""
    for network_id in (OURS, THEIRS):
        add(host, networks, network_id)
    guests = {
        network_id: host.guest(network_id, mac, "10.9.0.5/24", RANGE.gateway)
        for network_id, mac in ((OURS, OUR_MAC), (THEIRS, THEIR_MAC))
    }
    with contextlib.ExitStack() as stack:
        for network_id in guests:
            listening = stack.enter_context(networks.listener(network_id))
            stack.enter_context(_answering(listening, network_id))
        for network_id, guest in guests.items():
            assert ask(guest, ADDRESS, 80) == network_id


def test_bug_addresses_and_routes_of_a_deleted_subnet_stay(host: VethHost, networks: NetworkNamespaces) -> None:
    """Finding 1."""
    more = HostSubnet(cidr="10.9.1.0/24", gateway="10.9.1.1", dhcp=False)
    network = add(host, networks, OURS, RANGE, more, reachable=True)
    assert "10.9.1.0/24 via" in host.run("ip", "route")
    networks.ensure(LocalNetwork(network_id=network.network_id, subnets=(RANGE,), reachable=True))
    assert "10.9.1." not in host.run("ip", "route")
    assert "10.9.0.0/24 via" in host.run("ip", "route")
    inside = subprocess.run(
        ["ip", "-netns", f"minova-{OURS}@{host.name}", "address"], capture_output=True, text=True, check=True
    ).stdout
    assert "10.9.1." not in inside
    networks.ensure(LocalNetwork(network_id=network.network_id, subnets=(RANGE,)))
    assert "10.9." not in host.run("ip", "route")


def test_bug_network_diverts_the_traffic_of_its_host(host: VethHost, networks: NetworkNamespaces) -> None:
    """Finding 4: a tenant took the range of the broker."""
    broker = host.neighbour("192.0.2.7/24", "192.0.2.2/24")
    add(host, networks, OURS, HostSubnet(cidr="192.0.2.0/25", gateway="192.0.2.1", dhcp=False))
    guest = host.guest(OURS, OUR_MAC, "192.0.2.7/25", "192.0.2.1")
    with saying(broker, 5672, "broker"), saying(guest, 5672, "tenant"):
        assert ask(host, "192.0.2.7", 5672) == "broker"


def test_bug_one_connection_tracking_for_all_networks(host: VethHost, networks: NetworkNamespaces) -> None:
    """Finding 5: with equal addresses the connection of one network opened the filters of another."""
    for network_id in (OURS, THEIRS):
        add(host, networks, network_id)
    networks.track(["brflat"])
    host.run("ip", "link", "add", "brflat", "type", "bridge")
    host.run("ip", "link", "set", "brflat", "up")
    networks.track(["brflat"])
    zones = host.run("nft", "list", "map", "inet", "minova", "zones")
    numbers = [part.rsplit(":", 1)[1].strip(" }\n") for part in zones.partition("elements = ")[2].split(",")]
    assert len({number.split()[0] for number in numbers}) == 3, zones
    ours = host.guest(OURS, OUR_MAC, "10.9.0.5/24", RANGE.gateway)
    host.guest(OURS, "fa:16:3e:00:00:03", "10.9.0.7/24", RANGE.gateway)
    theirs = host.guest(THEIRS, THEIR_MAC, "10.9.0.7/24", RANGE.gateway)
    # What packet filters of ports do, on all bridges: only what belongs to a connection reaches their guest.
    host.run(
        "iptables",
        "-A",
        "FORWARD",
        "-m",
        "physdev",
        "--physdev-out",
        theirs.tap,
        "-m",
        "conntrack",
        "--ctstate",
        "NEW",
        "-j",
        "DROP",
    )
    their_sender = host.guest(THEIRS, "fa:16:3e:00:00:04", "10.9.0.5/24", RANGE.gateway)
    # Ours opens the connection 10.9.0.7 -> 10.9.0.5; on their network a datagram backwards would be its answer.
    ours.python(FORGE, OUR_MAC, "fa:16:3e:00:00:03", "10.9.0.7", "10.9.0.5", "back")
    tracked = host.run("cat", "/proc/net/nf_conntrack")
    assert "src=10.9.0.7 dst=10.9.0.5 sport=5001 dport=5000" in tracked, tracked
    assert hears(theirs, their_sender, "fa:16:3e:00:00:04", THEIR_MAC, "10.9.0.5", "10.9.0.7") == ""


@pytest.mark.parametrize("source", ["0.0.0.0", "10.9.0.5", "192.0.2.2", "169.254.0.1"])
def test_bug_datagrams_reach_the_host(host: VethHost, networks: NetworkNamespaces, source: str) -> None:
    """Finding 6: from 0.0.0.0 to 0.0.0.0, which the kernel takes for a broadcast. A guest without filter sends anything."""
    network = add(host, networks, OURS)
    host.neighbour("192.0.2.7/24", "192.0.2.2/24")
    guest = host.guest(OURS, OUR_MAC, "10.9.0.5/24", RANGE.gateway)
    bridge = host.run("ip", "-o", "link", "show", network.bridge).split("link/ether ")[1].split()[0]
    for mac in (bridge, network.mac, "ff:ff:ff:ff:ff:ff"):
        for target in ("0.0.0.0", "255.255.255.255", "192.0.2.2", "127.0.0.1", "169.254.0.0"):
            guest.python(FORGE, OUR_MAC, mac, source, target)
    assert hears(host, guest, OUR_MAC, bridge, source, "192.0.2.2") == ""
    assert hears(host, guest, OUR_MAC, "ff:ff:ff:ff:ff:ff", source, "0.0.0.0") == ""
    # Nor does the host answer for its addresses there.
    guest.run("ip", "address", "add", "192.0.2.9/24", "dev", "eth0")
    with saying(host, 8774, "host"):
        assert ask(guest, "192.0.2.2", 8774) != "host"


def test_bug_guest_takes_the_dhcp_of_another_by_its_name_for_itself(host: VethHost) -> None:
    """The filters of ports look at the source of a frame, and DHCP at the client that the message names. A refusal in the
    name of another guest took its address away for ten minutes.
    """
    served = HostSubnet(cidr="10.9.0.0/24", gateway="10.9.0.1")
    # Not in pytest's folders: dnsmasq has a user of its own, and reads its files again.
    with tempfile.TemporaryDirectory(prefix="minova-dhcp-") as name:
        Path(name).chmod(0o755)
        networks = NetworkNamespaces(Path(name) / "run", host.path, f"@{host.name}")
        add(host, networks, OURS, served)
        try:
            _ask_as_another(host, networks, served)
        finally:
            networks.remove(OURS)


def _ask_as_another(host: VethHost, networks: NetworkNamespaces, served: HostSubnet) -> None:
    guests = {mac: host.guest(OURS, mac) for mac in (OUR_MAC, THEIR_MAC)}
    attacker, victim = guests.values()
    for number, (mac, guest) in enumerate(guests.items(), 5):
        networks.enter(OURS, GuestInterface(mac=mac, address=f"10.9.0.{number}", tap=guest.tap))
    unserved = host.guest(OURS, "fa:16:3e:00:00:03")
    discover, decline = ("1", "10.9.0.6", served.gateway), ("4", "10.9.0.6", served.gateway)

    def offered(guest: VethGuest, mac: str) -> str:
        answers = (guest.python(DHCP, mac, *discover).strip() for _ in range(5))
        return next(filter(None, answers), "")  # dnsmasq may read its files just now

    assert offered(attacker, OUR_MAC) == "10.9.0.5"
    assert offered(victim, THEIR_MAC) == "10.9.0.6"
    for guest in (attacker, unserved):
        for how in ((), ("fragments",)):
            guest.python(DHCP, THEIR_MAC, *decline, *how)
    assert offered(victim, THEIR_MAC) == "10.9.0.6"
    assert attacker.python(DHCP, THEIR_MAC, *discover).strip() == ""


def test_host_reaches_guests_of_reachable_networks_and_no_other_machine_does(
    host: VethHost, networks: NetworkNamespaces
) -> None:
    add(host, networks, OURS, reachable=True)
    hidden = HostSubnet(cidr="10.8.0.0/24", gateway="10.8.0.1", dhcp=False)
    add(host, networks, THEIRS, hidden)
    beside = host.neighbour("198.51.100.1/24", "198.51.100.2/24")
    guest = host.guest(OURS, OUR_MAC, "10.9.0.5/24", RANGE.gateway)
    other = host.guest(THEIRS, THEIR_MAC, "10.8.0.5/24", hidden.gateway)
    for block in ("10.9.0.0/24", "10.8.0.0/24"):
        beside.run("ip", "route", "add", block, "via", "198.51.100.2")
    with saying(guest, 22, "guest"), saying(other, 22, "other"), saying(host, 22, "host"):
        assert ask(host, "10.9.0.5", 22) == "guest"
        assert {ask(place, "10.9.0.5", 22) for place in (beside, other)}.isdisjoint({"guest", "host"})
        assert {ask(place, "10.8.0.5", 22) for place in (beside, host, guest)}.isdisjoint({"other", "host"})
        assert ask(guest, "198.51.100.2", 22) != "host"
        with networks.connect(THEIRS, "10.8.0.5", 22, 5.0) as inside:
            assert inside.recv(10) == b"other"


def routes(host: VethHost) -> str:
    """A pair of interfaces that is new may have no carrier for a moment."""
    return host.run("ip", "route").replace(" linkdown", "")


def test_bug_compute_gives_its_host_a_route_that_it_has(host: VethHost, networks: NetworkNamespaces) -> None:
    """minova-compute compared the routes, and the helper believed it: `route replace` took the host's own route away."""
    host.neighbour("192.0.2.7/24", "192.0.2.2/24")
    before = routes(host)
    host.bridge(OURS)
    for cidr, gateway in (("192.0.2.0/24", "192.0.2.1"), ("192.0.2.0/25", "192.0.2.1"), ("192.0.0.0/16", "192.0.0.1")):
        stolen = HostSubnet(cidr=cidr, gateway=gateway, dhcp=False)
        with pytest.raises(ValueError, match="overlaps 192"):
            networks.ensure(LocalNetwork(network_id=OURS, subnets=(stolen,), reachable=True))
        assert routes(host) == before
    # A network with a route keeps it, and may be ensured again; its route is made again if it leads elsewhere.
    network = add(host, networks, THEIRS, reachable=True)
    networks.ensure(network)
    host.run("ip", "route", "replace", RANGE.cidr, "dev", network.uplink)
    networks.ensure(network)
    assert f"{RANGE.cidr} via {networks.records()[THEIRS].network_end} dev {network.uplink}" in host.run("ip", "route")


def test_bug_any_interface_is_tracked_as_a_bridge(host: VethHost, networks: NetworkNamespaces) -> None:
    """A caller of the helper could take the connections of its host apart, by the name of any interface."""
    host.neighbour("192.0.2.7/24", "192.0.2.2/24")
    with pytest.raises(ValueError, match="no bridge of"):
        networks.track(["brflat", "eth1"])
    assert "eth1" not in host.run("nft", "list", "ruleset")


def test_bug_guest_with_many_addresses_held_all_connections_of_the_metadata_service(
    host: VethHost, networks: NetworkNamespaces
) -> None:
    add(host, networks, OURS)
    mine = [f"10.9.0.{number}" for number in range(10, 100)]
    attacker = host.guest(OURS, OUR_MAC, f"{mine[0]}/24", RANGE.gateway)
    for address in mine[1:]:
        attacker.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    other = host.guest(OURS, THEIR_MAC, "10.9.0.5/24", RANGE.gateway)
    networks.enter(OURS, GuestInterface(mac=OUR_MAC, address=mine[0], tap=attacker.tap))
    networks.enter(OURS, GuestInterface(mac=THEIR_MAC, address="10.9.0.5", tap=other.tap))
    with networks.listener(OURS) as listening, _answering(listening, "metadata"):
        assert set(attacker.python(ASK_AGAIN, ADDRESS, "80", "100").split()) == {"metadata"}, "one after the other"
    with networks.listener(OURS):
        _hold_while_rules_are_made_again(host, networks, attacker, mine)
        assert int(other.python(HOLD, ADDRESS, "80", "10.9.0.5")) == 1
        # Another MAC address makes no other guest of it.
        attacker.run("ip", "link", "set", "eth0", "address", "fa:16:3e:00:00:09")
        assert int(attacker.python(HOLD, ADDRESS, "80", *mine[:2])) == 0


def _hold_while_rules_are_made_again(
    host: VethHost, networks: NetworkNamespaces, attacker: VethGuest, addresses: list[str]
) -> None:
    """Its owner starts it again, or the network changes, while it holds its connections: the limit holds on."""
    more = HostSubnet(cidr="10.8.0.0/24", gateway="10.8.0.1", dhcp=False)
    command = ["ip", "netns", "exec", attacker.name, sys.executable, "-c", HOLD, ADDRESS, "80", *addresses]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        assert int(holding.stdout.readline()) == CONNECTIONS_OF_A_PORT
        networks.ensure(networks.records()[OURS].network)
        assert int(attacker.python(HOLD, ADDRESS, "80", *addresses[:2])) == 0
        networks.ensure(LocalNetwork(network_id=OURS, subnets=(RANGE, more)))
        assert int(attacker.python(HOLD, ADDRESS, "80", *addresses[:2])) == 0
        for _ in range(ROUNDS):  # the rules are made again meanwhile
            assert networks.broken() == {}
        assert int(attacker.python(HOLD, ADDRESS, "80", *addresses[:2])) == 0
        holding.communicate()


# Asks a resolver for names by TCP, each on a connection of its own that it keeps, and prints how many were answered.
RESOLVE = """
import os, socket, struct, sys
held = []
for number in range(int(sys.argv[2])):
    client = socket.create_connection((sys.argv[1], 53), 3)
    client.settimeout(3)
    name = bytes([12]) + os.urandom(6).hex().encode() + b"\\x07example\\x00"
    asked = struct.pack("!HHHHHH", number, 0x100, 1, 0, 0, 0) + name + struct.pack("!HH", 1, 1)
    try:
        client.sendall(struct.pack("!H", len(asked)) + asked)
        if client.recv(100):
            held.append(client)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""
# Knows no name, and answers so by TCP, for as long as it is asked.
NAME_SERVER = """
import socket, struct, sys, threading
def answer(client):
    while size := client.recv(2):
        asked = client.recv(*struct.unpack("!H", size))
        told = asked[:2] + b"\\x81\\x80" + asked[4:6] + bytes(6) + asked[12:]
        client.sendall(struct.pack("!H", len(told)) + told)
with socket.create_server((sys.argv[1], 53)) as server:
    print("listening", flush=True)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def name_server(host: VethHost) -> Iterator[None]:
    """Answers at the address that the resolver of the host asks."""
    resolvers = re.findall(r"^nameserver ([\d.]+)$", Path("/etc/resolv.conf").read_text(), re.MULTILINE)
    if not resolvers:
        pytest.skip("this host asks no name server by IPv4")
    host.run("ip", "link", "set", "lo", "up")
    host.run("ip", "address", "add", f"{resolvers[0]}/32", "dev", "lo")
    command = ["ip", "netns", "exec", host.name, sys.executable, "-c", NAME_SERVER, resolvers[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "listening\n"
        yield
        server.kill()


@pytest.mark.usefixtures("name_server")
def test_bug_guest_held_all_connections_of_the_resolver_of_its_host(
    host: VethHost, networks: NetworkNamespaces
) -> None:
    """The resolvers of all networks ask the one of the host, by TCP for each guest that asks by TCP. It took 20."""
    for network_id in (OURS, THEIRS):
        add(host, networks, network_id)
    attacker = host.guest(OURS, OUR_MAC, "10.9.0.10/24", RANGE.gateway)
    other = host.guest(THEIRS, THEIR_MAC, "10.9.0.5/24", RANGE.gateway)
    command = ["ip", "netns", "exec", attacker.name, sys.executable, "-c", RESOLVE, RANGE.gateway, "20"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        assert int(holding.stdout.readline()) == CONNECTIONS_OF_A_RESOLVER
        assert other.python(RESOLVE, RANGE.gateway, "1").strip() == "1"
        networks.ensure(networks.records()[OURS].network)
        assert attacker.python(RESOLVE, RANGE.gateway, "1").strip() == "0", "the rules are made again with their counts"
        holding.communicate()
