"""Runs a WSGI application behind an event loop: which thread runs a request, and what no thread waits for.

A short body is read before a thread takes the request. Long bodies, bodies of unknown length and `transfers` (image
data) have threads of their own, so that slow clients cannot occupy the others. So do transfers of hosts, and requests that
change something: they wait for conductors, computes and the broker, and reads must not wait behind them.

All but reads of most services need a place: see `places`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any

import msgspec
from a2wsgi import WSGIMiddleware

from minova.api.access.addresses import client_address
from minova.api.access.wsgi_keys import ENTER
from minova.api.listener.connection import LEASE
from minova.api.listener.limits import ConnectionLimits, Lease
from minova.api.listener.places import RequestPlace, RequestPlaces
from minova.concurrency.daemon_pool import DaemonPool

READS = frozenset({"GET", "HEAD", "OPTIONS"})
# The key of an ASGI scope that holds the place of the request.
PLACE = "minova.place"
# Threads in which callers are identified while all others hold a place or wait for one.
SPARE = 8
# The most bytes of an answer after which its progress is counted.
PIECE = 256 << 10
SLOW = "The transfer was slow, and requests of others waited for its place. Please try again later."
STOPPING = b"The service stops, and the request was not done in time. Please try again in a moment."

Message = dict[str, Any]
Receive = Callable[[], Any]
Send = Callable[[Message], Any]


class DaemonExecutor(Executor):
    """A DaemonPool for callers that want the result of their work."""

    def __init__(self, size: int, name: str) -> None:
        self._pool = DaemonPool(name, size)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Raises RuntimeError after `shutdown`."""
        future: Future[Any] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001  - the future's caller gets it
                    future.set_exception(error)

        if not self._pool.spawn(work):
            raise RuntimeError("cannot schedule new work after shutdown")
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drops work that has not begun, and lets the threads end after their work, without waiting for them."""
        self._pool.stop(0.0)


class ListenerCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of each kind run at the same time.

    `reads`: threads. The others are places, of which several projects together may take more: see FairShares.
    `shares_reads`: reads need places, too.
    `changes`: requests that change something; 0: they use the threads of reads.
    `host_transfers`: transfers of hosts; 0: there are none.
    """

    reads: int
    shares_reads: bool = False
    changes: int = 0
    transfers: int = 16
    host_transfers: int = 0


class Bridge:
    """The ASGI application for a WSGI application. `is_transfer` decides by the path which requests have long bodies or
    answers, `is_of_host` by the header Authorization which of them are of hosts.
    """

    def __init__(
        self,
        app: Any,
        limits: ConnectionLimits,
        capacity: ListenerCapacity,
        is_transfer: Callable[[str], bool],
        is_of_host: Callable[[str], bool],
    ) -> None:
        self._limits = limits
        self._is_transfer = is_transfer
        self._is_of_host = is_of_host
        self._short: _Threads = (_Room if capacity.shares_reads else _Threads)(app, capacity.reads, "request")
        self._changes: _Threads = self._short
        if capacity.changes:
            self._changes = _Room(app, capacity.changes, "change")
        self._long = _Room(app, capacity.transfers, "transfer", has_transfers=True)
        self._hosts = self._long
        if capacity.host_transfers:
            self._hosts = _Room(app, capacity.host_transfers, "host transfer", has_transfers=True)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send, self._limits)
        room: _Threads = self._long
        owner = None
        if self._is_transfer(scope["path"]):
            if self._is_of_host(_header(scope, b"authorization")):
                room, owner = self._hosts, self._address(scope)
        elif _has_short_body(scope, self._limits.short_body):
            room = self._short if scope["method"] in READS else self._changes
            if not await exchange.read_body():
                return
        try:
            with contextlib.suppress(ClientGoneError):
                await room.run(scope, exchange, owner)
            await exchange.finish()
        except asyncio.CancelledError:
            # The server stops and waits no longer. Without an answer from here, uvicorn would report an internal error.
            await exchange.abandon()

    def _address(self, scope: Any) -> str:
        """Returns the address of a host. Its token names no host."""
        forwarded_for = _header(scope, b"x-forwarded-for")
        return client_address(scope["client"][0], forwarded_for, self._limits.trusted_proxies)

    def close(self) -> None:
        for room in (self._short, self._changes, self._long, self._hosts):
            room.close()


class _Threads:
    """Runs requests in threads."""

    def __init__(self, app: Any, size: int, name: str) -> None:
        self._app = WSGIMiddleware(app, workers=1)
        self._app.executor.shutdown(wait=False)
        self._app.executor = DaemonExecutor(size, name)  # type: ignore[assignment]  # any Executor will do

    async def run(self, scope: Any, exchange: "_Exchange", owner: str | None) -> None:
        """`owner`: whose place the request takes; None: that of its project."""
        app: Any = self._app
        await app(scope, exchange.receive, exchange.send)

    def close(self) -> None:
        self._app.executor.shutdown(wait=False)


