"""The feed `host_changes`, from which host tables refresh.

A transaction takes its numbers of the feed as its last step before the commit. A transaction that is rolled back before
that uses up no number, and a number is visible very soon after it was taken: readers have few gaps to look at again. Its times are the
database's wall clock: a step of that makes readers read every host once, or keeps the feed a while longer.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import Insert, delete, event, func, insert, select, text
from sqlalchemy.orm import Session, aliased

from minova.db.clock import wall_of
from minova.db.engine import WriteSession
from minova.db.models import ComputeNode, HostChange, ResourceProvider
from minova.db.models.clock import EpochNow

_Root = aliased(ResourceProvider)

# A change of all nodes: aggregates, or services with many nodes.
EVERY_NODE = 0
# Of the numbers up to 2**31 - 1 that the column `seq` has on PostgreSQL and MariaDB. A busy cloud uses a hundred a second, and
# three times as many on three Galera nodes.
RENUMBER_AT = 2**30
# Empties the table, and lets the numbers begin at 1. SQLite's have 64 bits.
_RENUMBER = {
    "postgresql": "TRUNCATE host_changes RESTART IDENTITY",
    "mysql": "TRUNCATE TABLE host_changes",
    "mariadb": "TRUNCATE TABLE host_changes",
}


# The database's clock is one expression, made once; that of tests is another for each moment.
@lru_cache(16)
def _insert(at: Any) -> Insert:
    table: Any = HostChange.__table__
    return insert(table).values(at=at)


_INSERT = _insert(EpochNow())


def append(session: Session, node_ids: Iterable[int], now: Any = None) -> None:
    """Announce that what a host table shows of these compute nodes (their ids) has changed; it is written when the
    transaction commits. `now`: default, the database's.
    """
    assert isinstance(session, WriteSession)
    session.flush()
    session.changed_nodes.update(node_ids)
    session.changed_at = now


@event.listens_for(WriteSession, "before_commit")
def _write(session: WriteSession) -> None:
    """Write the announcements of a transaction together."""
    if session.in_nested_transaction() or not session.changed_nodes:
        return  # a savepoint is released: the transaction itself goes on
    session.flush()
    rows = [{"node_id": node_id} for node_id in sorted(session.changed_nodes)]
    session.changed_nodes = set()
    statement = _INSERT if session.changed_at is None else _insert(wall_of(session.changed_at))
    session.connection().execute(statement, rows if len(rows) > 1 else rows[0])


def append_providers(session: Session, provider_uuids: Iterable[str], now: Any = None) -> None:
    """As `append`, by resource provider; one that is no compute node is left out."""
    wanted = sorted(set(provider_uuids))
    if wanted:
        session.flush()
        # Of one below a node's own: the node's. One that has just been deleted is known by its uuid alone.
        roots = (
            select(_Root.uuid)
            .join(ResourceProvider, ResourceProvider.root_provider_id == _Root.id)
            .where(ResourceProvider.uuid.in_(wanted))
        )
        uuids = {*wanted, *session.scalars(roots)}
        append(session, session.scalars(select(ComputeNode.id).where(ComputeNode.uuid.in_(uuids))), now)


def trim(session: Session, before: Any, limit: int) -> int:
    """Remove up to `limit` of the oldest rows, those older than `before` (the database's wall clock); answers how many.

    Oldest by number: a row whose clock ran ahead goes with older ones behind it. The newest row stays: SQLite would give
    its number again, and a reader would take the next change for an old one.
    """
    oldest = select(HostChange.seq, HostChange.at).order_by(HostChange.seq).limit(limit).subquery()
    newest = select(func.max(HostChange.seq)).scalar_subquery()
    last = session.scalar(select(func.max(oldest.c.seq)).where(oldest.c.at < before, oldest.c.seq < newest))
    if last is None:
        return 0
    result: Any = session.connection().execute(delete(HostChange).where(HostChange.seq <= last))
    return int(result.rowcount)


def renumber(session: Session, at: int = RENUMBER_AT) -> bool:
    """Begin with number 1 again if the newest is `at` or higher; answers whether it was. Each reader then misses the last row
    that it has read, and reads every host.
    """
    statement = _RENUMBER.get(session.connection().dialect.name)
    if statement is None or (session.scalar(select(func.max(HostChange.seq))) or 0) < at:
        return False
    session.connection().execute(text(statement))
    return True
