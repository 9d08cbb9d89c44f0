"""Usages: of one provider, or of one project."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session
from sqlalchemy.sql import ColumnElement

from minova.db.models import Allocation, Consumer, Inventory

# The type of a consumer that was created without one (before microversion 1.38). Real types have no lower-case letters.
UNKNOWN_TYPE = "unknown"
ALL_TYPES = "all"


def of_provider(session: Session, provider_id: int) -> dict[str, int]:
    """Returns {resource class: used} of all inventories of the provider."""
    model = Inventory
    query = select(model.resource_class, model.used).where(model.provider_id == provider_id)
    return {row[0]: row[1] for row in session.execute(query.order_by(model.resource_class))}


def of_project(session: Session, project_id: str, user_id: str | None) -> dict[str, int]:
    """Returns {resource class: used} of the project."""
    query = (
        select(Allocation.resource_class, func.sum(Allocation.used))
        .join(Consumer, Consumer.uuid == Allocation.consumer_uuid)
        .where(*_whose(project_id, user_id))
        .group_by(Allocation.resource_class)
        .order_by(Allocation.resource_class)
    )
    return {row[0]: int(row[1]) for row in session.execute(query)}


def by_consumer_type(
    session: Session, project_id: str, user_id: str | None, consumer_type: str | None
) -> dict[str, dict[str, int]]:
    """Returns {consumer type: {resource class: used}}; the inner dicts also hold `consumer_count`. `consumer_type`
    "all": all types together.
    """
    kind = Consumer.consumer_type
    conditions = _whose(project_id, user_id)
    if consumer_type not in (None, ALL_TYPES):
        conditions.append(kind == consumer_type)
    joined = select(kind, Allocation.resource_class, func.sum(Allocation.used)).join(
        Consumer, Consumer.uuid == Allocation.consumer_uuid
    )
    usages: dict[str, dict[str, int]] = {}
    for of_type, name, used in session.execute(joined.where(*conditions).group_by(kind, Allocation.resource_class)):
        sums = usages.setdefault(ALL_TYPES if consumer_type == ALL_TYPES else of_type, {})
        sums[name] = sums.get(name, 0) + int(used)
    holding = select(Allocation.consumer_uuid).where(Allocation.consumer_uuid == Consumer.uuid).exists()
    counted = select(kind, func.count()).where(holding, *conditions).group_by(kind)
    for of_type, count in session.execute(counted):
        sums = usages[ALL_TYPES if consumer_type == ALL_TYPES else of_type]
        sums["consumer_count"] = sums.get("consumer_count", 0) + count
    return usages


def _whose(project_id: str, user_id: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [Consumer.project_id == project_id]
    if user_id is not None:
        conditions.append(Consumer.user_id == user_id)
    return conditions
