"""What guests get by DHCP and router advertisements from their host alone, by real dnsmasq. The host, its guests and machines beside it
are namespaces.
"""

import json
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from minova.objects.network.dhcp_options import DhcpOption
from minova.objects.network.network import FLAT, LOCAL, STATEFUL, HostRoute
from minova.objects.network.vif import Vif, VifAddress, VifSubnet, tap_name
from minova.virt.namespaces import dnsmasq
from minova.virt.namespaces.host_rules import HostRules
from minova.virt.namespaces.kernel import within
from minova.virt.namespaces.namespaces import NetworkNamespaces
from minova.virt.namespaces.network import host_of, network_of
from tests.security.test_local_networks import ask as talk
from tests.security.test_local_networks import saying
from tests.servers.veth_host import VethGuest, VethHost
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(120)
NETWORK = str(uuid.uuid4())
MAC, OTHER = "fa:16:3e:00:00:01", "fa:16:3e:00:00:02"
BRIDGE = "brlan"
FOUR = VifSubnet(id="4", cidr="192.0.2.0/24", gateway_ip="192.0.2.1", dns_nameservers=("9.9.9.9",))
SECOND = VifSubnet(id="4b", cidr="198.51.100.0/24")
SLAAC = VifSubnet(id="6", cidr="2001:db8:1::/64", gateway_ip="2001:db8:1::1", ipv6_mode="slaac")
GIVEN = VifSubnet(id="6b", cidr="2001:db8:2::/64", gateway_ip="2001:db8:2::1", ipv6_mode=STATEFUL)
PLAIN = VifSubnet(id="6c", cidr="2001:db8:3::/64", ipv6_mode="dhcpv6-stateless", dns_nameservers=("2001:db8::53",))
OWN_ADDRESS = "2001:db8:1:0:f816:3eff:fe00:1"
ADDRESSES = {
    "4": "192.0.2.50",
    "4b": "198.51.100.50",
    "6": OWN_ADDRESS,
    "6b": "2001:db8:2::50",
    "6c": "2001:db8:3:0:f816:3eff:fe00:1",
}
ROOT = Path(__file__).parents[3]


@pytest.fixture
def host() -> Iterator[VethHost]:
    with VethHost() as host:
        yield host


@pytest.fixture
def run_folder() -> Iterator[Path]:
    # Not in pytest's folders, which dnsmasq's user may not read.
    with tempfile.TemporaryDirectory(prefix="minova-dhcp-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "run"


@pytest.fixture
def networks(host: VethHost, run_folder: Path) -> Iterator[NetworkNamespaces]:
    namespaces = networks_of(host, run_folder)
    yield namespaces
    for network_id in namespaces.records():
        namespaces.remove(network_id)


def networks_of(host: VethHost, run_folder: Path) -> NetworkNamespaces:
    return NetworkNamespaces(run_folder, host.path, f"@{host.name}", lambda: {BRIDGE})


def vif(kind: str, *subnets: VifSubnet, **more: Any) -> Vif:
    addresses = tuple(VifAddress(subnet_id=each.id, ip_address=ADDRESSES[each.id]) for each in subnets)
    values: dict[str, Any] = {"mac_address": MAC, "mtu": 1400, "addresses": addresses, "subnets": subnets}
    return Vif(
        port_id=str(uuid.uuid4()),
        network_id=NETWORK,
        network_type=kind,
        physical_network=None if kind == LOCAL else "lan",
        **values | more,
    )


def plug(host: VethHost, networks: NetworkNamespaces, one: Vif, name: str = "web") -> VethGuest:
    """As the driver does it: the network, the interface, then the guest."""
    over = "" if one.network_type == LOCAL else BRIDGE
    if NETWORK not in networks.records():
        host.bridge(NETWORK, over)
    networks.ensure(network_of(one, metadata=True, over=over))
    entry = host_of(one, name)
    assert entry is not None
    networks.enter(NETWORK, entry)
    return host.guest(NETWORK, one.mac_address, bridge=over, tap=tap_name(one.port_id))


def ask(guest: VethGuest, kind: str, mac: str = MAC) -> dict[str, Any]:
    """Asks until a server has answered, as guests do: a datagram may be lost, or its answer be late."""
    return wait_for(f"an answer to {kind}", lambda: ask_once(guest, kind, mac), 40)


def ask_once(place: VethGuest, kind: str, mac: str = MAC) -> dict[str, Any]:
    """Empty: no server answered within two seconds."""
    command = ["ip", "netns", "exec", place.name, sys.executable, "-m", "tests.servers.dhcp_client", kind, mac]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=ROOT)
    return dict(json.loads(done.stdout or "{}"))


