"""The feed `host_changes`, from which host tables refresh."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from minova.db.engine import EpochNow
from minova.db.models import ComputeNode, HostChange

# A change of all nodes: aggregates, or services with many nodes.
EVERY_NODE = 0


def append(session: Session, node_ids: Iterable[int], now: Any = None) -> None:
    """Say that what a host table shows of these compute nodes (their ids) has changed. `now`: default, the database's."""
    rows = [{"node_id": node_id} for node_id in sorted(set(node_ids))]
    if rows:
        session.flush()  # the change itself must not come after its announcement
        at = EpochNow() if now is None else now
        session.connection().execute(insert(HostChange).values(at=at), rows)


def append_providers(session: Session, provider_uuids: Iterable[str], now: Any = None) -> None:
    """As `append`, by resource provider; one that is no compute node is left out."""
    wanted = sorted(set(provider_uuids))
    if wanted:
        session.flush()
        append(session, session.scalars(select(ComputeNode.id).where(ComputeNode.uuid.in_(wanted))), now)


def trim(session: Session, before: Any) -> int:
    """Remove what is older than `before` (database clock); answers how many.

    The newest row stays: SQLite would give its number again, and a reader would take the next change for an old one.
    """
    newest = session.scalar(select(func.max(HostChange.seq)))
    if newest is None:
        return 0
    statement = delete(HostChange).where(HostChange.at < before, HostChange.seq < newest)
    result: Any = session.connection().execute(statement)
    return int(result.rowcount)
