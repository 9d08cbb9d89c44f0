"""Queries of allocations: of one consumer, or of one provider."""

from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Allocation, Consumer, ResourceProvider


class AllocationRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one consumer holds of one class of one provider. `updated_at`: seconds since the epoch, None if not
    recorded.
    """

    provider_uuid: str
    provider_generation: int
    consumer_uuid: str
    consumer_generation: int
    consumer_type: str
    project_id: str
    user_id: str
    resource_class: str
    used: int
    updated_at: float | None


_ROWS = (
    select(
        ResourceProvider.uuid.label("provider_uuid"),
        ResourceProvider.generation.label("provider_generation"),
        Consumer.uuid.label("consumer_uuid"),
        Consumer.generation.label("consumer_generation"),
        Consumer.consumer_type,
        Consumer.project_id,
        Consumer.user_id,
        Allocation.resource_class,
        Allocation.used,
        Allocation.updated_at,
    )
    .join(Consumer, Consumer.uuid == Allocation.consumer_uuid)
    .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
    .order_by(Allocation.provider_id, Allocation.consumer_uuid, Allocation.resource_class)
)


def of_consumer(session: Session, consumer_uuid: str) -> list[AllocationRow]:
    return _rows_where(session, Allocation.consumer_uuid == consumer_uuid)


def of_provider(session: Session, provider_id: int) -> list[AllocationRow]:
    return _rows_where(session, Allocation.provider_id == provider_id)


def _rows_where(session: Session, condition: Any) -> list[AllocationRow]:
    return [AllocationRow(**row) for row in session.execute(_ROWS.where(condition)).mappings()]
