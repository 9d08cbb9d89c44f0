"""Asks as a guest does, by DHCP of IPv4 and IPv6. Runs as a program in the namespace of a guest: prints a line of JSON; nothing if
no server answers.

    python -m tests.servers.dhcp_client 4 MAC | stateful | stateless
"""

import json
import os
import socket
import struct
import sys
import time

_ANY = b"\x63\x82\x53\x63"
# DISCOVER and REQUEST; SOLICIT, REQUEST and INFORMATION-REQUEST.
_DISCOVER, _REQUEST, _SOLICIT, _REQUEST6, _INFORMATION = 1, 3, 1, 3, 11
_SO_BINDTODEVICE = 25
_WITHIN = 2.0


def options_of(data: bytes, head: str) -> dict[int, bytes]:
    """`head`: the form of an option's number and length."""
    options: dict[int, bytes] = {}
    size, at = struct.calcsize(head), 0
    while at + size <= len(data):
        number, length = struct.unpack_from(head, data, at)
        if head == "!BB" and number == 255:
            break
        options[number] = data[at + size : at + size + length]
        at += size + length
    return options


def ask4(mac: bytes, kind: int, more: bytes = b"") -> tuple[str, dict[int, bytes]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        asking.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"eth0")
        asking.bind(("0.0.0.0", 68))
        asking.settimeout(_WITHIN)
        requested_options = bytes([1, 3, 6, 12, 15, 26, 42, 66, 119, 121])
        head = struct.pack("!BBBB4sHH16s16s192s", 1, 1, 6, 0, os.urandom(4), 0, 0x8000, b"", mac, b"")
        own_options = b"\x35\x01" + bytes([kind]) + b"\x37" + bytes([len(requested_options)]) + requested_options
        asking.sendto(head + _ANY + own_options + more + b"\xff", ("255.255.255.255", 67))
        answer = asking.recv(2048)
    return socket.inet_ntoa(answer[16:20]), options_of(answer[240:], "!BB")


def four(mac: bytes) -> dict[str, object]:
    address, offered = ask4(mac, _DISCOVER)
    more = b"\x32\x04" + socket.inet_aton(address) + b"\x36\x04" + offered[54]
    address, given = ask4(mac, _REQUEST, more)
    return {"address": address, "options": {str(number): value.hex() for number, value in given.items()}}


def ask6(kind: int, more: bytes = b"") -> dict[int, bytes]:
    def option(number: int, value: bytes) -> bytes:
        return struct.pack("!HH", number, len(value)) + value

    index = socket.if_nametoindex("eth0")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        asking.bind(("::", 546))
        asking.settimeout(_WITHIN)
        own_options = option(1, b"\0\4" + b"\1" * 16) + option(8, b"\0\0") + option(6, struct.pack("!HH", 23, 59))
        message, until = bytes([kind]) + os.urandom(3) + own_options + more, time.monotonic() + 30
        while True:
            try:
                asking.sendto(message, ("ff02::1:2", 547, 0, index))
                break
            except OSError:  # its link-local address is still being tested
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        return options_of(asking.recv(2048)[4:], "!HH")


def six(kind: str) -> dict[str, object]:
    if kind == "stateless":
        options6 = ask6(_INFORMATION)
    else:
        offered = ask6(_SOLICIT, struct.pack("!HH4s8x", 3, 12, b"\0\0\0\1"))
        chosen = b"".join(struct.pack("!HH", number, len(offered[number])) + offered[number] for number in (2, 3))
        options6 = ask6(_REQUEST6, chosen)
    address = socket.inet_ntop(socket.AF_INET6, options6[3][16:32]) if len(options6.get(3, b"")) >= 40 else ""
    return {"address": address, "options": {str(number): value.hex() for number, value in options6.items()}}


def main(words: list[str]) -> None:
    try:
        outcome = four(bytes.fromhex(words[1].replace(":", ""))) if words[0] == "4" else six(words[0])
    except TimeoutError:
        return
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(sys.argv[1:])
