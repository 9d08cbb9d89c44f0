"""The last audit of each node. The conductor writes many at a time; the API reads them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import ComputeNode, NodeAudit
from minova.db.sql import chunked
from minova.objects.hosts.node_audit import NodeAudit as NodeAuditObject

_AGAIN = (
    update(NodeAudit)
    .where(NodeAudit.node_id == bindparam("of_node"))
    .values(audited_at=bindparam("at"), found=bindparam("what"))
)
_FIRST = insert(NodeAudit).values(node_id=bindparam("of_node"), audited_at=bindparam("at"), found=bindparam("what"))


def write(session: Session, ended: Mapping[int, tuple[datetime, NodeAuditObject]]) -> None:
    """Writes {node id: (when, result)}. Skips nodes that have been deleted meanwhile.

    Raises IntegrityError if another conductor has just written the first audit of a node, or is deleting the node; then
    call it again.
    """
    for chunk in chunked(sorted(ended)):
        audited_ids = set(session.scalars(select(NodeAudit.node_id).where(NodeAudit.node_id.in_(chunk))))
        existing = set(session.scalars(select(ComputeNode.id).where(ComputeNode.id.in_(chunk))))
        _write(session, ended, _AGAIN, audited_ids)
        _write(session, ended, _FIRST, existing - audited_ids)


def _write(
    session: Session, ended: Mapping[int, tuple[datetime, NodeAuditObject]], statement: Any, ids: Collection[int]
) -> None:
    rows = [{"of_node": node_id, "at": ended[node_id][0], "what": ended[node_id][1]} for node_id in sorted(ids)]
    if rows:
        session.connection().execute(statement, rows)


def of_nodes(session: Session, node_ids: Collection[int]) -> dict[int, NodeAudit]:
    """Returns the audits by node id. Nodes without an audit are left out."""
    audits: dict[int, NodeAudit] = {}
    for chunk in chunked(sorted(node_ids)):
        rows = session.scalars(select(NodeAudit).where(NodeAudit.node_id.in_(chunk)))
        audits.update({row.node_id: row for row in rows})
    return audits
