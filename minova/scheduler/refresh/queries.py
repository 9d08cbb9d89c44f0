"""The queries that HostRecords are made from. Each exists for all hosts and for some."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sqlalchemy import Text, cast, literal, or_, select, union_all
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import Session, aliased

from minova.db import models
from minova.db.sql import in_list, json_field
from minova.objects.servers.states import RESOURCE_FREE
from minova.placement.allocations.claims import IN_CHILDREN

COMPUTE = "minova-compute"
# Below SQLite's limit of variables, and small enough to be planned quickly.
CHUNK = 500

Node, Svc, Inv = models.ComputeNode, models.Service, models.Inventory
Provider, Allocation, Instance = models.ResourceProvider, models.Allocation, models.Instance
Root = aliased(models.ResourceProvider)
Aggregate, Member, Spec = models.Aggregate, models.AggregateHost, models.RequestSpecRow
Trait, ProviderAggregate = models.ProviderTrait, models.ProviderAggregate


class Query(NamedTuple):
    """One query, for all hosts and for `some`. Built once, because building it takes longer than a short query."""

    whole: Any
    of_some: Any

    def rows(self, session: Session, some: Collection[Any] | None) -> Any:
        if some is None:
            return session.connection().execute(self.whole)
        return session.connection().execute(self.of_some, {"some": list(some)})


def _query(whole: Any, key: Any, join: Callable[[Any], Any] = lambda query: query) -> Query:
    return Query(whole, join(whole).where(in_list(key)))


def _of_nodes(whole: Any, provider_id: Any) -> Query:
    """Selects by the nodes of the providers in `provider_id`."""
    return _query(
        whole,
        Node.id,
        lambda query: query.join(Provider, Provider.id == provider_id).join(Node, Node.uuid == Provider.uuid),
    )


_TEXT = Text().with_variant(mysql.CHAR(), "mysql", "mariadb")


def _text(column: Any) -> Any:
    """JSON as stored text. It is decoded in Python, where equal texts are decoded once."""
    return cast(column, _TEXT).label(column.key)


_WITH_SERVICE = (Svc.host == Node.host) & (Svc.binary == COMPUTE)
_SERVICE = (Svc.id, Svc.disabled, Svc.disabled_reason, Svc.forced_down, Svc.down_reason, Svc.refused_report)
_JSON = ("supported_instances", "metrics", "stats", "numa_topology", "pci_device_pools")
COLUMNS = [
    _text(column) if column.name in _JSON else column
    for column in Node.__table__.columns
    if column.name not in ("created_at", "updated_at", "lock_number")
]
NODES = _query(
    select(*COLUMNS, *(column.label(f"service_{column.key}") for column in _SERVICE)).outerjoin(Svc, _WITH_SERVICE),
    Node.id,
)
SIGNATURES = select(Node.id, Node.generation, *_SERVICE).join(Svc, _WITH_SERVICE)
INVENTORIES = _query(
    select(
        Root.uuid,
        Inv.resource_class,
        Root.id,
        Inv.capacity,
        Inv.used,
        Inv.reserved,
        Inv.min_unit,
        Inv.max_unit,
        Inv.step_size,
        Inv.allocation_ratio,
    )
    .join(Provider, Provider.id == Inv.provider_id)
    .join(Root, Root.id == Provider.root_provider_id)
    .join(Node, Node.uuid == Root.uuid)
    # Providers that users create below a node over HTTP are used only by requests over HTTP.
    .where(or_(Provider.id == Root.id, Inv.resource_class.in_(sorted(IN_CHILDREN)))),
    Node.id,
)
# Allocations of instances that no host has claimed yet.
PENDING = _of_nodes(
    select(Allocation.provider_id, Allocation.resource_class, Allocation.used, Instance.uuid, Instance.reservation_id)
    .join(Instance, Instance.uuid == Allocation.consumer_uuid)
    .where(Instance.host.is_(None), Instance.deleted_at.is_(None))
    .order_by(Allocation.provider_id, Instance.uuid),
    Allocation.provider_id,
)
# The requests of these instances that need cells or devices.
WANTED = select(Spec.reservation_id, _text(Spec.spec)).where(
    in_list(Spec.reservation_id),
    or_(json_field(Spec.spec, "numa_topology").is_not(None), json_field(Spec.spec, "pci_requests", 0).is_not(None)),
)
# Instances that hold resources. For some hosts the query also returns deleted ones, which the reader drops: with a
# condition on deletion, SQLite would scan all instances that are not deleted.
_HELD = select(Instance.host, Instance.node, Instance.uuid, Instance.image_ref, Instance.deleted_at).where(
    Instance.host.is_not(None), or_(Instance.vm_state.not_in([*RESOURCE_FREE]), Instance.task_state.is_not(None))
)
INSTANCES = Query(_HELD.where(Instance.deleted_at.is_(None)), _HELD.where(in_list(Instance.host)))
IMAGES = select(models.Image.id, models.Image.value).where(in_list(models.Image.id))
AGGREGATES = _query(
    select(Member.host, Aggregate.id, Aggregate.name, Aggregate.metadata_, Aggregate.uuid)
    .join(Aggregate, Aggregate.id == Member.aggregate_id)
    .order_by(Aggregate.id),
    Member.host,
)
# Traits as (provider, trait, "") and aggregates as (provider, "", uuid), in one query.
_TRAITS = _of_nodes(select(Trait.provider_id, Trait.trait, literal("")), Trait.provider_id)
_MEMBERSHIPS = _of_nodes(
    select(ProviderAggregate.provider_id, literal(""), ProviderAggregate.aggregate_uuid),
    ProviderAggregate.provider_id,
)
LABELS = Query(union_all(_TRAITS.whole, _MEMBERSHIPS.whole), union_all(_TRAITS.of_some, _MEMBERSHIPS.of_some))