def routes_of(answer: dict[str, Any]) -> list[str]:
    data, routes = bytes.fromhex(answer["options"]["121"]), []
    while data:
        width = data[0]
        count = (width + 7) // 8
        destination = socket.inet_ntoa(data[1 : 1 + count].ljust(4, b"\0"))
        routes.append(f"{destination}/{width} {socket.inet_ntoa(data[1 + count : 5 + count])}")
        data = data[5 + count :]
    return routes


def has_six(guest: VethGuest, address: str) -> bool:
    return f" {address}/" in guest.run("ip", "-6", "address", "show", "dev", "eth0", "scope", "global")


def routes6(guest: VethGuest) -> str:
    return guest.run("ip", "-6", "route", "show", "default")


@pytest.mark.parametrize("kind", [FLAT, LOCAL])
def test_guest_has_its_addresses_and_routes_from_its_host(
    host: VethHost, networks: NetworkNamespaces, kind: str
) -> None:
    routes = (HostRoute(destination="203.0.113.0/24", nexthop="192.0.2.9"),)
    guest = plug(host, networks, vif(kind, msgspec.structs.replace(FOUR, host_routes=routes), SLAAC, GIVEN))
    answer = ask(guest, "4")
    assert answer["address"] == "192.0.2.50"
    resolver = "9.9.9.9" if kind == FLAT else "192.0.2.1"
    assert answer["options"]["6"] == socket.inet_aton(resolver).hex()
    assert answer["options"]["3"] == socket.inet_aton("192.0.2.1").hex()
    assert answer["options"]["26"] == f"{1400:04x}"
    assert bytes.fromhex(answer["options"]["12"]) == b"web"
    link = ["169.254.169.254/32 0.0.0.0"] if kind == FLAT else []
    assert routes_of(answer) == [*link, "203.0.113.0/24 192.0.2.9", "0.0.0.0/0 192.0.2.1"]
    wait_for("the advertised address", lambda: has_six(guest, OWN_ADDRESS))
    assert ask(guest, "stateful")["address"] == "2001:db8:2::50"
    assert not has_six(guest, "2001:db8:2:0:f816:3eff:fe00:1")
    # Of a local network the namespace is the router; the router of a flat network is outside.
    assert ("via fe80::" in routes6(guest)) is (kind == LOCAL)
    # No other interface gets anything.
    stranger = host.guest(NETWORK, OTHER, bridge="" if kind == LOCAL else BRIDGE)
    assert ask_once(stranger, "4", OTHER) == {}


def test_several_subnets_of_one_network_without_gateways(host: VethHost, networks: NetworkNamespaces) -> None:
    bare = msgspec.structs.replace(FOUR, gateway_ip=None, dns_nameservers=())
    first = plug(host, networks, vif(LOCAL, bare, subnets=(bare, SECOND)))
    second = plug(host, networks, vif(LOCAL, SECOND, subnets=(bare, SECOND), mac_address=OTHER), "db")
    answer, other = ask(first, "4"), ask(second, "4", OTHER)
    assert (answer["address"], other["address"]) == ("192.0.2.50", "198.51.100.50")
    assert "3" not in answer["options"], "a router that there is none"
    assert routes_of(answer) == ["169.254.169.254/32 0.0.0.0"]
    assert answer["options"]["6"] == socket.inet_aton("169.254.169.254").hex()
    # And there it finds the resolver.
    first.run("ip", "address", "add", "192.0.2.50/24", "dev", "eth0")
    first.run("ip", "route", "add", "169.254.169.254", "dev", "eth0")
    assert resolve(first, "db", "169.254.169.254") == "198.51.100.50"


