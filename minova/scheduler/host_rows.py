"""Reads HostRecords: a handful of queries, however many hosts."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.objects.states import RESOURCE_FREE
from minova.scheduler.host_record import AggregateFacts, HostRecord, RoomFacts, ServiceFacts, host_record

LOG = logging.getLogger(__name__)

COMPUTE = "minova-compute"
# Fewer than SQLite's limit of variables, and short enough to be planned quickly.
CHUNK = 500

Node, Svc, Inv = models.ComputeNode, models.Service, models.Inventory
Provider, Allocation, Instance = models.ResourceProvider, models.Allocation, models.Instance
Aggregate, Member = models.Aggregate, models.AggregateHost


class Query(NamedTuple):
    """One query, for all hosts and for `some`. Made once, because making it costs more than a short answer."""

    whole: Any
    of_some: Any

    def rows(self, session: Session, some: Collection[Any] | None) -> Any:
        if some is None:
            return session.connection().execute(self.whole)
        return session.connection().execute(self.of_some, {"some": list(some)})


def _query(whole: Any, key: Any, join: Callable[[Any], Any] = lambda query: query) -> Query:
    return Query(whole, join(whole).where(key.in_(bindparam("some", expanding=True))))


_WITH_SERVICE = (Svc.host == Node.host) & (Svc.binary == COMPUTE)
_SERVICE = (Svc.id, Svc.disabled, Svc.disabled_reason, Svc.forced_down, Svc.down_reason)
_COLUMNS = [c for c in Node.__table__.columns if c.name not in ("created_at", "updated_at", "cpu_info")]
_NODES = _query(
    select(*_COLUMNS, *(column.label(f"service_{column.key}") for column in _SERVICE)).outerjoin(Svc, _WITH_SERVICE),
    Node.id,
)
_SIGNATURES = select(Node.id, Node.generation, *_SERVICE).join(Svc, _WITH_SERVICE)
_ROOMS = _query(
    select(
        Provider.uuid,
        Inv.resource_class,
        Inv.provider_id,
        Inv.capacity,
        Inv.used,
        Inv.reserved,
        Inv.min_unit,
        Inv.max_unit,
        Inv.step_size,
    )
    .join(Provider, Provider.id == Inv.provider_id)
    .join(Node, Node.uuid == Provider.uuid),
    Node.id,
)
# What instances that no host has claimed yet hold.
_PENDING = _query(
    select(Node.id, Instance.uuid, Allocation.provider_id, Allocation.resource_class, Allocation.used)
    .select_from(Allocation)
    .join(Instance, Instance.uuid == Allocation.consumer_uuid)
    .join(Provider, Provider.id == Allocation.provider_id)
    .join(Node, Node.uuid == Provider.uuid)
    .where(Instance.host.is_(None), Instance.deleted_at.is_(None)),
    Node.id,
)
# Those that hold resources.
_INSTANCES = _query(
    select(Instance.host, Instance.node, Instance.uuid)
    .where(Instance.host.is_not(None), Instance.deleted_at.is_(None), Instance.vm_state.not_in([*RESOURCE_FREE]))
    .order_by(Instance.uuid),
    Instance.host,
)
_AGGREGATES = _query(
    select(Member.host, Aggregate.id, Aggregate.name, Aggregate.metadata_)
    .join(Aggregate, Aggregate.id == Member.aggregate_id)
    .order_by(Aggregate.id),
    Member.host,
)


class Signature(NamedTuple):
    """What tells in one short row whether a host is as it was read last."""

    generation: int
    service_id: int
    service: ServiceFacts


def read_hosts(session: Session, node_ids: Collection[int] | None) -> dict[int, HostRecord | None]:
    """Records of these nodes, or of all; None for one that is gone or whose service is not known."""
    if node_ids is None:
        return _read(session, None)
    wanted = sorted(node_ids)
    found: dict[int, HostRecord | None] = dict.fromkeys(wanted)
    for start in range(0, len(wanted), CHUNK):
        found.update(_read(session, wanted[start : start + CHUNK]))
    return found


def read_signatures(session: Session) -> dict[int, Signature]:
    """Of all nodes with a service."""
    return {row[0]: Signature(row[1], row[2], _service(row[3:])) for row in session.execute(_SIGNATURES)}


def signature(record: HostRecord) -> Signature:
    return Signature(record.generation, record.service_id, record.service)


def _service(values: Any) -> ServiceFacts:
    disabled, reason, forced_down, down_reason = values
    return ServiceFacts(disabled=disabled, disabled_reason=reason, forced_down=forced_down, down_reason=down_reason)


def _read(session: Session, node_ids: list[int] | None) -> dict[int, HostRecord | None]:
    nodes = _NODES.rows(session, node_ids).all()
    hosts = None if node_ids is None else sorted({row.host for row in nodes})
    pending = _pending(session, node_ids)
    rooms = _rooms(session, node_ids, pending.used)
    instances = _instances(session, hosts)
    aggregates = _aggregates(session, hosts)
    found: dict[int, HostRecord | None] = {}
    for row in nodes:
        if row.service_id is None:
            LOG.warning("No compute service known for host %s: node %s is left out", row.host, row.hypervisor_hostname)
            continue
        here = [*instances.get((row.host, row.hypervisor_hostname), ()), *sorted(pending.instances.get(row.id, ()))]
        found[row.id] = host_record(
            dict(row._mapping),
            rooms.get(row.uuid, {}),
            service_id=row.service_id,
            service=_service(row[len(_COLUMNS) + 1 :]),
            instances=tuple(here),
            num_instances=len(here),
            aggregates=tuple(aggregates.get(row.host, ())),
        )
    return found


class Pending(NamedTuple):
    """Instances whose host has not claimed them yet, by node id; what they hold, by (provider id, resource class)."""

    instances: dict[int, set[str]]
    used: Counter[tuple[int, str]]


def _pending(session: Session, node_ids: list[int] | None) -> Pending:
    found = Pending(defaultdict(set), Counter())
    for node_id, uuid, provider_id, resource_class, used in _PENDING.rows(session, node_ids):
        found.instances[node_id].add(uuid)
        found.used[provider_id, resource_class] += used
    return found


def _rooms(
    session: Session, node_ids: list[int] | None, pending: Mapping[tuple[int, str], int]
) -> dict[str, dict[str, RoomFacts]]:
    """By node uuid and resource class."""
    rooms: dict[str, dict[str, RoomFacts]] = defaultdict(dict)
    for uuid, name, provider_id, capacity, used, reserved, min_unit, max_unit, step in _ROOMS.rows(session, node_ids):
        rooms[uuid][name] = RoomFacts(
            capacity=capacity,
            used=used,
            reserved=reserved,
            pending=pending.get((provider_id, name), 0),
            min_unit=min_unit,
            max_unit=max_unit,
            step_size=step,
        )
    return rooms


def _instances(session: Session, hosts: list[str] | None) -> dict[tuple[str, str], list[str]]:
    """Uuids by host and node."""
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, node, uuid in _INSTANCES.rows(session, hosts):
        grouped[host, node].append(uuid)
    return grouped


def _aggregates(session: Session, hosts: list[str] | None) -> dict[str, list[AggregateFacts]]:
    known: dict[int, AggregateFacts] = {}
    found: dict[str, list[AggregateFacts]] = defaultdict(list)
    for host, aggregate_id, name, metadata in _AGGREGATES.rows(session, hosts):
        if aggregate_id not in known:
            pairs = tuple(sorted((key, str(value)) for key, value in metadata.items()))
            known[aggregate_id] = AggregateFacts(aggregate_id, name, pairs)
        found[host].append(known[aggregate_id])
    return found
