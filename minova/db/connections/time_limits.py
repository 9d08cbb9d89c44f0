"""How long a connection and its statements may take, at the server and here."""

import socket
import time
from collections.abc import Generator
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import URL

from minova.db.connections.lazy_columns import lazy_cursor

# Seconds that the client's time-out exceeds the server's, so that the server gives up first.
_READ_GRACE = 2.0


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; the options of group [database] with the same names."""

    connect_timeout: int = 5
    read_timeout: int = 20
    tcp_user_timeout: int = 20
    pool_timeout: int = 30
    connection_recycle_time: int = 3600


def connect_arguments(url: URL, timeouts: Timeouts) -> dict[str, Any]:
    """Options in the query of the URL take precedence."""
    if url.get_backend_name() == "postgresql":
        arguments: dict[str, Any] = {
            "connect_timeout": timeouts.connect_timeout,
            "keepalives_idle": max(1, timeouts.tcp_user_timeout // 4),
            "keepalives_interval": max(1, timeouts.tcp_user_timeout // 4),
            "keepalives_count": 3,
            "tcp_user_timeout": timeouts.tcp_user_timeout * 1000,
        }
        if url.get_driver_name() == "psycopg":
            arguments["read_timeout"] = timeouts.read_timeout + _READ_GRACE
    else:
        waits = timeouts.read_timeout + int(_READ_GRACE)
        arguments = {"connect_timeout": timeouts.connect_timeout, "read_timeout": waits, "write_timeout": waits}
    return {name: value for name, value in arguments.items() if name not in url.query}


def connect_psycopg(dialect: Any, _record: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """libpq has no time-out for a missing answer, so each wait for an answer is bounded here."""
    limit = options.pop("read_timeout", None)
    if limit is None:
        return None
    options["cursor_factory"] = lazy_cursor(dialect.loaded_dbapi)
    return bounded_connection(dialect.loaded_dbapi, float(limit)).connect(*arguments, **options)


@cache
def bounded_connection(psycopg: Any, limit: float) -> Any:
    """Returns psycopg's connection class with bounded waits. A wait of more than `limit` seconds raises
    OperationalError.
    """

    class Bounded(psycopg.Connection):  # type: ignore[misc]
        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return super().wait(_until(time.monotonic() + limit, gen), *arguments, **options)
            except TimeoutError:
                self.close()  # a late answer would be taken for the answer to the next statement
                raise psycopg.OperationalError(f"no answer within {limit:g} s") from None

        def rollback(self) -> None:
            """SQLAlchemy also calls this whenever it takes a connection back, mostly after a commit."""
            if self.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                super().rollback()

    return Bounded


def _until(deadline: float, waiting: Any) -> Generator[Any, Any, Any]:
    """Wraps the generator. Raises TimeoutError when it is resumed after the deadline; it is resumed several times a
    second.
    """
    answer = None
    try:
        while True:
            wait_flags = waiting.send(answer)
            answer = yield wait_flags
            if not answer and time.monotonic() > deadline:
                raise TimeoutError
    except StopIteration as end:
        return end.value


def bound_statements(dialect: str, connection: Any, cursor: Any, timeouts: Timeouts) -> None:
    """Makes the server give up a long statement, and TCP give up a peer that acknowledges nothing."""
    if dialect == "postgresql":
        cursor.execute(f"SET statement_timeout = {timeouts.read_timeout * 1000}")
        return
    # MySQL has another option, for SELECT only, and treats this as a comment.
    cursor.execute(f"SET @unused = 0 /*M!100101 , max_statement_time = {timeouts.read_timeout} */")
    peer = getattr(connection, "_sock", None)
    if isinstance(peer, socket.socket) and peer.family != socket.AF_UNIX:
        idle = max(1, timeouts.tcp_user_timeout // 4)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, idle)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeouts.tcp_user_timeout * 1000)
