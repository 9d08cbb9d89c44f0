"""Accepts connections. Each one gets a place before its TLS handshake begins, and no other work waits for a
handshake.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.config import Config

from minova.api.listener.connection import HttpConnection
from minova.api.listener.limits import Admission, ConnectionLimits, Lease

LOG = logging.getLogger(__name__)

# The most connections to accept at a time, before the loop serves others.
AT_ONCE = 64
# Seconds without accepting after the process has run out of file descriptors.
PAUSE = 0.2
TICK = 1.0
# Seconds in which a TLS client must confirm that the connection is closed.
CLOSE_NOTIFY = 1.0


class Server(uvicorn.Server):
    """uvicorn's server, with its own way to accept connections, and with time limits for them."""

    def __init__(self, config: Config, limits: ConnectionLimits, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._limits = limits
        self._tls = tls
        self._admission = Admission(limits)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Whether requests were still running when the server stopped.
        self.abandoned = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.servers = []
        for each in sockets or ():
            self._accept(each, "")
        self.started = True
        self._ready.set()

    def listen_on(self, listening: socket.socket, network: str) -> None:
        """Accepts connections of one socket more. Requests have the network in their scope's state."""
        self._soon(lambda: self._accept(listening, network))

    def leave(self, listening: socket.socket) -> None:
        """Accepts no more connections of the socket, and closes it."""
        self._soon(lambda: self._leave(listening))

    def _soon(self, work: Callable[[], None]) -> None:
        self._ready.wait()
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(work)

    def _accept(self, listening: socket.socket, network: str) -> None:
        connection = functools.partial(self._connection, network)
        self.servers.append(Acceptor(listening, self._admission, self._tls, self._limits, connection, network))  # type: ignore[arg-type]

    def _leave(self, listening: socket.socket) -> None:
        for each in [
            server for server in self.servers if isinstance(server, Acceptor) and server.listening is listening
        ]:
            each.close()
            self.servers.remove(each)
        listening.close()

    async def on_tick(self, counter: int) -> bool:
        if counter % int(TICK / 0.1) == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, HttpConnection) and connection.transport is not None:
                    connection.tick(TICK)
        return await super().on_tick(counter)

    async def _wait_tasks_to_complete(self) -> None:
        self.abandoned = True
        await super()._wait_tasks_to_complete()
        self.abandoned = False

    def _connection(self, network: str, lease: Lease) -> HttpConnection:
        return HttpConnection(self.config, self.server_state, {"network": network}, self._limits, lease)


class Acceptor:
    """Accepts connections of one listening socket, which other processes may share."""

    def __init__(
        self,
        listening: socket.socket,
        admission: Admission,
        tls: ssl.SSLContext | None,
        limits: ConnectionLimits,
        connection: Any,
        network: str,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.listening = listening
        self._limits = limits
        self._tls = tls
        self._connection = connection
        self._admission = admission
        self._network = network
        self._opening: set[asyncio.Task[None]] = set()
        self._closed = False
        listening.setblocking(False)
        self._listen()

    def close(self) -> None:
        self._closed = True
        self._loop.remove_reader(self.listening.fileno())
        for task in self._opening:
            task.cancel()

    async def wait_closed(self) -> None:
        """uvicorn calls this on its servers."""

    def _listen(self) -> None:
        if not self._closed:
            self._loop.add_reader(self.listening.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, peer = self.listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                LOG.warning("No connection can be accepted for now: %s", error.strerror)
                self._loop.remove_reader(self.listening.fileno())
                self._loop.call_later(PAUSE, self._listen)
                return
            lease = self._admission.admit(peer[0], self._network)
            if lease is None:
                accepted.close()
                continue
            task = self._loop.create_task(self._open(accepted, lease))
            lease.evict = task.cancel  # type: ignore[assignment]  # its return value is ignored
            self._opening.add(task)
            task.add_done_callback(functools.partial(self._opened, accepted, lease))

    async def _open(self, accepted: socket.socket, lease: Lease) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            handshake = (
                {}
                if self._tls is None
                else {"ssl_handshake_timeout": self._limits.handshake, "ssl_shutdown_timeout": CLOSE_NOTIFY}
            )
            await self._loop.connect_accepted_socket(
                lambda: self._connection(lease), accepted, ssl=self._tls, **handshake
            )
        except (OSError, TimeoutError) as error:
            # For example a port scan, a health check, or a client that trusts another CA.
            LOG.debug("A connection was not made: %s", error)
            self._drop(accepted, lease)

    def _opened(self, accepted: socket.socket, lease: Lease, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if task.cancelled():  # may be before its first step
            self._drop(accepted, lease)

    def _drop(self, accepted: socket.socket, lease: Lease) -> None:
        lease.release()
        with contextlib.suppress(OSError):
            accepted.close()
