"""Several nodes of one Galera cluster (MariaDB) take writes at the same time.

A lock holds at its own node only. When a transaction ends, Galera compares the rows that it has *written* with those of
the transactions of other nodes; on a conflict the later one fails as a deadlock does, and is repeated. A row that is
only locked does not count. Therefore, where the server is a node of a cluster,

- each `SELECT ... FOR UPDATE` also writes the rows that it locks: it raises their `lock_number`;
- a transaction begins when its node has caught up with all that was committed before at any node. Otherwise a message
  could be faster than the rows that it is about.

See docs/decisions/0051.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BindParameter, Connection, Select, Table, Update, bindparam, literal_column, update
from sqlalchemy.sql.visitors import iterate, replacement_traverse

LOCK_NUMBER = "lock_number"
# Before reads, updates and deletes, inserts; only the first statement of a transaction waits.
_CATCH_UP = "SET SESSION wsrep_sync_wait = 7"
_IS_NODE = "SHOW VARIABLES LIKE 'wsrep_on'"
# In the pool's information about a connection.
_OF_NODE = "minova_galera"


def set_up_session(cursor: Any, record: Any) -> None:
    """For a new connection to MariaDB: finds out whether the server is a node of a cluster."""
    cursor.execute(_IS_NODE)
    row = cursor.fetchone()
    record.info[_OF_NODE] = row is not None and row[1] == "ON"
    if record.info[_OF_NODE]:
        cursor.execute(_CATCH_UP)


def write_what_is_locked(connection: Connection, statement: Any, _several: Any, parameters: Any, _options: Any) -> None:
    """A hook of SQLAlchemy: before_execute."""
    if connection.info.get(_OF_NODE) and locks_rows(statement):
        connection.execute(raising_lock_numbers(statement), parameters_of_lock(statement, parameters))


def locks_rows(statement: Any) -> bool:
    # SQLAlchemy has no public name for it.
    return isinstance(statement, Select) and statement._for_update_arg is not None


def raising_lock_numbers(query: Select[Any]) -> Update:
    """Returns the statement that writes the rows which `query` locks. Its parameters have other names: in an update the
    name of a column is taken for the column's new value.

    Raises TypeError if the query is not about exactly one table, or about one without the column.
    """
    tables = query.get_final_froms()
    if len(tables) != 1 or not isinstance(tables[0], Table) or LOCK_NUMBER not in tables[0].columns:
        raise TypeError(f"FOR UPDATE needs one table with the column {LOCK_NUMBER} (models.base.Lockable): {query}")
    raised = update(tables[0]).values({LOCK_NUMBER: literal_column(f"COALESCE({LOCK_NUMBER}, 0) + 1")})
    if query.whereclause is None:
        return raised
    return raised.where(replacement_traverse(query.whereclause, {}, _rename))


def parameters_of_lock(query: Select[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of `raising_lock_numbers`. A query may get values that it has no place for, such as those
    of the update that follows it.
    """
    if query.whereclause is None:
        return {}
    names = {
        element.key for element in iterate(query.whereclause) if isinstance(element, BindParameter) and element.required
    }
    return {renamed(name): value for name, value in parameters.items() if name in names}


def _rename(element: Any, **_: Any) -> Any:
    if isinstance(element, BindParameter) and element.required:
        return bindparam(renamed(element.key), type_=element.type, expanding=element.expanding)
    return None


def renamed(name: str) -> str:
    return f"of_lock_{name}"
