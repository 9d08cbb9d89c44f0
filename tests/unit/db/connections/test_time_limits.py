"""Bounded waits of psycopg's connections."""

from enum import IntEnum
from types import SimpleNamespace
from typing import Any

from minova.db.connections.time_limits import bounded_connection


class Status(IntEnum):
    IDLE = 0
    INTRANS = 2
    UNKNOWN = 4


class Psycopg:
    """Stands in for the driver."""

    pq = SimpleNamespace(TransactionStatus=Status)

    class Connection:
        def __init__(self) -> None:
            self.info: Any = SimpleNamespace(transaction_status=Status.IDLE)
            self.rollbacks = 0

        def rollback(self) -> None:
            self.rollbacks += 1


def test_only_a_connection_without_a_transaction_needs_no_rollback() -> None:
    connection = bounded_connection(Psycopg, 1.0)()
    connection.rollback()
    assert connection.rollbacks == 0
    for connection.info.transaction_status in (Status.INTRANS, Status.UNKNOWN):
        connection.rollback()
    assert connection.rollbacks == 2
