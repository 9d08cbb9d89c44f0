"""Says anything as a client of DHCP. Runs as a program in the namespace of a guest, and sends one message as a raw frame from eth0:

    python -m tests.servers.dhcp_forger 4 MESSAGE
    python -m tests.servers.dhcp_forger 6 MESSAGE

MESSAGE is JSON of `Message4` or `Message6`. Prints JSON of what the server answers; nothing if it does not.
"""

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from minova.objects.network.addresses import link_local

DISCOVER, REQUEST, ACK, RELEASE = 1, 3, 5, 7
SOLICIT, REQUEST6, RENEW, RELEASE6, DECLINE6, RELAY = 1, 3, 5, 8, 9, 12
_ENDED = b"\xff"


class Message4(msgspec.Struct, kw_only=True):
    """`client_id`: option 61, as hexadecimal digits. `own`: the address that the client says it has (ciaddr)."""

    kind: int
    client_id: str = ""
    own: str = "0.0.0.0"
    asked: str = ""
    server: str = ""
    within: float = 3.0


class Message6(msgspec.Struct, kw_only=True):
    """`duid` and `server` are hexadecimal digits. `source`: the link-local address of the sender, if not its own.
    `relayed_for`: the message comes as a relay would send it, which names this MAC address.
    """

    kind: int
    duid: str
    asked: str = ""
    server: str = ""
    source: str = ""
    relayed_for: str = ""
    within: float = 3.0


def own_mac() -> str:
    return Path("/sys/class/net/eth0/address").read_text().strip()


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2 + len(data) % 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame4(message: Message4, xid: bytes) -> bytes:
    def option(number: int, value: bytes) -> bytes:
        return bytes([number, len(value)]) + value if value else b""

    def address(text: str) -> bytes:
        return socket.inet_aton(text) if text else b""

    mac = _mac(own_mac())
    head = struct.pack("!BBBB4sHH4s", 1, 1, 6, 0, xid, 0, 0x8000, socket.inet_aton(message.own))
    body = head + bytes(12) + mac.ljust(16, b"\0") + bytes(192) + b"\x63\x82\x53\x63"
    body += option(53, bytes([message.kind])) + option(61, bytes.fromhex(message.client_id))
    body += option(50, address(message.asked)) + option(54, address(message.server)) + _ENDED
    udp = struct.pack("!HHHH", 68, 67, 8 + len(body), 0) + body
    start = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 7, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    start = start[:10] + struct.pack("!H", _checksum(start)) + start[12:]
    return b"\xff" * 6 + mac + b"\x08\x00" + start + udp


def frame6(message: Message6, xid: bytes) -> bytes:
    def option(number: int, value: bytes) -> bytes:
        return struct.pack("!HH", number, len(value)) + value

    def six(text: str) -> bytes:
        return socket.inet_pton(socket.AF_INET6, text)

    mac = _mac(own_mac())
    source, target = six(message.source or link_local(own_mac())), six("ff02::1:2")
    wanted_address = option(5, six(message.asked) + bytes(8)) if message.asked else b""
    body = bytes([message.kind]) + xid[:3] + option(1, bytes.fromhex(message.duid))
    body += (option(2, bytes.fromhex(message.server)) if message.server else b"") + option(8, bytes(2))
    body += option(3, b"\0\0\0\1" + bytes(8) + wanted_address)
    if message.relayed_for:
        body = (
            bytes([RELAY, 0]) + bytes(16) + source + option(79, b"\0\1" + _mac(message.relayed_for)) + option(9, body)
        )
    udp = struct.pack("!HHHH", 546, 547, 8 + len(body), 0) + body
    total = _checksum(source + target + struct.pack("!II", len(udp), 17) + udp)
    udp = udp[:6] + struct.pack("!H", total or 0xFFFF) + udp[8:]
    head = struct.pack("!IHBB", 6 << 28, len(udp), 17, 1) + source + target
    return b"\x33\x33\0\1\0\2" + mac + b"\x86\xdd" + head + udp


def read4(frame: bytes, xid: bytes) -> dict[str, Any] | None:
    heard = frame[34:]
    if len(heard) < 28 or heard[2:4] != b"\0\x44" or heard[12:16] != xid:
        return None
    return {"address": socket.inet_ntoa(heard[24:28]), "kind": _options4(heard[8 + 240 :])[53][0]}


def _options4(data: bytes) -> dict[int, bytes]:
    values = {}
    while len(data) >= 2 and data[:1] != _ENDED:
        values[data[0]] = data[2 : 2 + data[1]]
        data = data[2 + data[1] :]
    return values


def read6(frame: bytes, xid: bytes) -> dict[str, Any] | None:
    if len(frame) < 66 or frame[20] != 17 or frame[56:58] != b"\x02\x22" or frame[63:66] != xid[:3]:
        return None
    answer: dict[str, Any] = {"addresses": [], "refusals": [], "server": ""}
    _collect(frame[66:], answer)
    return answer


def _collect(data: bytes, found: dict[str, Any]) -> None:
    for number, value in _options6(data):
        if number == 2:
            found["server"] = value.hex()
        elif number == 3:
            _collect(value[12:], found)
        elif number == 5:
            found["addresses"].append(socket.inet_ntop(socket.AF_INET6, value[:16]))
            _collect(value[24:], found)
        elif number == 13 and value[:2] != bytes(2):
            found["refusals"].append(value[1])


def _options6(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        number, length = struct.unpack_from("!HH", data)
        yield number, data[4 : 4 + length]
        data = data[4 + length :]


def exchange(
    frame: bytes, protocol: int, within: float, read: Callable[[bytes], dict[str, Any] | None]
) -> dict[str, Any]:
    """Sends a frame. Returns what answers it; empty: nothing."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol)) as raw:
        raw.bind(("eth0", protocol))
        raw.send(frame)
        until = time.monotonic() + within
        while (left := until - time.monotonic()) > 0:
            raw.settimeout(left)
            try:
                answer = read(raw.recv(2000))
            except TimeoutError:
                break
            if answer is not None:
                return answer
    return {}


def main(version: str, text: str) -> None:
    xid = os.urandom(4)
    if version == "4":
        four = msgspec.json.decode(text, type=Message4)
        answer = exchange(frame4(four, xid), 0x0800, four.within, lambda frame: read4(frame, xid))
    else:
        six = msgspec.json.decode(text, type=Message6)
        answer = exchange(frame6(six, xid), 0x86DD, six.within, lambda frame: read6(frame, xid))
    if answer:
        print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