# Asks a resolver for the IPv4 address of a name.
RESOLVE = """
import os, socket, sys
name, server = sys.argv[1:]
labels = b"".join(bytes([len(each)]) + each.encode() for each in name.split(".")) + bytes(1)
with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as asking:
    asking.settimeout(5)
    asking.sendto(os.urandom(2) + bytes([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + labels + bytes([0, 1, 0, 1]), (server, 53))
    print(socket.inet_ntoa(asking.recv(512)[-4:]))
"""


def resolve(guest: VethGuest, name: str, server: str) -> str:
    return guest.python(RESOLVE, name, server).strip()


def test_bug_server_ends_when_it_reads_its_files_after_a_request(host: VethHost, networks: NetworkNamespaces) -> None:
    """dnsmasq 2.90 frees tags of interfaces that a request has linked to others: the next request ended it."""
    guest = plug(host, networks, vif(LOCAL, FOUR, GIVEN))
    before = dnsmasq.running(folder_of(networks))
    for number in range(3):
        assert ask(guest, "4")["address"] == "192.0.2.50"
        assert ask(guest, "stateful")["address"] == "2001:db8:2::50"
        plug(
            host,
            networks,
            vif(
                LOCAL,
                subnets=(FOUR, GIVEN),
                mac_address=f"fa:16:3e:00:01:{number:02x}",
                addresses=(VifAddress(subnet_id="4", ip_address=f"192.0.2.{60 + number}"),),
            ),
            f"more-{number}",
        )
    assert dnsmasq.running(folder_of(networks)) == before


def test_renamed_server_is_found_by_its_new_name_at_once(host: VethHost, networks: NetworkNamespaces) -> None:
    options = (
        DhcpOption(opt_name="tftp-server", opt_value="192.0.2.8"),
        DhcpOption(opt_name="59", opt_value="http://boot.example/x", ip_version=6),
    )
    new_vif = vif(LOCAL, FOUR, GIVEN, dns_domain="blue.openstacklocal", extra_dhcp_opts=options)
    guest = plug(host, networks, new_vif)
    before = dnsmasq.running(folder_of(networks))
    guest.run("ip", "address", "add", "192.0.2.50/24", "dev", "eth0")
    assert resolve(guest, "web.blue.openstacklocal", "192.0.2.1") == "192.0.2.50"
    given = ask(guest, "4")["options"]
    assert [bytes.fromhex(given[number]).rstrip(b"\0") for number in ("12", "15", "66")] == [
        b"web",
        b"blue.openstacklocal",
        b"192.0.2.8",
    ]
    assert bytes.fromhex(ask(guest, "stateful")["options"]["59"]) == b"http://boot.example/x"
    entry = host_of(new_vif, "shop")
    assert entry is not None
    networks.enter(NETWORK, entry)
    wait_for("the new name", lambda: resolve(guest, "shop.blue.openstacklocal", "192.0.2.1") == "192.0.2.50")
    assert bytes.fromhex(ask(guest, "4")["options"]["12"]) == b"shop"
    assert dnsmasq.running(folder_of(networks)) == before


def folder_of(networks: NetworkNamespaces) -> Path:
    return next(networks._networks.iterdir())


def test_stateless_guests_learn_the_resolvers(host: VethHost, networks: NetworkNamespaces) -> None:
    guest = plug(host, networks, vif(FLAT, PLAIN))
    wait_for("the advertised address", lambda: has_six(guest, ADDRESSES["6c"]))
    answer = ask(guest, "stateless")
    assert answer["address"] == ""
    assert answer["options"]["23"] == socket.inet_pton(socket.AF_INET6, "2001:db8::53").hex()


