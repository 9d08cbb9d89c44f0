"""The change feed `host_changes`, from which host tables refresh.

A transaction takes its numbers of the feed as its last step before the commit. So a transaction that is rolled back
earlier uses up no number, and a number becomes visible very soon after it was taken: readers rarely find gaps that they
must check again. The times are of the database's wall clock. If that clock steps, readers read every host once, or the
feed is kept a while longer.
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

# Stands for all nodes, for changes of aggregates or of services with many nodes.
EVERY_NODE = 0
# The column `seq` holds numbers up to 2**31 - 1 on PostgreSQL and MariaDB. A busy cloud uses a hundred a second, and
# three times as many on three Galera nodes.
RENUMBER_AT = 2**30
# Empties the table and restarts the numbers at 1. SQLite's numbers have 64 bits.
_RENUMBER = {
    "postgresql": "TRUNCATE host_changes RESTART IDENTITY",
    "mysql": "TRUNCATE TABLE host_changes",
    "mariadb": "TRUNCATE TABLE host_changes",
}


# The database's clock is one expression, made once. Tests use a new expression for each moment.
@lru_cache(16)
def _insert(at: Any) -> Insert:
    table: Any = HostChange.__table__
    return insert(table).values(at=at)


_INSERT = _insert(EpochNow())


def append(session: Session, node_ids: Iterable[int], now: Any = None) -> None:
    """Announces that what a host table shows of these compute nodes has changed. The announcement is written when the
    transaction commits.

    `node_ids`: their ids. `now`: default, the database's clock.
    """
    assert isinstance(session, WriteSession)
    session.flush()
    session.changed_nodes.update(node_ids)
    session.changed_at = now


@event.listens_for(WriteSession, "before_commit")
def _write(session: WriteSession) -> None:
    """Writes all announcements of a transaction together."""
    if session.in_nested_transaction() or not session.changed_nodes:
        return  # only a savepoint is released: the transaction continues
    session.flush()
    rows = [{"node_id": node_id} for node_id in sorted(session.changed_nodes)]
    session.changed_nodes = set()
    statement = _INSERT if session.changed_at is None else _insert(wall_of(session.changed_at))
    session.connection().execute(statement, rows if len(rows) > 1 else rows[0])


def append_providers(session: Session, provider_uuids: Iterable[str], now: Any = None) -> None:
    """As `append`, by resource provider. Providers that are not of compute nodes are left out."""
    sorted_uuids = sorted(set(provider_uuids))
    if sorted_uuids:
        session.flush()
        # A child provider counts as its root. A provider that has just been deleted is known by its uuid only.
        roots = (
            select(_Root.uuid)
            .join(ResourceProvider, ResourceProvider.root_provider_id == _Root.id)
            .where(ResourceProvider.uuid.in_(sorted_uuids))
        )
        uuids = {*sorted_uuids, *session.scalars(roots)}
        append(session, session.scalars(select(ComputeNode.id).where(ComputeNode.uuid.in_(uuids))), now)


def trim(session: Session, before: Any, limit: int) -> int:
    """Removes up to `limit` rows, the lowest numbers first, that are older than `before` (the database's wall clock).
    Returns how many.

    A row whose clock ran ahead is removed together with older rows that have higher numbers. The newest row stays:
    otherwise SQLite would use its number again, and a reader would take the next change for an old one.
    """
    oldest = select(HostChange.seq, HostChange.at).order_by(HostChange.seq).limit(limit).subquery()
    newest = select(func.max(HostChange.seq)).scalar_subquery()
    last = session.scalar(select(func.max(oldest.c.seq)).where(oldest.c.at < before, oldest.c.seq < newest))
    if last is None:
        return 0
    result: Any = session.connection().execute(delete(HostChange).where(HostChange.seq <= last))
    return int(result.rowcount)


def renumber(session: Session, at: int = RENUMBER_AT) -> bool:
    """Restarts the numbers at 1 if the newest number is `at` or higher. Returns whether it did. Each reader then misses
    the last row that it has read, and reads every host.
    """
    statement = _RENUMBER.get(session.connection().dialect.name)
    if statement is None or (session.scalar(select(func.max(HostChange.seq))) or 0) < at:
        return False
    session.connection().execute(text(statement))
    return True
