"""The calls of `remote.py` to the helper: one message each way over a local socket, JSON after its length in four bytes.

An answer may bring an open socket.
"""

import socket
import struct
import time
from typing import TypeVar

import msgspec

from minova.codecs import Decoder
from minova.virt.namespaces.network import GuestInterface, LocalNetwork, NetworkRecord

M = TypeVar("M")
_LENGTH = struct.Struct("!I")
LARGEST = 64 << 20


class Records(msgspec.Struct, frozen=True, tag=True): ...


class Ensure(msgspec.Struct, frozen=True, tag=True):
    network: LocalNetwork
    mac: str


class Enter(msgspec.Struct, frozen=True, tag=True):
    network_id: str
    host: GuestInterface


class Forget(msgspec.Struct, frozen=True, tag=True):
    network_id: str
    macs: list[str]


class Remove(msgspec.Struct, frozen=True, tag=True):
    network_id: str


class Broken(msgspec.Struct, frozen=True, tag=True): ...


class Track(msgspec.Struct, frozen=True, tag=True):
    bridges: list[str]


class MakeProtocolSets(msgspec.Struct, frozen=True, tag=True):
    numbers: list[int]


class Namespaces(msgspec.Struct, frozen=True, tag=True): ...


class Listener(msgspec.Struct, frozen=True, tag=True):
    network_id: str


class Connect(msgspec.Struct, frozen=True, tag=True):
    network_id: str
    address: str
    port: int


Call = Records | Ensure | Enter | Forget | Remove | Broken | Track | MakeProtocolSets | Namespaces | Listener | Connect


class HelperAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`refused`: the argument was none. `failed`: the host could not do it."""

    records: dict[str, NetworkRecord] = {}
    broken: dict[str, str] = {}
    namespaces: dict[str, int] = {}
    refused: str = ""
    failed: str = ""


CALLS: Decoder[Call] = Decoder(Call)
ANSWERS: Decoder[HelperAnswer] = Decoder(HelperAnswer)


def send(connection: socket.socket, message: Call | HelperAnswer, *sockets: socket.socket) -> None:
    body = msgspec.json.encode(message)
    head = _LENGTH.pack(len(body))
    if sockets:
        socket.send_fds(connection, [head], [each.fileno() for each in sockets])
    else:
        connection.sendall(head)
    connection.sendall(body)


def receive(connection: socket.socket, decoder: Decoder[M]) -> tuple[M, list[socket.socket]]:
    """Returns a message, and the sockets that came with it. Raises EOFError if the other end has closed, ValueError if it
    is no such message.
    """
    head, handles, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
    sockets = [socket.socket(fileno=handle) for handle in handles]
    head += _exactly(connection, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError
    return decoder.from_json(_exactly(connection, _length(head, LARGEST))), sockets


def receive_within(connection: socket.socket, decoder: Decoder[M], *, largest: int, seconds: float) -> M:
    """Returns a message of at most `largest` bytes that is complete within these seconds; the kernel drops sockets that
    come with it. Raises TimeoutError, and as `receive`.
    """
    until = time.monotonic() + seconds
    length = _length(_exactly(connection, _LENGTH.size, until), largest)
    return decoder.from_json(_exactly(connection, length, until))


def _length(head: bytes, largest: int) -> int:
    (length,) = _LENGTH.unpack(head)
    if length > largest:
        raise ValueError(f"a message of {length} bytes")
    return int(length)


def _exactly(connection: socket.socket, count: int, until: float | None = None) -> bytes:
    """`until`: the monotonic time when all must be here; None: the time-out of the connection is for each part."""
    parts = bytearray()
    while len(parts) < count:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
