"""`minova server console connect`: a terminal on one side, a WebSocket on the other."""

import base64
import hashlib
import os
import pty
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from minova.cli.commands.server.terminal import connect, raw_terminal, relay
from tests.servers.authority import Authority

# What a server adds to the client's key.
RFC_6455 = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The side of the user, and that of the command."""
    user, command = pty.openpty()
    yield user, command
    os.close(user)
    os.close(command)


def test_bug_keys_typed_before_the_terminal_is_raw_reach_the_guest(terminal: tuple[int, int]) -> None:
    user, command = terminal
    os.write(user, b"typed early\n")
    select.select([command], [], [])
    with raw_terminal(command):
        os.set_blocking(command, False)
        assert os.read(command, 100) == b"typed early\n"
        os.set_blocking(command, True)
        os.write(user, b"\x03")
        assert os.read(command, 100) == b"\x03", "Ctrl-C is the guest's"


def test_bug_two_messages_in_one_tls_record_are_both_shown(tmp_path: Path, terminal: tuple[int, int]) -> None:
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("proxy", tmp_path, "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    shown, screen = os.pipe()
    user, keyboard = terminal
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=two_messages_at_once, args=(listening, context))
        server.start()
        console = connect(f"wss://127.0.0.1:{listening.getsockname()[1]}/", str(authority.certificate))
        with raw_terminal(keyboard):
            relaying = threading.Thread(target=relay, args=(console, keyboard, screen))
            relaying.start()
            text = b""
            while text != b"onetwo":
                text += os.read(shown, 100)
            os.write(user, b"\x1d")
            relaying.join()
        console.close(timeout=0)
        server.join()
    os.close(shown)
    os.close(screen)


def two_messages_at_once(listening: socket.socket, context: ssl.SSLContext) -> None:
    accepted, _ = listening.accept()
    with context.wrap_socket(accepted, server_side=True) as connection:
        request = b""
        while b"\r\n\r\n" not in request:
            request += connection.recv(4096)
        (key,) = (line[19:] for line in request.decode().splitlines() if line.startswith("Sec-WebSocket-Key: "))
        accept = base64.b64encode(hashlib.sha1(f"{key}{RFC_6455}".encode()).digest())
        head = (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        )
        connection.sendall(head + accept + b"\r\n\r\n")
        connection.sendall(b"\x82\x03one\x82\x03two")
        while connection.recv(4096):
            pass
