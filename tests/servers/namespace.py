"""Another process's network namespace, for tests: commands in it, sockets of it, and a port of this machine that is reached from it."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """Of the process `pid`: it lives as long as that one, and what was started in it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def enter(self, *command: str) -> list[str]:
        """The words that start a command in it, which sees the mounts of the process, too."""
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", *command]

    def run(self, *command: str) -> str:
        """What it prints. An AssertionError with its words if it fails."""
        done = subprocess.run(self.enter(*command), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def socket(self, make: Callable[[], T]) -> T:
        """A socket belongs to the namespace of the thread that makes it."""

        def work() -> T:
            with Path(f"/proc/{self.pid}/ns/net").open() as file:
                if _LIBC.setns(file.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns failed")
            return make()

        # The thread ends with it: no other code runs there.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        address: tuple[str, int] = self.server.server_address  # type: ignore[assignment]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", address[1])) as far:
            back = threading.Thread(target=_copy, args=(far, self.request), daemon=True)
            back.start()
            _copy(self.request, far)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class Door(socketserver.ThreadingTCPServer):
    """`address`:`port` in the namespace is 127.0.0.1:`port` here, from `with` to its end."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, namespace: Namespace, port: int, address: str = "127.0.0.1") -> None:
        super().__init__((address, port), _Connection, bind_and_activate=False)
        self.socket.close()
        self.socket = namespace.socket(lambda: socket.create_server((address, port)))
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


def frames(namespace: Namespace, interface: str) -> socket.socket:
    """All frames that pass the interface."""

    def make() -> socket.socket:
        raw_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        raw_socket.bind((interface, 0))
        return raw_socket

    return namespace.socket(make)
