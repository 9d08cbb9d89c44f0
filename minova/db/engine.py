"""The database behind one URL: transactions, their retries, and its clock."""

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import URL, BindParameter, Double, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    InvalidatePoolError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from minova import errors
from minova.backoff import Backoff
from minova.codecs import parse_json, write_json
from minova.db import clock as clocks
from minova.db.clock import CloudNow
from minova.db.connections import galera, pooler
from minova.db.connections.ballast import Ballast
from minova.db.models.clock import EpochNow
from minova.db.sql import use_plans_for_one
from minova.outages import Outage

T = TypeVar("T")

# PostgreSQL: serialization failure, deadlock, lock time-out. MariaDB: lock wait time-out, deadlock, snapshot changed.
_RETRIABLE = ("40001", "40P01", "55P03", 1205, 1213, 1020)
# PostgreSQL's classes of connection failures, insufficient resources and operator intervention.
_AWAY_SQLSTATES = ("08", "53", "57P", "58")
# MariaDB: too many connections, shutting down, disk full, not yet part of its cluster. All errors of its client library
# (2000 and up) are about connections.
_AWAY_CODES = (1021, 1040, 1047, 1053, 1114, 1203, 1927)
# A statement that took longer than [database] read_timeout. PostgreSQL, MariaDB.
_TOO_LONG = ("57014", 1969)
# The server rejects writes because it is no longer the primary. A new connection may reach the new primary.
_DEMOTED = ("25006", 1290, 1792, 1836)
# Seconds that the client's time-out exceeds the server's, so that the server gives up first.
_READ_GRACE = 2.0
LOG = logging.getLogger(__name__)
_AWAY_SQLITE = ("unable to open", "locked", "disk I/O", "is full")
_READ_ONLY = {
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}
# MariaDB's unix_timestamp() converts from the session's time zone. With summer time, one hour a year occurs twice
# there.
_UTC = {
    "postgresql": "SET TIME ZONE 'UTC'",
    "mysql": "SET time_zone = '+00:00'",
    "mariadb": "SET time_zone = '+00:00'",
}
# Each statement sees what was committed before it, inside a transaction or outside. Running outside a transaction saves
# two round trips. (MariaDB would need as many round trips to switch. SQLite's transactions see a snapshot of their
# beginning, and cost nothing.)
_OF_READS = {"postgresql": {"isolation_level": "AUTOCOMMIT"}}
ATTEMPTS = 12
# Seconds between two attempts. On a busy MariaDB, claims for the same few inventories can deadlock eight times in a
# row.
BACKOFF = Backoff(first=0.02, longest=1.0)
# Seconds that a pooled connection may be idle before it is pinged.
PING_AFTER = 2.0


# The server's clocks as expressions, made once: nearly every write uses one.
_WALL: ColumnElement[float] = EpochNow()
_NOW: ColumnElement[float] = CloudNow(_WALL)


class _CalledDouble(Double[float]):
    """The type of a parameter whose value is a call. A statement that was compiled for a plain Double would not call it."""


def _shown_by(clock: Callable[[], float]) -> ColumnElement[float]:
    """The time of `clock` when the statement runs."""
    return BindParameter(None, callable_=clock, type_=_CalledDouble(), unique=True)


class _RoomMade(errors.ServiceUnavailable):
    """The disk was full and now has space for some writes. Repeating the same transaction may succeed."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds; the options of group [database] with the same names."""

    connect_timeout: int = 5
    read_timeout: int = 20
    tcp_user_timeout: int = 20
    pool_timeout: int = 30
    connection_recycle_time: int = 3600


