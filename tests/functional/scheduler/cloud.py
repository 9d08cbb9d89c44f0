"""A cloud on paper for scheduler tests: nodes, services and inventories in a database, written as a conductor would."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

import msgspec
from oslo_config import cfg
from sqlalchemy import event, insert, select
from sqlalchemy.orm import Session

from minova import conf as configuration
from minova.context import RequestContext
from minova.db import models
from minova.db.engine import Database
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import Inventory
from minova.objects.requests.request_spec import RequestSpec
from minova.placement import changes
from minova.placement.nodes import inventories
from minova.placement.providers import of_node
from minova.scheduler.hosts.record import AggregateFacts, HostRecord, InventoryFacts
from minova.scheduler.hosts.table import HostTable
from tests.tables import create_all

NAMES = UUID("00000000-0000-4000-8000-000000000000")
SEEN = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)
CTX = RequestContext(request_id="req-test", project_id="p", user_id="u")


def named(name: str) -> str:
    """The same uuid for the same name."""
    return str(uuid5(NAMES, name))


def conf_of(**values: Any) -> cfg.ConfigOpts:
    """Defaults, but for `group__option=value` (or `option=value`)."""
    conf = configuration.new()
    conf([], project="minova", default_config_files=[])
    for name, value in values.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group=group or None)
    return conf


def flavor(memory_mb: int = 2048, vcpus: int = 1, root_gb: int = 10, **more: Any) -> Flavor:
    return Flavor(flavorid="f", name="f", vcpus=vcpus, memory_mb=memory_mb, root_gb=root_gb, **more)


def spec_of(wanted: Flavor | None = None, **more: Any) -> RequestSpec:
    return RequestSpec(flavor=wanted or flavor(), project_id="p", user_id="u", **more)


def uuids(count: int, prefix: str = "instance") -> tuple[str, ...]:
    return tuple(named(f"{prefix}-{number}") for number in range(count))


def add_host(
    session: Session,
    host: str,
    *,
    name: str | None = None,
    now: float = 1000.0,
    service: bool = True,
    announce: bool = True,
    **node: Any,
) -> int:
    """A host with one node, of its name or of this one; 16 vcpus x 4, 32 GB memory, 500 GB disk unless said otherwise."""
    if service:
        row = models.Service(
            uuid=named(f"service {host}"),
            host=host,
            binary="minova-compute",
            topic="compute",
            created_at=SEEN,
        )
        session.add(row)
        session.flush()
        session.add(models.Heartbeat(service_id=row.id, last_seen=now))
    values = {"vcpus": 16, "memory_mb": 32768, "local_gb": 500, **node}
    values.setdefault("free_disk_gb", values["local_gb"] - values.get("local_gb_used", 0))
    name = name or host
    compute_node = models.ComputeNode(
        uuid=named(f"node {name}"),
        host=host,
        hypervisor_hostname=name,
        hypervisor_type="QEMU",
        hypervisor_version=7002000,
        supported_instances=[["x86_64", "qemu", "hvm"], ["i686", "qemu", "hvm"]],
        created_at=SEEN,
        **values,
    )
    session.add(compute_node)
    session.flush()
    of_node.ensure(session, compute_node.uuid, name)
    inventories.set_inventories(session, compute_node.uuid, inventories_of(compute_node))
    if announce:
        changes.append(session, [compute_node.id], now)
    return compute_node.id


def put_host(db: Database, host: str, **more: Any) -> int:
    """`add_host` in a transaction of its own."""
    return db.run(lambda session: add_host(session, host, **more))


def inventories_of(node: models.ComputeNode) -> list[Inventory]:
    return [
        Inventory(
            resource_class="VCPU", total=node.vcpus, max_unit=node.vcpus, allocation_ratio=node.cpu_allocation_ratio
        ),
        Inventory(
            resource_class="MEMORY_MB",
            total=node.memory_mb,
            max_unit=node.memory_mb,
            allocation_ratio=node.ram_allocation_ratio,
        ),
        Inventory(
            resource_class="DISK_GB",
            total=node.local_gb,
            max_unit=node.local_gb,
            allocation_ratio=node.disk_allocation_ratio,
        ),
    ]


def add_instance(
    session: Session, uuid: str, host: str | None = None, node: str | None = None, reservation_id: str = "r-1"
) -> None:
    session.add(
        models.Instance(
            uuid=uuid,
            display_name="i",
            hostname="i",
            project_id="p",
            user_id="u",
            flavor=flavor(),
            image_ref=named("image"),
            vm_state="building",
            host=host,
            node=node,
            reservation_id=reservation_id,
            created_at=SEEN,
        )
    )
    session.flush()


@contextmanager
def count_rows(db: Database) -> Iterator["Rows"]:
    """How many rows the queries inside bring."""
    rows = Rows()
    event.listen(db.engine, "after_cursor_execute", rows.note)
    try:
        yield rows
    finally:
        event.remove(db.engine, "after_cursor_execute", rows.note)


class Rows:
    """SQLite does not tell how many rows a query has: it is asked again, under a count."""

    def __init__(self) -> None:
        self.fetched = 0

    def note(self, connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            again = cursor.connection.execute(f"SELECT count(*) FROM ({statement})", parameters)
            self.fetched += again.fetchone()[0]


def read_anew(table: HostTable, before: Sequence[HostRecord]) -> list[str]:
    """The hosts whose records were read since `before`, the table's records at an earlier time."""
    return [record.host for record, old in zip(table.records, before, strict=True) if record is not old]


