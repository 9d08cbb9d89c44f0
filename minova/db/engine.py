"""The database behind one URL: transactions, their retries, and its clock."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Double, Engine, create_engine, event, literal
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from minova import errors
from minova.db import clock as clocks
from minova.db.clock import CloudNow, EpochNow

T = TypeVar("T")

# PostgreSQL: serialization failure, deadlock. MariaDB: lock wait time-out, deadlock, snapshot changed.
_RETRIABLE = ("40001", "40P01", 1205, 1213, 1020)
# PostgreSQL's classes of connection failures, lack of resources and operators who intervene.
_AWAY_SQLSTATES = ("08", "53", "57P", "58")
# MariaDB: too many connections, shutting down, full; whatever its client library says (2000 and up) is about connections.
_AWAY_CODES = (1021, 1040, 1053, 1114, 1203, 1927)
_AWAY_SQLITE = ("unable to open", "locked", "disk I/O", "is full")
_READ_ONLY = {
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}
# MariaDB's unix_timestamp() reads what the session's zone shows, and where that has summer time, shows an hour twice a year.
_UTC = {
    "postgresql": "SET TIME ZONE 'UTC'",
    "mysql": "SET time_zone = '+00:00'",
    "mariadb": "SET time_zone = '+00:00'",
}
# Each statement sees what is committed before it, in a transaction or without: without one it saves two round trips. (MariaDB
# would need as many to switch; SQLite's transactions see all as it is at their beginning, and cost nothing.)
_OF_READS = {"postgresql": {"isolation_level": "AUTOCOMMIT"}}
ATTEMPTS = 12
# Seconds between two of them: on MariaDB a few inventories that all want can deadlock eight times in a row on a busy machine.
LONGEST_PAUSE = 1.0
# Seconds that a pooled connection may have rested before it is tried out.
PING_AFTER = 2.0


class Database:
    """For tests: `clock` stands in for the cloud clock, `wall` for the server's wall clock below it. None uses the server's.

    A read-only one (the API's) cannot write, whatever its code does. `pool_size`: connections at
    the same time (not SQLite); more work waits.
    `durable` False: SQLite does not wait for the disk, for databases that nobody keeps.
    InvalidConfiguration: no such URL.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] | None = None,
        wall: Callable[[], float] | None = None,
        readonly: bool = False,
        pool_size: int = 10,
        durable: bool = True,
    ):
        self._clock = clock
        self._wall = wall or clock
        self._durable = durable
        self._readonly = readonly
        self.engine: Engine = _engine(url, pool_size)
        self.dialect = self.engine.dialect.name
        self._reads = {"minova_reads": True, **_OF_READS.get(self.dialect, {})}
        if self.dialect == "sqlite":
            event.listen(self.engine, "connect", self._set_pragmas)
            event.listen(self.engine, "begin", self._begin)
            return
        event.listen(self.engine, "checkin", self._note_use)
        event.listen(self.engine, "checkout", self._ping_after_rest)
        event.listen(self.engine, "connect", self._set_up_session)

    def now(self) -> ColumnElement[float]:
        """The cloud clock, which leases, deadlines and heartbeats are compared with."""
        return CloudNow(self.wall()) if self._clock is None else literal(self._clock(), Double())

    def wall(self) -> ColumnElement[float]:
        """The server's wall clock, seconds since the epoch, for times that people read."""
        return EpochNow() if self._wall is None else literal(self._wall(), Double())

    def advance_clock(self) -> None:
        """To be done by every conductor, every `clock.ADVANCE_INTERVAL` seconds and before it stamps anything.

        ServiceUnavailable: the database does not answer; then the clock stands still.
        """
        if self._clock is None:
            self.run(lambda session: clocks.advance(session, self.wall()))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """For what changes nothing: on PostgreSQL each statement stands alone, so that a write would stay and a lock
        would not.

        ServiceUnavailable: the database does not answer.
        """
        with _available(), Session(self.engine, expire_on_commit=False) as session:
            session.connection(execution_options=self._reads)
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction, committed at the end of the block, rolled back by an error. Not repeated: see `run`.

        ServiceUnavailable: the database does not answer. What was done may stand all the same, if that came to light
        at the commit.
        """
        with _available(), Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    def run(self, work: Callable[[Session], T]) -> T:
        """Do `work` in one write transaction; repeat it whole, jittered and bounded, after a deadlock or busy."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.write() as session:
                    return work(session)
            except DBAPIError as error:
                if not is_retriable(error):
                    raise
                if attempt == ATTEMPTS:
                    raise errors.ServiceUnavailable(f"The database is too busy: {error.orig}") from error
                time.sleep(random.uniform(0, min(0.01 * 2**attempt, LONGEST_PAUSE)))
        raise AssertionError("unreachable")

    def close(self) -> None:
        self.engine.dispose()

    def _note_use(self, _connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    def _ping_after_rest(self, connection: Any, record: Any, _proxy: Any) -> None:
        """A connection may have died while it lay in the pool. One in steady use is not asked: that would cost a round
        trip for every transaction.
        """
        if time.monotonic() - record.info.get("used", time.monotonic()) < PING_AFTER:
            return
        try:
            alive = self.engine.dialect.do_ping(connection)
        except Exception as error:
            raise DisconnectionError from error
        if not alive:
            raise DisconnectionError

    def _set_up_session(self, connection: Any, _record: Any) -> None:
        # Once for a connection, not for each transaction: that would be a round trip more for every read.
        cursor = connection.cursor()
        cursor.execute(_UTC[self.dialect])
        if self._readonly:
            cursor.execute(_READ_ONLY[self.dialect])
        cursor.close()
        connection.commit()

    def _set_pragmas(self, connection: Any, _record: Any) -> None:
        # Python's sqlite3 would open transactions by itself, late; `_begin` does it.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA busy_timeout=20000")
        if self._readonly:
            cursor.execute("PRAGMA query_only=ON")
        else:
            cursor.execute("PRAGMA journal_mode=WAL")
        if not self._durable:
            cursor.execute("PRAGMA synchronous=OFF")
        cursor.close()

    def _begin(self, connection: Any) -> None:
        # Writers take the lock at once: a read lock that is upgraded later ends in SQLITE_BUSY, whatever the time-out.
        reads = self._readonly or connection.get_execution_options().get("minova_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def is_retriable(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed when repeated."""
    original = error.orig
    if isinstance(error, OperationalError) and "database is locked" in str(original):
        return True
    code = getattr(original, "sqlstate", None) or (original.args[0] if original is not None and original.args else None)
    return code in _RETRIABLE


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        if is_away(error):
            raise errors.ServiceUnavailable(f"The database does not answer: {_reason(error)}") from error
        raise


def is_away(error: Exception) -> bool:
    """Whether the database itself is out of reach or out of means: nothing is wrong with what was asked."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, (OperationalError, InterfaceError)) or is_retriable(error):
        return False
    original = error.orig
    if error.connection_invalidated or original is None:
        return True
    module = type(original).__module__
    if module == "sqlite3":
        return any(words in str(original) for words in _AWAY_SQLITE)
    if module.startswith("psycopg"):
        state = getattr(original, "sqlstate", None)
        return state is None or state.startswith(_AWAY_SQLSTATES)
    code = original.args[0] if original.args else None
    return code in _AWAY_CODES or (isinstance(code, int) and 2000 <= code < 3000)


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _engine(url: str, pool_size: int) -> Engine:
    try:
        # Values of statements are people's: passwords for guests among them, which no error's text may carry into a log.
        return create_engine(url, hide_parameters=True, **_options(url, pool_size))
    except ArgumentError as error:  # which never holds the URL itself, nor its password
        raise errors.InvalidConfiguration(f"[database] connection: {error}") from None
    except ImportError as error:
        raise errors.InvalidConfiguration(f"[database] connection: the driver {error.name} is not installed") from None


def _options(url: str, pool_size: int) -> dict[str, Any]:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return {"connect_args": {"check_same_thread": False, "timeout": 20}}
    return {
        "isolation_level": "READ COMMITTED",
        "pool_recycle": 3600,
        # Connections beyond these would be made and closed all the time just when there is most to do: who comes then waits.
        "pool_size": pool_size,
        "max_overflow": 0,
    }
