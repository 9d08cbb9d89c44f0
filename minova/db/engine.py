"""The database behind one URL: transactions, their retries, and its clock."""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import BindParameter, Connection, Double, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    InvalidatePoolError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session, SessionTransaction
from sqlalchemy.sql import ColumnElement

from minova import errors
from minova.backoff import Backoff
from minova.codecs import parse_json, write_json
from minova.db import clock as clocks
from minova.db.clock import CloudNow
from minova.db.connections import galera, pooler
from minova.db.connections.ballast import Ballast
from minova.db.connections.failures import DEMOTED, RETRIABLE, code_of, is_away, is_retriable, reason_of
from minova.db.connections.time_limits import Timeouts, bound_statements, connect_arguments, connect_psycopg
from minova.db.models.clock import EpochNow
from minova.db.sql import use_plans_for_one
from minova.outages import Outage

T = TypeVar("T")

LOG = logging.getLogger(__name__)
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


class _OneConnectionSession(Session):
    """A session of one engine. Its connection is looked up once for each transaction: nearly every statement asks for it, and the look-up
    took a tenth of the time of a prepared statement.
    """

    _transaction_of_connection: SessionTransaction | None = None
    _known_connection: Connection | None = None

    def connection(self, bind_arguments: Any = None, execution_options: Any = None) -> Connection:
        transaction = self.get_transaction()
        is_known = transaction is not None and transaction is self._transaction_of_connection and transaction.is_active
        if is_known and not (bind_arguments or execution_options or self.in_nested_transaction()):
            assert self._known_connection is not None
            return self._known_connection
        connection = super().connection(bind_arguments, execution_options)
        self._transaction_of_connection, self._known_connection = self.get_transaction(), connection
        return connection


class WriteSession(_OneConnectionSession):
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

    def committed(committed_session: Session) -> None:
        nonlocal done
        # SQLAlchemy calls this for each savepoint, too.
        if done or committed_session.in_nested_transaction():
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
        self.engine: Engine = _engine(url, pool_size, timeouts, readonly=readonly)
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
            event.listen(self.engine, "do_connect", connect_psycopg)
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

    @property
    def missing_file(self) -> Path | None:
        """The file of a SQLite database that does not exist: a connection would make it, and it would belong to the connecting user."""
        name = self.engine.url.database if self.dialect == "sqlite" else None
        if not name or name.startswith((":memory:", "file:")):
            return None
        try:
            Path(name).stat()
        except FileNotFoundError:
            return Path(name)
        except OSError:  # the connection fails as well, with its reason
            pass
        return None

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
            with self._available(), _OneConnectionSession(self.engine, expire_on_commit=False) as session:
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
            if self._ballast is not None and "is full" in reason_of(error) and self._ballast.give_up():
                raise _RoomMade("The database does not answer.", reason=reason_of(error)) from error
            self._outage.failed(reason_of(error))
            raise errors.ServiceUnavailable("The database does not answer.", reason=reason_of(error)) from error
        self._outage.answered()

    def _options_of_reads(self) -> dict[str, Any]:
        if self._pooled is None:
            self.engine.connect().close()  # finds out
        if self._pooled:
            in_transaction = {"isolation_level": "READ COMMITTED"} if self._readonly else {}
            return {"minova_reads": True, "minova_settings": self._settings, **in_transaction}
        return {"minova_reads": True, **({} if self._readonly else _OF_READS.get(self.dialect, {}))}

    def _drop_demoted(self, context: ExceptionContext) -> None:
        """The pool then opens new connections, to the server that is the primary at that time."""
        if not self._readonly and code_of(context.original_exception) in DEMOTED:
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
            bound_statements(self.dialect, connection, cursor, self._timeouts)
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
            if code_of(error) not in RETRIABLE:
                raise
            cursor.connection.rollback()  # on MariaDB the transaction still holds its table locks
            if settings := context.execution_options.get("minova_settings"):
                cursor.execute(settings)
            _pause(attempt)
        else:
            return True
    return False  # SQLAlchemy itself makes the last attempt


def _engine(url: str, pool_size: int, timeouts: Timeouts | None, *, readonly: bool) -> Engine:
    try:
        # Parameter values are users' data, among them passwords of guests. No error text may carry them into a log.
        return create_engine(
            url,
            hide_parameters=True,
            json_serializer=write_json,
            json_deserializer=parse_json,
            **_options(url, pool_size, timeouts, readonly=readonly),
        )
    except ArgumentError as error:  # its text never holds the URL or the password
        raise errors.InvalidConfiguration(f"[database] connection: {error}") from None
    except ImportError as error:
        raise errors.InvalidConfiguration(f"[database] connection: the driver {error.name} is not installed") from None


def _options(url: str, pool_size: int, timeouts: Timeouts | None, *, readonly: bool) -> dict[str, Any]:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return {"connect_args": {"check_same_thread": False, "timeout": 20}}
    times = timeouts or Timeouts()
    return {
        "isolation_level": "READ COMMITTED",
        # To set what differs at each read took a tenth of the time of a short request.
        **(_OF_READS.get(parsed.get_backend_name(), {}) if readonly else {}),
        "connect_args": {} if timeouts is None else connect_arguments(parsed, timeouts),
        "pool_recycle": times.connection_recycle_time,
        "pool_timeout": times.pool_timeout,
        # No overflow: under high load, connections beyond the pool would be opened and closed all the time. Further
        # requests wait.
        "pool_size": pool_size,
        "max_overflow": 0,
    }
