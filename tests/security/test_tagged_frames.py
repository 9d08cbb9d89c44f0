"""Frames with VLAN tags that a guest sends or gets, through libvirt's own filters on real bridges. A guest is a namespace: its device
is bound to the filter that minova defines for its port.
"""

import json
import socket
import struct
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import libvirt
import pytest

from minova.objects.network.network import EGRESS, FLAT, INGRESS
from minova.objects.network.vif import Vif, VifAddress, VifRule, VifSubnet, filter_name, tap_name
from minova.virt.libvirt.networking.filters import PortFilters
from tests.servers.libvirtd import Libvirtd
from tests.servers.veth_host import VethGuest, VethHost

pytestmark = pytest.mark.timeout(180)
NETWORK = str(uuid.uuid4())
ATTACKER, VICTIM, OUTSIDE = (f"fa:16:3e:00:00:{number:02x}" for number in (1, 2, 3))
SUBNET = VifSubnet(id="4", cidr="192.0.2.0/24")
OUT = VifRule(direction=EGRESS, ip_version=4)
LET_IN = VifRule(direction=INGRESS, ip_version=4, protocol="udp", port_min=5001, port_max=5001)
# Tags of a frame, the outer one first: (type, number).
TAGS: dict[str, list[tuple[int, int]]] = {
    "one": [(0x8100, 7)],
    "priority": [(0x8100, 0)],
    "two": [(0x8100, 7), (0x8100, 8)],
    "two priorities": [(0x8100, 0), (0x8100, 0)],
    "priority, then one": [(0x8100, 0), (0x8100, 7)],
    "service": [(0x88A8, 7)],
    "service, then one": [(0x88A8, 0), (0x8100, 7)],
    "of older switches": [(0x9100, 7)],
}
# Sends frames with a mark and the tags given, and then one without a tag.
SEND = """
import json, socket, struct, sys
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
target = bytes.fromhex(sys.argv[1].replace(":", ""))
body = bytes.fromhex(sys.argv[3])
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
    raw.bind(("eth0", 0))
    for name, tags in json.loads(sys.argv[2]).items():
        head = b"".join(struct.pack("!HH", *tag) for tag in tags)
        raw.send(target + mac + head + body + name.encode().ljust(40, b"."))
"""
# Prints the names in the frames that come in until the untagged one.
SPY = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
    raw.bind(("eth0", 3))
    raw.settimeout(10)
    print("listening", flush=True)
    heard = []
    while "untagged" not in heard:
        try:
            frame, (_, _, direction, *_) = raw.recvfrom(2000)
        except TimeoutError:
            break
        if direction != 4 and b"name=" in frame:
            heard.append(frame.split(b"name=")[1].split(b".")[0].decode())
    print("|".join(heard))
"""


class Wire(NamedTuple):
    attacker: VethGuest
    victim: VethGuest
    outside: VethGuest


def vif(mac: str, number: int, **more: Any) -> Vif:
    return Vif(
        port_id=str(uuid.uuid4()),
        mac_address=mac,
        network_id=NETWORK,
        network_type=FLAT,
        physical_network="lan",
        addresses=(VifAddress(subnet_id="4", ip_address=f"192.0.2.{number}"),),
        subnets=(SUBNET,),
        **more,
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Libvirtd]:
    with Libvirtd(networks=True) as started:
        yield started


@pytest.fixture
def wire(server: Libvirtd) -> Iterator[Wire]:
    """A guest without port security, another one, and a machine on the wire. The bridge of a VLAN differs in its wire alone:
    its interface adds and takes off the network's tag.
    """
    secured = vif(VICTIM, 6, rules=(OUT, LET_IN))
    unsecured = vif(ATTACKER, 5, port_security_enabled=False)
    with VethHost(str(server.pid)) as host, libvirt.open(server.uri) as connection:
        host.bridge("", "brlan")
        outside = host.guest("", OUTSIDE, bridge="brlan", tap="uplink")
        filters, guests, bindings = PortFilters(lambda numbers: None), [], []
        for each in (unsecured, secured):
            guests.append(host.guest("", each.mac_address, bridge="brlan", tap=tap_name(each.port_id)))
            filters.define(connection, [each])
            bindings.append(connection.nwfilterBindingCreateXML(binding_xml(each)))
        print(host.run("sh", "-c", "ebtables -t nat -L; nft list ruleset"))
        yield Wire(guests[0], guests[1], outside)
        for binding in bindings:
            binding.delete()
        filters.remove(connection, [filter_name(each.port_id) for each in (unsecured, secured)])
        host.run("ip", "link", "delete", "brlan")


def binding_xml(one: Vif) -> str:
    return (
        f"<filterbinding><owner><name>{one.port_id}</name><uuid>{one.port_id}</uuid></owner>"
        f"<portdev name='{tap_name(one.port_id)}'/><mac address='{one.mac_address}'/>"
        f"<filterref filter='{filter_name(one.port_id)}'/></filterbinding>"
    )


def heard(place: VethGuest, sender: VethGuest, target: str, source: str) -> list[str]:
    """Which frames with tags, and the one without, reach the place when the sender sends them."""
    packet = datagram(source)
    frames = {**TAGS, "untagged": []}
    with subprocess.Popen(
        ["ip", "netns", "exec", place.name, sys.executable, "-c", SPY], stdout=subprocess.PIPE, text=True
    ) as spying:
        assert spying.stdout is not None
        assert spying.stdout.readline() == "listening\n"
        sender.python(SEND, target, json.dumps(frames), packet.hex())
        return spying.stdout.read().strip().split("|")


def datagram(source: str) -> bytes:
    """The head of a datagram of 48 bytes to port 5001 of all, with its type."""
    udp = struct.pack("!HHHH", 5000, 5001, 8 + 45, 0) + b"name="
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + 53, 1, 0, 64, 17, 0, socket.inet_aton(source), b"\xff" * 4)
    total: int = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return b"\x08\x00" + head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:] + udp


def test_bug_tagged_frames_leave_their_network(wire: Wire) -> None:
    """A port without port security sent into any VLAN of a trunk."""
    assert heard(wire.outside, wire.attacker, "ff:ff:ff:ff:ff:ff", "192.0.2.5") == ["untagged"]


def test_bug_tagged_frames_pass_the_filter_of_a_guest(wire: Wire) -> None:
    assert heard(wire.victim, wire.attacker, VICTIM, "192.0.2.5") == ["untagged"]
    assert heard(wire.victim, wire.outside, VICTIM, "192.0.2.7") == ["untagged"]


def test_guest_with_port_security_sends_no_tags(wire: Wire) -> None:
    assert heard(wire.outside, wire.victim, "ff:ff:ff:ff:ff:ff", "192.0.2.6") == ["untagged"]
