"""A connection pooler in front of PostgreSQL, such as pgbouncer with `pool_mode = transaction`.

Each transaction of one connection may then reach another session of the server, which other programs share. So nothing
may be kept in a session: no prepared statements, no `SET`. minova finds out whether there is a pooler, and then sets
what it needs in each transaction. That takes a round trip for each transaction more than a direct connection.

See docs/decisions/0052.
"""

from typing import Any


def is_behind(connection: Any, cursor: Any) -> bool:
    """Whether this new connection of psycopg ends at a pooler: a pooler tells a process id that is not the server's."""
    cursor.execute("SELECT pg_backend_pid()")
    return bool(cursor.fetchone()[0] != connection.info.backend_pid)


def keep_nothing(connection: Any, *, readonly: bool) -> None:
    """Both are psycopg's own: the second one makes every transaction begin as READ ONLY."""
    connection.prepare_threshold = None
    connection.read_only = readonly or None


def settings_of_transaction(statement_timeout: int | None) -> str:
    """The settings that each transaction makes. `statement_timeout`: seconds."""
    settings = ["SET LOCAL TIME ZONE 'UTC'"]
    if statement_timeout is not None:
        settings.append(f"SET LOCAL statement_timeout = {statement_timeout * 1000}")
    return "; ".join(settings)
