"""Runs a WSGI application behind an event loop: which thread runs a request, and what no thread waits for.

A short body is read before a thread takes the request. Long bodies, bodies of unknown length and `transfers` (image
data) have threads of their own, so that slow clients cannot occupy the others. So do requests that change something: they
wait for conductors and the broker, and reads must not wait behind them.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from a2wsgi import WSGIMiddleware

from minova.api.listener.limits import Limits
from minova.daemon_pool import DaemonPool

READS = frozenset({"GET", "HEAD", "OPTIONS"})
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


class Bridge:
    """The ASGI application for a WSGI application. `is_transfer` decides by the path which requests have long bodies or
    answers.

    `changes`: threads for requests that change something; 0: they use those for `threads`.
    """

    def __init__(
        self, app: Any, limits: Limits, threads: int, transfers: int, is_transfer: Callable[[str], bool], changes: int
    ) -> None:
        self._limits = limits
        self._is_transfer = is_transfer
        self._short = _in_threads(app, threads, "request")
        self._changes = _in_threads(app, changes, "change") if changes else self._short
        self._long = _in_threads(app, transfers, "transfer")

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send, self._limits)
        app = self._long
        if not self._is_transfer(scope["path"]) and _has_short_body(scope, self._limits.short_body):
            app = self._short if scope["method"] in READS else self._changes
            if not await exchange.read_body():
                return
        try:
            with contextlib.suppress(ClientGoneError):
                await app(scope, exchange.receive, exchange.send)
            await exchange.finish()
        except asyncio.CancelledError:
            # The server stops and waits no longer. Without an answer from here, uvicorn would report an internal error.
            await exchange.abandon()

    def close(self) -> None:
        for app in (self._short, self._changes, self._long):
            app.executor.shutdown(wait=False)


class ClientGoneError(ConnectionError):
    """The client hung up during its request, or the request took too long."""


class _Exchange:
    """A request and its answer.

    An answer that does not wait for the whole request closes the connection: the rest is not drained.
    """

    def __init__(self, receive: Receive, send: Send, limits: Limits) -> None:
        self._receive = receive
        self._send = send
        self._limits = limits
        self._read: list[Message] = []
        self._complete = False
        self._closing = self._started = self._abandoned = False
        self._last: Message | None = None

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
        if self._abandoned:
            return
        if message["type"] == "http.response.start":
            self._started = True
            if not self._complete:
                self._closing = True
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        if self._closing and message["type"] == "http.response.body" and not message.get("more_body"):
            self._last = message
            if message.get("body"):
                await self._send({**message, "more_body": True})
                self._last = {**message, "body": b""}
            return
        await self._send(message)

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
        self._abandoned = True
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
        message: Message = await self._receive()
        if message["type"] == "http.disconnect":
            return None
        self._complete = not message.get("more_body", False)
        return message


def _in_threads(app: Any, size: int, name: str) -> Any:
    middleware = WSGIMiddleware(app, workers=1)
    middleware.executor.shutdown(wait=False)
    middleware.executor = DaemonExecutor(size, name)  # type: ignore[assignment]  # any Executor will do
    return middleware


def _has_short_body(scope: Any, limit: int) -> bool:
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return False
        if name == b"content-length":
            return int(value) <= limit
    return True
