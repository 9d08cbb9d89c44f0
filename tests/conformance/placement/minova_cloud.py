"""A cloud of `random_clouds` in minova's own tables."""

from typing import Any

from sqlalchemy import delete, func, insert, select

from minova.db import models
from minova.db.engine import Database

_MODELS = (
    models.Allocation,
    models.Consumer,
    models.Inventory,
    models.ProviderTrait,
    models.ProviderAggregate,
    models.ResourceProvider,
)


def empty(db: Database) -> None:
    with db.write() as session:
        for model in _MODELS:
            session.connection().execute(delete(model))


def put_cloud(db: Database, cloud: dict[str, Any]) -> None:
    """Parents stand before their children. What is there already stays."""
    ids: dict[str | None, int] = {}
    roots: dict[int, int] = {}
    with db.write() as session:
        connection = session.connection()
        highest = connection.scalar(select(func.max(models.ResourceProvider.id))) or 0
        for number, provider in enumerate(cloud["providers"], start=highest + 1):
            uuid, parent_id = provider["uuid"], ids.get(provider["parent"])
            ids[uuid] = number
            roots[number] = number if parent_id is None else roots[parent_id]
            values = {"id": number, "uuid": uuid, "name": uuid, "generation": 0}
            values |= {"parent_provider_id": parent_id, "root_provider_id": roots[number]}
            connection.execute(insert(models.ResourceProvider).values(values))
            for name, fields in provider["inventories"].items():
                capacity = int((fields["total"] - fields["reserved"]) * fields["allocation_ratio"])
                used = _used(cloud, uuid, name)
                of = {"provider_id": number, "resource_class": name, "capacity": capacity, "used": used}
                connection.execute(insert(models.Inventory).values(of | fields))
            for trait in provider["traits"]:
                connection.execute(insert(models.ProviderTrait).values(provider_id=number, trait=trait))
            for aggregate in provider["aggregates"]:
                of = {"provider_id": number, "aggregate_uuid": aggregate}
                connection.execute(insert(models.ProviderAggregate).values(of))


def _used(cloud: dict[str, Any], uuid: str, name: str) -> int:
    held = (allocations.get(uuid, {}).get("resources", {}) for allocations in cloud["consumers"].values())
    return sum(resources.get(name, 0) for resources in held)