class _Room(_Threads):
    """Runs requests that need a place, in threads that suffice for all places and all that wait for one.

    `has_transfers`: slow requests give way to others.
    """

    def __init__(self, app: Any, count: int, name: str, has_transfers: bool = False) -> None:
        self._places = RequestPlaces(count)
        self._has_transfers = has_transfers
        super().__init__(_with_place(app), self._places.most + SPARE, name)

    async def run(self, scope: Any, exchange: "_Exchange", owner: str | None) -> None:
        lease: Lease = scope[LEASE]
        loop = asyncio.get_running_loop()

        def refuse() -> None:
            if lease.place is place:
                lease.refuse(503, SLOW)

        def give_way() -> None:
            loop.call_soon_threadsafe(refuse)

        place = self._places.place(
            give_way if self._has_transfers else None, lambda: lease.is_released or exchange.is_abandoned
        )
        lease.place = exchange.place = place
        scope[PLACE], scope[ENTER] = place, lambda project: place.enter(owner or project)
        try:
            await super().run(scope, exchange, owner)
        finally:
            place.leave()
            lease.place = None


def _with_place(app: Any) -> Any:
    def run(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        scope = environ["asgi.scope"]
        environ[ENTER] = scope[ENTER]
        return _until_gone(app(environ, start_response), scope[PLACE])

    return run


def _until_gone(answer: Iterable[bytes], place: RequestPlace) -> Iterator[bytes]:
    """Does not read the rest of an image for a client that has gone."""
    try:
        for chunk in answer:
            yield chunk
            if place.is_gone():
                return
    finally:
        getattr(answer, "close", lambda: None)()


class ClientGoneError(ConnectionError):
    """The client hung up during its request, or the request took too long."""


class _Exchange:
    """A request and its answer.

    An answer that does not wait for the whole request closes the connection: the rest is not drained.
    """

    def __init__(self, receive: Receive, send: Send, limits: ConnectionLimits) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._read: list[Message] = []
        self._complete = False
        self._closing = self._started = self.is_abandoned = False
        self._last: Message | None = None
        self.place: RequestPlace | None = None

    async def read_body(self) -> bool:
        """Reads the whole body. Returns False if the client has gone."""
        parts = []
        while not self._complete:
            message = await self._next()
            if message is None:
                return False
            parts.append(message["body"])
        self._read.append({"type": "http.request", "body": b"".join(parts), "more_body": False})
        return True

    async def receive(self) -> Message:
        """Raises ClientGoneError if the client has gone: half a body must not pass for a whole one."""
        message = self._read.pop() if self._read else await self._next()
        if message is None:
            raise ClientGoneError("the client has gone")
        return message

    async def send(self, message: Message) -> None:
        if self.is_abandoned:
            return
        if message["type"] == "http.response.start":
            self._started = True
            if not self._complete:
                self._closing = True
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        for part in _pieces(message):
            await self._send_part(part)

    async def _send_part(self, message: Message) -> None:
        if self._closing and message["type"] == "http.response.body" and not message.get("more_body"):
            self._last = message
            if message.get("body"):
                await self._progress(self._send({**message, "more_body": True}), len(message["body"]))
                self._last = {**message, "body": b""}
            return
        await self._progress(self._send(message), len(message.get("body", b"")))

    async def finish(self) -> None:
        """Sends the end of an answer that closes the connection, after the client has had time to read the answer."""
        if self._last is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._linger(), self._limits.linger)
        await self._send(self._last)

    async def abandon(self) -> None:
        """Answers 503 in place of the application, whose own answer comes too late. If half an answer was sent, sends
        nothing more.
        """
        self.is_abandoned = True
        if self._started:
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(STOPPING))]
        headers += [(b"retry-after", b"1"), (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": 503, "headers": headers})
        await self._send({"type": "http.response.body", "body": STOPPING, "more_body": False})

    async def _linger(self) -> None:
        size = 0
        while not self._complete:
            message = await self._next()
            if message is None:
                return
            size += len(message["body"])
            if size > self._limits.linger_bytes:
                await asyncio.sleep(self._limits.linger)

    async def _next(self) -> Message | None:
        message: Message = await self._progress(self._receive(), 0)
        if self.place is not None:
            self.place.moved += len(message.get("body", b""))
        if message["type"] == "http.disconnect":
            return None
        self._complete = not message.get("more_body", False)
        return message

    async def _progress(self, io: Awaitable[Any], size: int) -> Any:
        """Waits for the client, and counts the bytes that it then has."""
        place = self.place
        if place is None:
            return await io
        place.waits = True
        try:
            return await io
        finally:
            place.waits = False
            place.moved += size


def _pieces(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    for start in range(0, len(body) - PIECE, PIECE):
        yield {**message, "body": body[start : start + PIECE], "more_body": True}
    last = (len(body) - 1) // PIECE * PIECE if body else 0
    yield {**message, "body": body[last:]} if last else message


def _header(scope: Any, header_name: bytes) -> str:
    return b",".join(value for name, value in scope["headers"] if name == header_name).decode("latin-1")


def _has_short_body(scope: Any, limit: int) -> bool:
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return False
        if name == b"content-length":
            return int(value) <= limit
    return True