def test_nothing_of_the_server_leaves_its_host_and_nothing_foreign_comes_in(
    host: VethHost, networks: NetworkNamespaces
) -> None:
    guest = plug(host, networks, vif(FLAT, FOUR, SLAAC, GIVEN))
    # A machine of the physical network, which has the address of a guest, and another that serves DHCP there itself.
    outside = host.guest(NETWORK, OTHER, bridge=BRIDGE, tap="eth7")
    namespace = f"minova-{NETWORK}@{host.name}"
    with subprocess.Popen(
        ["ip", "netns", "exec", outside.name, sys.executable, "-c", SPY], stdout=subprocess.PIPE, text=True
    ) as heard:
        assert heard.stdout is not None
        assert heard.stdout.readline() == "listening\n"
        assert ask(guest, "4")["address"] == "192.0.2.50"
        assert ask_once(outside, "4") == {}, "with the MAC address of a guest"
        assert ask_once(outside, "stateful") == {}
        assert not has_six(outside, "2001:db8:1:0:f816:3eff:fe00:2")
        # The namespace asks for an address of its range, which nothing but a guest here could have.
        within(Path("/run/netns") / namespace, send_outside)
        frames = heard.communicate(timeout=120)[0]
    mac = networks.records()[NETWORK].mac
    assert mac not in frames, frames
    assert "udp 68" not in frames, "the request of a guest leaves its host"
    guest.run("ip", "address", "add", "192.0.2.50/24", "dev", "eth0")
    outside.run("ip", "address", "add", "192.0.2.200/24", "dev", "eth0")
    with saying(outside, 80, "outside"):
        assert talk(guest, "192.0.2.200", 80) == "outside"  # the network itself is as it was


def send_outside() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.sendto(b"out", ("192.0.2.200", 9))


# Prints the source of each frame that comes in within five seconds, and the ports of datagrams.
SPY = """
import socket, struct, time
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
    raw.bind(("eth0", 3))
    print("listening", flush=True)
    until = time.monotonic() + 9
    while (left := until - time.monotonic()) > 0:
        raw.settimeout(left)
        try:
            frame, (_, _, direction, *_) = raw.recvfrom(2000)
        except TimeoutError:
            break
        if direction == 4:
            continue
        source = ":".join(f"{each:02x}" for each in frame[6:12])
        is_datagram = frame[12:14] == b"\\x08\\x00" and frame[23] == 17
        port = struct.unpack_from("!H", frame, 14 + 4 * (frame[14] & 15))[0] if is_datagram else 0
        print(source, "udp" if is_datagram else frame[12:14].hex(), port)
"""


def is_resolving(run_folder: Path) -> bool:
    return dnsmasq.running(run_folder / "resolver") is not None


@pytest.mark.parametrize("kind", [FLAT, LOCAL])
def test_bug_resolver_of_a_host_went_by_rules_that_know_nothing_of_networks_over_bridges(
    host: VethHost, networks: NetworkNamespaces, run_folder: Path, kind: str
) -> None:
    """A flat network changes no rule of a host that tracks bridges: its namespace asked a resolver that did not run, and the last one
    left the resolver behind.
    """
    over = "" if kind == LOCAL else BRIDGE
    host.bridge(NETWORK, BRIDGE)
    if kind == LOCAL:
        host.bridge(NETWORK)
    networks.track({BRIDGE})
    assert not is_resolving(run_folder)
    of_guests = network_of(vif(kind, FOUR), metadata=True, over=over)
    networks.ensure(of_guests)
    assert is_resolving(run_folder)
    networks.remove(NETWORK)
    assert not is_resolving(run_folder)
    networks.ensure(of_guests)
    # Its subnets are not served any more.
    networks.ensure(msgspec.structs.replace(of_guests, subnets=()))
    assert (networks.records(), is_resolving(run_folder)) == ({}, False)


def test_bug_resolver_outlived_a_process_that_ended_before_it_could_end_it(
    host: VethHost, networks: NetworkNamespaces, run_folder: Path
) -> None:
    host.bridge(NETWORK, BRIDGE)
    networks.ensure(network_of(vif(FLAT, FOUR), metadata=True, over=BRIDGE))
    with patch.object(HostRules, "apply", side_effect=SystemExit), pytest.raises(SystemExit):
        networks.remove(NETWORK)
    assert is_resolving(run_folder)
    next_process = networks_of(host, run_folder)
    assert next_process.broken() == {}
    assert not is_resolving(run_folder)
