"""Packets of protocols for which libvirt's filters have no element, through its filters on a real bridge. A guest is a namespace: its
device is bound to the filter that minova defines for its port.
"""

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import libvirt
import msgspec
import pytest

from minova.errors import HypervisorError
from minova.objects.network.network import EGRESS, INGRESS
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet, filter_name, tap_name
from minova.virt.libvirt.networking.filters import PortFilters
from minova.virt.namespaces.host_networks import of_this_host
from tests.security.test_tagged_frames import OUTSIDE, VICTIM, binding_xml, vif
from tests.servers.libvirtd import Libvirtd
from tests.servers.veth_host import VethGuest, VethHost

pytestmark = pytest.mark.timeout(180)
GRE, OSPF, VRRP, UNNAMED, UDP = 47, 89, 112, 200, 17
# The last one in each packet train: its port is open in both directions.
END = 5001
SENT = (GRE, OSPF, VRRP, UNNAMED)
# That sends to the guest, and that it sends to: answers go through whatever the rules say.
NEIGHBOUR = {4: "192.0.2.7", 6: "2001:db8::7"}
OTHER = {4: "192.0.2.8", 6: "2001:db8::8"}
GUEST = {4: "192.0.2.6", 6: "2001:db8::6"}
SEND = """
import json, socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    for frame in json.loads(sys.argv[1]):
        raw.send(bytes.fromhex(frame))
"""
# Prints the protocols of the packets that come in with the mark, until a datagram.
SPY = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
    raw.bind(("eth0", 3))
    raw.settimeout(10)
    print("listening", flush=True)
    heard = []
    while 17 not in heard:
        try:
            frame, (_, _, direction, *_) = raw.recvfrom(2000)
        except TimeoutError:
            break
        if direction != 4 and b"marked" in frame:
            heard.append(frame[23] if frame[12:14] == b"\\x08\\x00" else frame[20])
    print(*heard)
