"""Reads what the database knows of the whole cloud, as values."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db.api_queries import services
from minova.db.engine import Database
from minova.db.models import ComputeNode, Heartbeat, Instance, Inventory, ResourceProvider, Task
from minova.objects.servers.states import power_state_of


class ServiceReading(NamedTuple):
    """`state`: up, down or in_doubt. `age`: seconds since its last report; None if it never reported."""

    host: str
    binary: str
    state: str
    disabled: bool
    age: float | None


class InventoryReading(NamedTuple):
    """`host` is empty for a provider that is no node."""

    host: str
    provider: str
    resource_class: str
    total: int
    reserved: int
    capacity: int
    allocated: int


class NodeReading(NamedTuple):
    """Memory in MB, disks in GB. `disk_available_least` None: the driver does not report it."""

    host: str
    node: str
    vcpus_used: int
    memory_mb_used: int
    local_gb_used: int
    disk_available_least: int | None


class TaskReading(NamedTuple):
    """Tasks of one kind that are at one step. `age`: seconds since the oldest was requested. `overdue`: whose deadline is past."""

    kind: str
    step: str
    number: int
    age: float
    overdue: int


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`guests`: numbers by host and power state; `servers`: numbers by state."""

    services: tuple[ServiceReading, ...]
    inventories: tuple[InventoryReading, ...]
    nodes: tuple[NodeReading, ...]
    tasks: tuple[TaskReading, ...]
    guests: Mapping[tuple[str, str], int]
    servers: Mapping[str, int]


def read(session: Session, db: Database, down_time: float) -> Reading:
    return Reading(
        services=service_readings(session, db, down_time),
        inventories=_inventories(session),
        nodes=tuple(map(NodeReading._make, session.execute(select(*(getattr(ComputeNode, n) for n in _NODE))))),
        tasks=_tasks(session, db),
        guests=_guests(session),
        servers={row[0]: row[1] for row in session.execute(_SERVERS)},
    )


def service_readings(session: Session, db: Database, down_time: float) -> tuple[ServiceReading, ...]:
    all_services = services.services(session, down_time, db)
    ages = {row[0]: row[1] for row in session.execute(select(Heartbeat.service_id, db.now() - Heartbeat.last_seen))}

    def state(row: services.ServiceRow) -> str:
        if row.id in all_services.in_doubt:
            return "in_doubt"
        return "up" if all_services.is_up(row) else "down"

    return tuple(
        ServiceReading(row.host, row.binary, state(row), row.disabled, _at_least_zero(ages.get(row.id)))
        for row in all_services.rows
    )


def _at_least_zero(age: float | None) -> float | None:
    return None if age is None else max(0.0, float(age))


_NODE = ("host", "hypervisor_hostname", "vcpus_used", "memory_mb_used", "local_gb_used", "disk_available_least")
_LIVING = Instance.deleted_at.is_(None)
_SERVERS = select(Instance.vm_state, func.count()).where(_LIVING).group_by(Instance.vm_state)
_GUESTS = (
    select(Instance.host, Instance.power_state, func.count())
    .where(_LIVING, Instance.host.is_not(None))
    .group_by(Instance.host, Instance.power_state)
)


def _guests(session: Session) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for host, number, count in session.execute(_GUESTS):
        key = (str(host), power_state_of(number).name.lower())
        counts[key] = counts.get(key, 0) + count
    return counts


def _inventories(session: Session) -> tuple[InventoryReading, ...]:
    """A device's provider is a child of the provider of its node."""
    root = func.coalesce(ResourceProvider.root_provider_id, ResourceProvider.id)
    roots = select(ResourceProvider.id, ResourceProvider.uuid).subquery()
    columns = (Inventory.resource_class, Inventory.total, Inventory.reserved, Inventory.capacity, Inventory.used)
    query = (
        select(func.coalesce(ComputeNode.host, ""), ResourceProvider.name, *columns)
        .join(ResourceProvider, ResourceProvider.id == Inventory.provider_id)
        .join(roots, roots.c.id == root)
        .outerjoin(ComputeNode, ComputeNode.uuid == roots.c.uuid)
        .order_by(ResourceProvider.id, Inventory.resource_class)
    )
    return tuple(map(InventoryReading._make, session.execute(query)))


def _tasks(session: Session, db: Database) -> tuple[TaskReading, ...]:
    age = db.now() - func.coalesce(Task.begun_at, db.now())
    # No engine has the same expression for a count under a condition.
    overdue = select(Task.kind, Task.step, func.count()).where(Task.deadline < db.now()).group_by(Task.kind, Task.step)
    late_counts = {(kind, step): count for kind, step, count in session.execute(overdue)}
    query = select(Task.kind, Task.step, func.count(), func.max(age)).group_by(Task.kind, Task.step)
    return tuple(
        TaskReading(kind, step, count, max(0.0, float(oldest)), late_counts.get((kind, step), 0))
        for kind, step, count, oldest in session.execute(query.order_by(Task.kind, Task.step))
    )


def living_hosts(session: Session, down_time: float, db: Database) -> list[str]:
    """Returns the hosts of computes that are not absent."""
    all_services = services.services(session, down_time, db)
    return sorted(
        row.host for row in all_services.rows if row.binary == "minova-compute" and not all_services.is_absent(row)
    )