class WriteSession(Session):
    """The session of one write transaction.

    `changed_nodes`: ids of the compute nodes whose rows in host tables the transaction changes.
    `changed_at`: when; None: by the database's clock.

    `placement.changes` writes both as the last step.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.changed_nodes: set[int] = set()
        self.changed_at: Any = None


def when_committed(session: Session, work: Callable[[], object]) -> None:
    """Calls `work` once after this session has committed. If the process dies in between, `work` is not called.

    An error of `work` is logged: what is committed must not look as if it had failed.
    """
    done = False

    def committed(one: Session) -> None:
        nonlocal done
        # SQLAlchemy calls this for each savepoint, too.
        if done or one.in_nested_transaction():
            return
        done = True
        try:
            work()
        except Exception:
            LOG.exception("Work that follows a transaction failed")

    event.listen(session, "after_commit", committed)


class Database:
    """`clock`, `wall`: for tests. They replace the cloud clock and the server's wall clock below it; None uses the
    server's.
    `readonly`: for the API; writes fail, whatever the code does.
    `pool_size`: connections at the same time (not for SQLite); further work waits.
    `durable` False: SQLite does not wait for the disk, for throw-away databases.
    `ballast`: keeps space in reserve for the time when the disk of a SQLite file is full.
    `timeouts` None: statements may take any time, as those of migrations do.

    Raises InvalidConfiguration if the URL is not valid.
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
        ballast: bool = False,
        timeouts: Timeouts | None = None,
    ):
        self._timeouts = timeouts
        self._outage = Outage("The database", LOG, gauge="database")
        stands_in = wall or clock
        self._wall = _WALL if stands_in is None else _shown_by(stands_in)
        self._now = (_NOW if wall is None else CloudNow(self._wall)) if clock is None else _shown_by(clock)
        self._advances_clock = clock is None
        self._durable = durable
        self._readonly = readonly
        self.engine: Engine = _engine(url, pool_size, timeouts)
        self.dialect = self.engine.dialect.name
        # Whether there is a pooler between the last connection and PostgreSQL; None: not known yet.
        self._pooled: bool | None = False if self.engine.driver != "psycopg" else None
        self._settings = pooler.settings_of_transaction(None if timeouts is None else timeouts.read_timeout)
        self._turn: AbstractContextManager[object] = nullcontext()
        self._ballast: Ballast | None = None
        if self.dialect == "sqlite":
            event.listen(self.engine, "connect", self._set_pragmas)
            event.listen(self.engine, "begin", self._begin)
            self._turn = _writer_of(self.engine.url.database or "")
            if ballast and self.engine.url.database:
                self._ballast = Ballast(Path(self.engine.url.database))
            return
        if self.engine.driver == "psycopg":
            event.listen(self.engine, "do_connect", _connect_psycopg)
            event.listen(self.engine, "begin", self._set_up_transaction)
        if self.dialect == "postgresql":
            event.listen(self.engine, "before_cursor_execute", use_plans_for_one, retval=True)
        else:
            event.listen(self.engine, "before_execute", galera.write_what_is_locked)
        event.listen(self.engine, "do_execute", _repeat_read)
        event.listen(self.engine, "checkin", self._note_use)
        event.listen(self.engine, "checkout", self._ping_after_rest)
        event.listen(self.engine, "connect", self._set_up_session)
        event.listen(self.engine, "handle_error", self._drop_demoted)

    def now(self) -> ColumnElement[float]:
        """The cloud clock. Leases, deadlines and heartbeats are compared with it."""
        return self._now

    def wall(self) -> ColumnElement[float]:
        """The server's wall clock, seconds since the epoch, for times that people read."""
        return self._wall

    def advance_clock(self) -> None:
        """Every conductor calls this every `clock.ADVANCE_INTERVAL` seconds, and before it writes any time stamp.

        Raises ServiceUnavailable if the database does not answer; then the clock stands still.
        """
        if self._advances_clock:
            self.run(lambda session: clocks.advance(session, self._wall))

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session for reads. On PostgreSQL without a pooler each statement runs outside a transaction, so a write
        would be committed at once and a lock would be released at once. A statement that a deadlock has ended is
        repeated by itself.

        Raises ServiceUnavailable if the database does not answer.
        """
        try:
            with self._available(), Session(self.engine, expire_on_commit=False) as session:
                session.connection(execution_options=self._options_of_reads())
                yield session
        except DBAPIError as error:
            if not is_retriable(error):
                raise
            LOG.warning("A read was given up after %d tries: %s", ATTEMPTS, error.orig)
            raise errors.ServiceUnavailable("The database is too busy.") from error

    @contextmanager
    def write(self, session_class: type[WriteSession] | None = None) -> Iterator[Session]:
        """One transaction, committed at the end of the block and rolled back on an error. It is not repeated: see
        `run`.

        Raises ServiceUnavailable if the database does not answer. If that happens during the commit, the transaction
        may have been committed all the same.
        """
        with (
            self._turn,
            self._available(),
            (session_class or WriteSession)(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    def run(self, work: Callable[[Session], T], session_class: type[WriteSession] | None = None) -> T:
        """Runs `work` in one write transaction. After a deadlock or a busy database the whole transaction is repeated,
        with jitter, a limited number of times.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self.write(session_class) as session:
                    return work(session)
            except DBAPIError as error:
                if not is_retriable(error):
                    raise
                if attempt == ATTEMPTS:
                    LOG.warning("A transaction was given up after %d tries: %s", ATTEMPTS, error.orig)
                    raise errors.ServiceUnavailable("The database is too busy.") from error
                _pause(attempt)
            except _RoomMade:
                LOG.info("A transaction that found the disk full is repeated")
        raise AssertionError("unreachable")

    def hold_ballast(self) -> bool:
        """Whether there is space for new records besides the reserve for deletes and heartbeats. Makes the reserve if
        possible.

        Only a SQLite file has such a reserve; a database server manages its own disk.
        """
        return self._ballast is None or self._ballast.hold()

    def require_room(self) -> None:
        """Must be called before anything new is written. Raises DiskFull if deletes and heartbeats need the remaining
        space.
        """
        if not self.hold_ballast():
            raise errors.DiskFull(
                "There is no room left for the database. Delete something, or tell your administrator."
            )

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _available(self) -> Iterator[None]:
        """Logs the driver's message, which may hold addresses. The text of the error that it raises may be shown to
        users.
        """
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            if not is_away(error, readonly=self._readonly):
                raise
            if self._ballast is not None and "is full" in _reason(error) and self._ballast.give_up():
                raise _RoomMade("The database does not answer.", reason=_reason(error)) from error
            self._outage.failed(_reason(error))
            raise errors.ServiceUnavailable("The database does not answer.", reason=_reason(error)) from error
        self._outage.answered()

    def _options_of_reads(self) -> dict[str, Any]:
        if self._pooled is None:
            self.engine.connect().close()  # finds out
        if self._pooled:
            return {"minova_reads": True, "minova_settings": self._settings}
        return {"minova_reads": True, **_OF_READS.get(self.dialect, {})}

    def _drop_demoted(self, context: ExceptionContext) -> None:
        """The pool then opens new connections, to the server that is the primary at that time."""
        if not self._readonly and _code(context.original_exception) in _DEMOTED:
            context.is_disconnect = True

    def _note_use(self, _connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    def _ping_after_rest(self, connection: Any, record: Any, _proxy: Any) -> None:
        """A connection may have died while it was idle in the pool. One in steady use is not pinged: that would cost a
        round trip for every transaction.
        """
        if time.monotonic() - record.info.get("used", time.monotonic()) < PING_AFTER:
            return
        try:
            alive = self.engine.dialect.do_ping(connection)
        except Exception as error:
            # The same failure has most likely broken all connections of that age.
            raise InvalidatePoolError from error
        if not alive:
            raise DisconnectionError

    def _set_up_session(self, connection: Any, record: Any) -> None:
        # Once for each connection. Once for each transaction would add a round trip to every read.
        cursor = connection.cursor()
        if self.engine.driver == "psycopg":
            self._pooled = pooler.is_behind(connection, cursor)
            if self._pooled:
                cursor.close()
                connection.rollback()
                pooler.keep_nothing(connection, readonly=self._readonly)
                return
        cursor.execute(_UTC[self.dialect])
        if self.dialect != "postgresql":
            galera.set_up_session(cursor, record)
        if self._timeouts is not None:
            _bound_statements(self.dialect, connection, cursor, self._timeouts)
        if self._readonly:
            cursor.execute(_READ_ONLY[self.dialect])
        cursor.close()
        connection.commit()

    def _set_up_transaction(self, connection: Any) -> None:
        if self._pooled:
            connection.exec_driver_sql(self._settings, execution_options={"no_parameters": True})

    def _set_pragmas(self, connection: Any, _record: Any) -> None:
        # Python's sqlite3 would open transactions implicitly, and late. `_begin` opens them instead.
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
        # Writers take the lock at once: upgrading a read lock later fails with SQLITE_BUSY, whatever the time-out.
        reads = self._readonly or connection.get_execution_options().get("minova_reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@cache
def _writer_of(path: str) -> AbstractContextManager[object]:
    """Threads of one process take turns to write a SQLite file: SQLite's own lock sleeps up to 0.1 s between two
    attempts.
    """
    return threading.Lock() if path and path != ":memory:" else nullcontext()


def _pause(attempt: int) -> None:
    time.sleep(random.uniform(0, BACKOFF.pause(attempt)))


def _repeat_read(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
    """Executes a statement of `Database.read` and repeats it, with jitter and a limited number of times, after a
    deadlock. Returns whether it was executed.

    Statements that change tables also lock them against reads. One statement can be repeated without the statements
    before it, because each statement sees what is committed when it begins (on MariaDB because of the isolation level).
    """
    if not context.execution_options.get("minova_reads"):
        return False
    for attempt in range(1, ATTEMPTS):
        try:
            context.dialect.do_execute(cursor, statement, parameters, context)
        except context.dialect.loaded_dbapi.Error as error:
            if _code(error) not in _RETRIABLE:
                raise
            cursor.connection.rollback()  # on MariaDB the transaction still holds its table locks
            if settings := context.execution_options.get("minova_settings"):
                cursor.execute(settings)
            _pause(attempt)
        else:
            return True
    return False  # SQLAlchemy itself makes the last attempt


def is_retriable(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed if it is repeated."""
    original = error.orig
    if isinstance(error, OperationalError) and "database is locked" in str(original):
        return True
    return _code(original) in _RETRIABLE


def _code(original: BaseException | None) -> Any:
    """Returns MariaDB's error number or PostgreSQL's SQLSTATE. Drivers of MariaDB may have both; its SQLSTATE is less
    precise.
    """
    first = original.args[0] if original is not None and original.args else None
    return first if isinstance(first, int) else getattr(original, "sqlstate", None)


def is_away(error: Exception, *, readonly: bool = False) -> bool:
    """Whether the database is out of reach or out of resources, so that nothing is wrong with the request.

    `readonly`: the request came from a read-only database.
    """
    if isinstance(error, PoolTimeout):
        return True
    code = _code(getattr(error, "orig", None))
    if code in _TOO_LONG or (code in _DEMOTED and not readonly):
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
    return code in _AWAY_CODES or (isinstance(code, int) and 2000 <= code < 3000)


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _engine(url: str, pool_size: int, timeouts: Timeouts | None) -> Engine:
    try:
        # Parameter values are users' data, among them passwords of guests. No error text may carry them into a log.
        return create_engine(
            url,
            hide_parameters=True,
            json_serializer=write_json,
            json_deserializer=parse_json,
            **_options(url, pool_size, timeouts),
        )
    except ArgumentError as error:  # its text never holds the URL or the password
        raise errors.InvalidConfiguration(f"[database] connection: {error}") from None
    except ImportError as error:
        raise errors.InvalidConfiguration(f"[database] connection: the driver {error.name} is not installed") from None


def _options(url: str, pool_size: int, timeouts: Timeouts | None) -> dict[str, Any]:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return {"connect_args": {"check_same_thread": False, "timeout": 20}}
    times = timeouts or Timeouts()
    return {
        "isolation_level": "READ COMMITTED",
        "connect_args": {} if timeouts is None else _connect_arguments(parsed, timeouts),
        "pool_recycle": times.connection_recycle_time,
        "pool_timeout": times.pool_timeout,
        # No overflow: under high load, connections beyond the pool would be opened and closed all the time. Further
        # requests wait.
        "pool_size": pool_size,
        "max_overflow": 0,
    }


def _connect_arguments(url: URL, timeouts: Timeouts) -> dict[str, Any]:
    """Options in the query of the URL take precedence."""
    if url.get_backend_name() == "postgresql":
        made: dict[str, Any] = {
            "connect_timeout": timeouts.connect_timeout,
            "keepalives_idle": max(1, timeouts.tcp_user_timeout // 4),
            "keepalives_interval": max(1, timeouts.tcp_user_timeout // 4),
            "keepalives_count": 3,
            "tcp_user_timeout": timeouts.tcp_user_timeout * 1000,
        }
        if url.get_driver_name() == "psycopg":
            made["read_timeout"] = timeouts.read_timeout + _READ_GRACE
    else:
        waits = timeouts.read_timeout + int(_READ_GRACE)
        made = {"connect_timeout": timeouts.connect_timeout, "read_timeout": waits, "write_timeout": waits}
    return {name: value for name, value in made.items() if name not in url.query}


def _connect_psycopg(dialect: Any, _record: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """libpq has no time-out for a missing answer, so each wait for an answer is bounded here."""
    limit = options.pop("read_timeout", None)
    if limit is None:
        return None
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

    return Bounded


def _until(deadline: float, waiting: Any) -> Generator[Any, Any, Any]:
    """Wraps the generator. Raises TimeoutError when it is resumed after the deadline; it is resumed several times a
    second.
    """
    answer = None
    try:
        while True:
            wanted = waiting.send(answer)
            answer = yield wanted
            if not answer and time.monotonic() > deadline:
                raise TimeoutError
    except StopIteration as end:
        return end.value


def _bound_statements(dialect: str, connection: Any, cursor: Any, timeouts: Timeouts) -> None:
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
