"""The rows of many hosts at once, made after those of the first one: that ten thousand register takes many minutes."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova.compute.tracker.resource_tracker import node_uuid
from minova.db import models
from minova.db.engine import Database

CHUNK = 1000


def clone(db: Database, first: str, others: Sequence[str]) -> None:
    """Service, node, provider and all that belongs to them, as an audit of each has written them."""
    db.run(lambda session: _clone(session, first, others))


def service_uuid(host: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, host))


def _clone(session: Session, first: str, others: Sequence[str]) -> None:
    service = _rows(session, models.Service, models.Service.host == first)[0]
    node = _rows(session, models.ComputeNode, models.ComputeNode.host == first)[0]
    provider = _rows(session, models.ResourceProvider, models.ResourceProvider.uuid == node["uuid"])[0]

    def write(
        model: Any, key: str, start: int, rows: Iterable[dict[str, Any]], names: Sequence[dict[str, Any]]
    ) -> None:
        pattern = list(rows)
        cloned_rows = [{**row, **names[n], key: start + 1 + n} for n in range(len(others)) for row in pattern]
        for begin in range(0, len(cloned_rows), CHUNK):
            session.execute(insert(model.__table__), cloned_rows[begin : begin + CHUNK])

    none: Sequence[dict[str, Any]] = [{}] * len(others)
    write(models.Service, "id", service["id"], [service], [{"uuid": service_uuid(h), "host": h} for h in others])
    nodes = [{"uuid": node_uuid(h, h), "host": h, "hypervisor_hostname": h} for h in others]
    write(models.ComputeNode, "id", node["id"], [node], nodes)
    own = [
        {"uuid": n["uuid"], "name": n["host"], "root_provider_id": provider["id"] + 1 + i} for i, n in enumerate(nodes)
    ]
    write(models.ResourceProvider, "id", provider["id"], [provider], own)
    for model, key, pattern_row in (
        (models.Heartbeat, "service_id", service),
        (models.NodeAudit, "node_id", node),
        (models.Inventory, "provider_id", provider),
        (models.ProviderTrait, "provider_id", provider),
    ):
        rows = _rows(session, model, getattr(model, key) == pattern_row["id"])
        write(model, key, pattern_row["id"], rows, none)


def _rows(session: Session, model: Any, condition: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in session.execute(select(model.__table__).where(condition)).mappings()]
