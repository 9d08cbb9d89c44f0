"""A door to a real RabbitMQ that publishes messages a second time: at once or late, after others of the same connection.

    client --frames--> door --frames--> RabbitMQ
                        | some publishes again, later

AMQP 0-9-1: a frame is type (1 byte), channel (2), size (4), the payload, and 0xCE. A publish is a method frame (class 60, method 40), a
header frame with the size of the body, and frames of the body.

oslo.messaging ignores an ID that its process has seen among the last messages. The second publish has another ID, so it is read as
another process that serves the queue would read it.
"""

from __future__ import annotations

import random
import re
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_HEADER = struct.Struct(">BHI")
_METHOD, _CONTENT = 1, 2
_PUBLISH, _CLOSE_CHANNEL = (60, 40), (20, 40)
_ID = re.compile(rb'(_unique_id\\*": \\*")([0-9a-f]{32})')
# The name of the protocol, which a client sends first.
_GREETING = 8


class Frame(NamedTuple):
    kind: int
    channel: int
    data: bytes

    @property
    def payload(self) -> bytes:
        return self.data[_HEADER.size : -1]

    @property
    def method(self) -> tuple[int, int]:
        """Class and method; (0, 0) of other frames."""
        if self.kind != _METHOD:
            return 0, 0
        number, method = struct.unpack(">HH", self.payload[:4])
        return number, method


class RepeatingBroker:
    """`port`: where clients connect. `repeated`: how many messages were published again.

    `share`: of the messages. `latest`: seconds; half of the repeated ones follow at once.
    """

    def __init__(self, host: str, port: int, *, share: float, latest: float, seed: int) -> None:
        self._broker = (host, port)
        self._share = share
        self._latest = latest
        self._dice = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.repeated = 0
        self._open: list[socket.socket] = []
        self._timers: list[threading.Timer] = []
        self._closed = False

    @contextmanager
    def running(self) -> Iterator[RepeatingBroker]:
        self._in_thread(self._accept)
        try:
            yield self
        finally:
            self._closed = True
            for timer in self._timers:
                timer.cancel()
            for each in (self._listener, *self._open):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._broker)
            self._open += [client, server]
            self._in_thread(lambda c=client, s=server: self._to_broker(c, s))  # type: ignore[misc]
            self._in_thread(lambda c=client, s=server: _copy(s, c))  # type: ignore[misc]

    def _to_broker(self, client: socket.socket, server: socket.socket) -> None:
        # Nothing may stand between the frames of one publish.
        whole = threading.Lock()
        closed: set[int] = set()
        with suppress(OSError), client.makefile("rb") as frames:
            server.sendall(frames.read(_GREETING))
            while (message := _message(frames.read)) is not None:
                if message[0].method == _CLOSE_CHANNEL:
                    closed.add(message[0].channel)
                with whole:
                    server.sendall(_bytes(message))
                if message[0].method == _PUBLISH and self._dice.random() < self._share:
                    self._repeat(server, whole, closed, message)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _repeat(self, server: socket.socket, whole: threading.Lock, closed: set[int], message: list[Frame]) -> None:
        def again() -> None:
            with whole, suppress(OSError):
                if not self._closed and message[0].channel not in closed:
                    server.sendall(_ID.sub(rb"\g<1>" + secrets.token_hex(16).encode(), _bytes(message)))
                    self.repeated += 1

        late = self._dice.choice([0.0, self._dice.uniform(0.0, self._latest)])
        timer = threading.Timer(late, again)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    @staticmethod
    def _in_thread(work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()


def _bytes(message: list[Frame]) -> bytes:
    return b"".join(frame.data for frame in message)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _message(read: Callable[[int], bytes]) -> list[Frame] | None:
    """Returns a whole publish, or any other frame; None at the end."""
    first = _frame(read)
    if first is None or first.method != _PUBLISH:
        return None if first is None else [first]
    frames, missing = [first], -1
    while missing != 0:
        frame = _frame(read)
        if frame is None:
            return None
        frames.append(frame)
        if frame.channel != first.channel or frame.kind not in {_CONTENT, _CONTENT + 1}:
            continue
        missing = (
            struct.unpack(">Q", frame.payload[4:12])[0] if frame.kind == _CONTENT else missing - len(frame.payload)
        )
    return frames


def _frame(read: Callable[[int], bytes]) -> Frame | None:
    header = read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    kind, channel, size = _HEADER.unpack(header)
    return Frame(kind, channel, header + read(size + 1))
