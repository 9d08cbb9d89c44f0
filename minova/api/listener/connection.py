"""An HTTP connection: uvicorn's, with limits on request heads, framing and times.

The parser (llhttp) refuses ambiguous requests: two lengths, a length beside chunks, a negative length.
"""

import asyncio
import re
from enum import Enum
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from minova.api.listener.limits import ConnectionLimits, Lease

_NOT_ASCII = re.compile(rb"[\x80-\xff]")
# The key of an ASGI scope that holds the lease of its connection.
LEASE = "minova.lease"
# A body may arrive as chunks of one byte each: "1\r
# x\r
# ".
_FRAMING_FACTOR = 8


class Phase(Enum):
    """The phases of a connection, named for what it waits for."""

    FIRST_BYTE = "first byte"
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    NEXT_REQUEST = "next request"
    CLOSE = "close"


class RequestRefused(Exception):
    """Raised inside a callback of the parser."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpConnection(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        limits: ConnectionLimits,
        lease: Lease,
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._limits = limits
        self._lease = lease
        self._phase = Phase.FIRST_BYTE
        # Seconds in this phase, and seconds in which the client has read nothing of the answer.
        self._spent = self._stalled = 0.0
        # Whether the client has closed its side: it sends no more.
        self._ended = False
        # The request that is being answered. uvicorn's `cycle` is the latest request.
        self._answered: RequestResponseCycle | None = None
        # Bytes of the current request that are body, bytes that are not, bytes of its head, and bytes read after a
        # refusal.
        self._body = self._framing = self._head = self._lingered = 0

    # -- asyncio's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._lease.evict = transport.abort
        self._lease.refuse = self.refuse
        self._lease.is_sending = lambda: transport.get_write_buffer_size() > 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._abandon()
        self._lease.release()

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.CLOSE:
            self._lingered += len(data)
            if self._lingered > self._limits.linger_bytes:
                self.flow.pause_reading()
            return
        if self._phase is Phase.FIRST_BYTE:
            self._enter(Phase.HEAD)
            self._lease.waits(True)
        self._unset_keepalive_if_required()
        self._framing += len(data)
        try:
            self.parser.feed_data(data)
            self._check_framing()
        except httptools.HttpParserUpgrade:
            # Only HTTP/1.1 is served: the request is answered, and all later bytes are ignored.
            self.cycle.keep_alive = False
        except RequestRefused as refused:
            self.refuse(refused.status, str(refused))
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, RequestRefused):
                self.refuse(cause.status, str(cause))
            else:
                self.refuse(400, _reason(str(error)))

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn closes the connection in any case
        """Handles the end of the client's data. Complete requests are answered before the connection closes; returns
        False to close it at once.

        An incomplete request never becomes complete. asyncio's TLS cannot close half of a connection.
        """
        if self._phase is Phase.BODY and self.pipeline:
            self.pipeline.popleft()
        elif self._phase not in (Phase.HEAD, Phase.ANSWER) or self.cycle is None or self.cycle.response_complete:
            return False
        if not self.transport.can_write_eof():
            return False
        self._ended = True
        self._enter(Phase.ANSWER)
        return True

    # -- the parser's callbacks

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[LEASE] = self._lease  # type: ignore[literal-required]
        self._head = 0
        if self._phase is Phase.NEXT_REQUEST:
            self._lease.waits(True)
        self._enter(Phase.HEAD)

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(_NOT_ASCII.sub(lambda match: b"%%%02X" % match[0][0], url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser calls this for the trailers of a chunked body, too; they are ignored."""
        self._count_head(len(name) + len(value) + 4)
        # WSGI could not distinguish `X_Forwarded_For` from `X-Forwarded-For`.
        if self._phase is Phase.HEAD and b"_" not in name:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self._limits.pipelined:
            raise RequestRefused(400, "Too many requests were sent without waiting for an answer.")
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise RequestRefused(400, "A request needs one Host header.")
        self._enter(Phase.BODY)
        self._lease.waits(False)
        self._body = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing -= len(body)
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._framing = 0
        self._enter(Phase.ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        is_last = self._ended and not self.pipeline
        super().on_response_complete()
        if is_last:
            self.transport.close()
        elif self._phase is Phase.ANSWER and self.cycle.response_complete:
            self._enter(Phase.NEXT_REQUEST)
            self._lease.waits(True)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _abandon(self) -> None:
        """Discards the rest of the application's answer to the current request."""
        if self._answered is not None:
            self._answered.disconnected = True
            self._answered.message_event.set()

    # -- limits

    def tick(self, seconds: float) -> None:
        """Runs every `seconds`, and ends what has taken too long."""
        if self.flow.write_paused or self.transport.is_closing():
            self._stalled += seconds
            if self._stalled > self._limits.stalled:
                self.transport.abort()
            return
        self._stalled = 0.0
        place = self._lease.place
        if not self.flow.read_paused and not (place is not None and place.queued):
            self._spent += seconds
        if self._spent > self._allowed():
            self._expire()

    def refuse(self, status: int, message: str) -> None:
        """Answers and closes. Reads for another moment: otherwise the client would see a broken connection instead of
        the answer.
        """
        running = self._answered
        if running is not None and not running.response_complete and running.response_started:
            self.transport.abort()
            return
        self._abandon()
        text = message.encode()
        head = [b"content-type: text/plain; charset=utf-8", b"content-length: %d" % len(text), b"connection: close"]
        head += [b"retry-after: 1"] if status == 503 else []
        head += [name + b": " + value for name, value in self.server_state.default_headers]
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(head) + b"\r\n\r\n" + text)
        self._enter(Phase.CLOSE)
        self._lease.waits(True)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(self._limits.linger, self.transport.close)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._spent = 0.0

    def _allowed(self) -> float:
        limits = self._limits
        match self._phase:
            case Phase.FIRST_BYTE:
                return limits.first_byte
            case Phase.HEAD:
                return limits.head
            case Phase.BODY:
                return limits.body + self._body / limits.slowest
            case _:
                return float("inf")  # the time of the application, or a phase with a timer of its own

    def _expire(self) -> None:
        if self._phase is Phase.FIRST_BYTE:
            self.transport.close()
        else:
            self.refuse(408, f"The {self._phase.value} of the request took too long.")

    def _check_framing(self) -> None:
        body = self._body if self._phase is Phase.BODY else 0
        if self._framing > self._limits.head_bytes + _FRAMING_FACTOR * body:
            self._count_head(self._framing)
            raise RequestRefused(400, "The request has more framing than body.")

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > self._limits.head_bytes:
            raise RequestRefused(431, f"The request line and headers are longer than {self._limits.head_bytes} bytes.")


def _reason(error: str) -> str:
    """Returns the text of the answer to a malformed request. The first one is that of OpenStack's services."""
    if "Content-Length" in error and "character" in error:
        return "content-length header must be an integer"
    return f"The request is malformed: {error}"
