"""The meaning of errors of drivers: repeat the transaction, or the database is away."""

from typing import Any

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# PostgreSQL: serialization failure, deadlock, lock time-out. MariaDB: lock wait time-out, deadlock, snapshot changed.
RETRIABLE = ("40001", "40P01", "55P03", 1205, 1213, 1020)
# PostgreSQL's classes of connection failures, insufficient resources and operator intervention.
_AWAY_SQLSTATES = ("08", "53", "57P", "58")
# MariaDB: too many connections, shutting down, disk full, not yet part of its cluster. All errors of its client library
# (2000 and up) are about connections.
_AWAY_CODES = (1021, 1040, 1047, 1053, 1114, 1203, 1927)
# A statement that took longer than [database] read_timeout. PostgreSQL, MariaDB.
_TOO_LONG = ("57014", 1969)
# The server rejects writes because it is no longer the primary. A new connection may reach the new primary.
DEMOTED = ("25006", 1290, 1792, 1836)
_AWAY_SQLITE = ("unable to open", "locked", "disk I/O", "is full")


def is_retriable(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed if it is repeated."""
    original = error.orig
    if isinstance(error, OperationalError) and "database is locked" in str(original):
        return True
    return code_of(original) in RETRIABLE


def code_of(original: BaseException | None) -> Any:
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
    code = code_of(getattr(error, "orig", None))
    if code in _TOO_LONG or (code in DEMOTED and not readonly):
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


def reason_of(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