def fresh(url: str) -> Database:
    create_all(url)
    return Database(url)


def fill(db: Database, records: Mapping[int, HostRecord], now: float) -> None:
    """A cloud on paper, written in bulk."""
    db.run(lambda session: _fill(session, list(records.values()), now))


def _fill(session: Session, records: list[HostRecord], now: float) -> None:
    def write(model: Any, rows: Iterable[Mapping[str, Any]]) -> None:
        row_list = list(rows)
        if row_list:
            session.execute(insert(model), row_list)

    write(models.Service, (_service(record) for record in records))
    write(models.Heartbeat, ({"service_id": record.service_id, "last_seen": now} for record in records))
    write(models.ComputeNode, (_node(record) for record in records))
    write(models.ResourceProvider, (_provider(record) for record in records))
    write(
        models.Inventory,
        (
            _inventory(record.id, name, inventory)
            for record in records
            for name, inventory in record.inventories.items()
        ),
    )
    aggregate_by_id = {aggregate.id: aggregate for record in records for aggregate in record.aggregates}
    write(models.Aggregate, (_aggregate(aggregate) for _, aggregate in sorted(aggregate_by_id.items())))
    write(
        models.AggregateHost,
        ({"aggregate_id": aggregate.id, "host": record.host} for record in records for aggregate in record.aggregates),
    )
    write(models.Instance, (_instance(uuid, record) for record in records for uuid in record.instances))


def _service(record: HostRecord) -> dict[str, Any]:
    return {
        "id": record.service_id,
        "uuid": named(f"service {record.host}"),
        "host": record.host,
        "binary": "minova-compute",
        "topic": "compute",
        "created_at": SEEN,
    }


def _node(record: HostRecord) -> dict[str, Any]:
    same = ("id", "uuid", "host", "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used")
    support = record.image_support
    return {
        **{name: getattr(record, name) for name in (*same, "host_ip", "stats")},
        "hypervisor_hostname": record.node,
        "free_ram_mb": record.memory_mb - record.memory_mb_used,
        "free_disk_gb": record.free_disk_mb // 1024,
        "hypervisor_type": support.hypervisor_type,
        "hypervisor_version": support.hypervisor_version,
        "supported_instances": [list(supported_instance) for supported_instance in support.supported_instances],
        "numa_topology": msgspec.to_builtins(record.numa_topology, order="deterministic"),
        "created_at": SEEN,
    }


def _provider(record: HostRecord) -> dict[str, Any]:
    return {"id": record.id, "uuid": record.uuid, "name": record.node, "root_provider_id": record.id}


def _inventory(provider_id: int, name: str, inventory: InventoryFacts) -> dict[str, Any]:
    return {
        "provider_id": provider_id,
        "resource_class": name,
        "total": inventory.max_unit,
        "max_unit": inventory.max_unit,
        "allocation_ratio": inventory.capacity / inventory.max_unit,
        "capacity": inventory.capacity,
        "used": inventory.used,
    }


def _aggregate(facts: AggregateFacts) -> dict[str, Any]:
    return {
        "id": facts.id,
        "uuid": facts.uuid,
        "name": facts.name,
        "metadata_": dict(facts.metadata),
        "created_at": SEEN,
    }


def _instance(uuid: str, record: HostRecord) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "display_name": "i",
        "hostname": "i",
        "project_id": "p",
        "user_id": "u",
        "flavor": flavor(),
        "image_ref": named("image"),
        "vm_state": "active",
        "host": record.host,
        "node": record.node,
        "reservation_id": "r-1",
        "created_at": SEEN,
    }


def inventory_rows(db: Database) -> list[tuple[str, str, int, int, int]]:
    """(provider, class, capacity, used, sum of allocations) of every inventory."""
    with db.read() as session:
        held: dict[tuple[int, str], int] = {}
        for row in session.scalars(select(models.Allocation)):
            held[row.provider_id, row.resource_class] = held.get((row.provider_id, row.resource_class), 0) + row.used
        rows = session.execute(
            select(models.ResourceProvider.name, models.Inventory).join(
                models.Inventory, models.Inventory.provider_id == models.ResourceProvider.id
            )
        )
        return [
            (name, i.resource_class, i.capacity, i.used, held.get((i.provider_id, i.resource_class), 0))
            for name, i in rows
        ]


def unbalanced(rows: Iterable[tuple[str, str, int, int, int]]) -> list[tuple[str, str, int, int, int]]:
    """Inventories over their capacity, or whose `used` is not the sum of their allocations."""
    return [row for row in rows if row[3] != row[4] or row[3] > row[2]]


def shuffled(values: Iterable[Any], seed: int) -> list[Any]:
    mixed = list(values)
    random.Random(seed).shuffle(mixed)
    return mixed