"""


class Wire(NamedTuple):
    server: Libvirtd
    host: VethHost
    outside: VethGuest
    guest: VethGuest
    connection: Any
    port: Vif
    filters: PortFilters

    def let(self, *rules: VifRule, filters: PortFilters | None = None) -> None:
        """The rules of the guest from now on."""
        ends = [
            VifRule(direction=direction, ip_version=version, protocol="udp", port_min=END, port_max=END)
            for direction in (INGRESS, EGRESS)
            for version in (4, 6)
        ]
        changed = msgspec.structs.replace(self.port, rules=(*rules, *ends))
        (filters or self.filters).define(self.connection, [changed])

    def comes_in(self, version: int) -> list[int]:
        return heard(self.guest, self.outside, frames(version, OUTSIDE, VICTIM, NEIGHBOUR[version], GUEST[version]))

    def goes_out(self, version: int) -> list[int]:
        return heard(self.outside, self.guest, frames(version, VICTIM, OUTSIDE, GUEST[version], OTHER[version]))


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Libvirtd(networks=True) as server, VethHost(str(server.pid)) as host, libvirt.open(server.uri) as connection:
        filters = PortFilters(of_this_host("", server.uri, server.proc_net).make_protocol_sets)
        port = msgspec.structs.replace(
            vif(VICTIM, 6, rules=()),
            addresses=tuple(VifAddress(subnet_id=str(version), ip_address=text) for version, text in GUEST.items()),
            subnets=(VifSubnet(id="4", cidr="192.0.2.0/24"), VifSubnet(id="6", cidr="2001:db8::/64")),
        )
        host.bridge("", "brlan")
        outside = host.guest("", OUTSIDE, bridge="brlan", tap="uplink")
        guest = host.guest("", VICTIM, bridge="brlan", tap=tap_name(port.port_id))
        filters.define(connection, [port])
        binding = connection.nwfilterBindingCreateXML(binding_xml(port))
        yield Wire(server, host, outside, guest, connection, port, filters)
        binding.delete()
        filters.remove(connection, [filter_name(port.port_id)])


def frames(version: int, mac: str, target: str, source: str, destination: str) -> list[str]:
    """One packet of each protocol of SENT, then a datagram."""
    head = bytes.fromhex((target + mac).replace(":", ""))
    udp = struct.pack("!HHHH", END, END, 8 + 40, 0)
    bodies = dict.fromkeys(SENT, b"\x00" * 8) | {UDP: udp}
    return [
        (head + packet(version, number, source, destination, body + b"marked".ljust(40, b"."))).hex()
        for number, body in bodies.items()
    ]


def packet(version: int, number: int, source: str, destination: str, body: bytes) -> bytes:
    if version == 6:
        ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination)
        return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(body), number, 64) + ends + body
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    plain = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, number, 0) + ends
    total: int = sum(struct.unpack("!10H", plain))
    total = (total & 0xFFFF) + (total >> 16)
    return b"\x08\x00" + plain[:10] + struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + ends + body


def heard(place: VethGuest, sender: VethGuest, train: list[str]) -> list[int]:
    """The protocols of SENT that reach the place."""
    spy = ["ip", "netns", "exec", place.name, sys.executable, "-c", SPY]
    with subprocess.Popen(spy, stdout=subprocess.PIPE, text=True) as spying:
        assert spying.stdout is not None
        assert spying.stdout.readline() == "listening\n"
        sender.python(SEND, json.dumps(train))
        *packet_counts, last = map(int, spying.stdout.read().split())
    assert last == UDP, "the end of the train"
    return packet_counts


@pytest.mark.parametrize("version", [4, 6])
def test_only_protocols_of_rules_come_in_and_go_out(wire: Wire, version: int) -> None:
    def rule(direction: str, protocol: str) -> VifRule:
        return VifRule(direction=direction, ip_version=version, protocol=protocol)

    wire.let()
    assert (wire.comes_in(version), wire.goes_out(version)) == ([], [])
    wire.let(rule(INGRESS, "gre"), rule(INGRESS, "200"), rule(EGRESS, "vrrp"))
    assert (wire.comes_in(version), wire.goes_out(version)) == ([GRE, UNNAMED], [VRRP])
    # A rule of one IP version is none of the other.
    other = 10 - version
    assert (wire.comes_in(other), wire.goes_out(other)) == ([], [])
    wire.let(rule(INGRESS, "ospf"))
    assert wire.comes_in(version) == [OSPF]


def test_a_range_of_such_a_rule_counts(wire: Wire) -> None:
    def let(remote: str) -> list[int]:
        wire.let(VifRule(direction=INGRESS, ip_version=4, protocol="gre", remotes=(remote,)))
        return wire.comes_in(4)

    assert let("192.0.2.0/29") == [GRE]
    assert let("198.51.100.0/24") == []


def test_a_host_that_cannot_have_sets_keeps_its_filter(wire: Wire) -> None:
    def refuse(numbers: Collection[int]) -> None:
        raise HypervisorError("ipset is not installed")

    gre = VifRule(direction=INGRESS, ip_version=4, protocol="gre")
    wire.let(gre)
    assert wire.comes_in(4) == [GRE]
    wire.let(gre, filters=PortFilters(refuse))
    assert wire.comes_in(4) == []
    wire.let(gre)
    assert wire.comes_in(4) == [GRE]


def test_sets_are_those_of_the_numbers_alone(wire: Wire) -> None:
    networks = of_this_host("", wire.server.uri, wire.server.proc_net)
    networks.make_protocol_sets({254, 255})
    networks.make_protocol_sets({255})
    listed = wire.host.run("ipset", "list", "minova-protocol-255-6")
    assert sorted(line for line in listed.splitlines() if ":0" in line) == ["8000::/1,255:0", "::/1,255:0"]
    for wrong in (0, 256, -1):
        with pytest.raises(ValueError, match=r"no number of a protocol"):
            networks.make_protocol_sets({wrong})
