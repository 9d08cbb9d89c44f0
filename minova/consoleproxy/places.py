"""The places of connections, in total and by address."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# Seconds without data after which a console is idle: it may be closed for another connection.
IDLE = 600.0


class ConsoleClient:
    """One connection. `is_console`: its token has opened a console."""

    def __init__(self, address: str, at: float) -> None:
        self.address = address
        self.used_at = at
        self.is_console = False
        self.connection: Any = None

    def close(self) -> None:
        with suppress(OSError):
            # Not the method of a TLS socket, which is not thread-safe.
            socket.socket.shutdown(self.connection, socket.SHUT_RDWR)


class ConsolePlaces:
    """Thread-safe. `clock` returns monotonic seconds."""

    def __init__(self, most: int, most_per_address: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._clock = clock
        self._lock = threading.Lock()
        self._clients: list[ConsoleClient] = []

    def take(self, address: str) -> ConsoleClient | str:
        """Returns the reason if there is no place. If all are taken, or all of this address, closes the one of them that has been
        idle longest: one that has not become a console, or else a console without data for IDLE.
        """
        with self._lock:
            of_address = [client for client in self._clients if client.address == address]
            if len(of_address) >= self._most_per_address and not self._make_room(of_address):
                return "[consoleproxy] max_connections_per_address are open from there"
            if len(self._clients) >= self._most and not self._make_room(self._clients):
                return "[consoleproxy] max_connections are open"
            client = ConsoleClient(address, self._clock())
            self._clients.append(client)
            return client

    def used(self, client: ConsoleClient) -> None:
        client.used_at = self._clock()

    def free(self, client: ConsoleClient) -> None:
        """Idempotent."""
        with self._lock, suppress(ValueError):
            self._clients.remove(client)

    def _make_room(self, clients: list[ConsoleClient]) -> bool:
        now = self._clock()
        idle = [client for client in clients if not client.is_console or now - client.used_at >= IDLE]
        # One that is not served yet is young.
        idle = [client for client in idle if client.connection is not None]
        if not idle:
            return False
        longest = min(idle, key=lambda client: (client.is_console, client.used_at))
        self._clients.remove(longest)
        longest.close()
        return True
