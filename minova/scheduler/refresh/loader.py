"""Reads HostRecords, with a few queries for any number of hosts."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest, Pairs
from minova.scheduler.hosts.consumption import after_instance
from minova.scheduler.hosts.interning import Interner
from minova.scheduler.hosts.record import (
    AggregateFacts,
    HostRecord,
    InventoryFacts,
    ServiceFacts,
    host_record,
    merge_inventories,
)
from minova.scheduler.refresh import queries
from minova.scheduler.refresh.decode import NodeValues

LOG = logging.getLogger(__name__)


class Signature(NamedTuple):
    """One short row that shows whether a host has changed since it was read last."""

    generation: int
    service_id: int
    service: ServiceFacts


class HardwareRequest(msgspec.Struct, frozen=True):
    """The cells and devices that a stored request needs."""

    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()


_WANTED = Decoder(HardwareRequest)


class PendingInstance(NamedTuple):
    """An instance that holds allocations but that the node does not report yet."""

    uuid: str
    reservation_id: str


def read_hosts(
    session: Session, node_ids: Collection[int] | None, interner: Interner | None = None
) -> dict[int, HostRecord | None]:
    """Returns the records of these nodes, or of all; None for a node that is gone or whose service is unknown.

    `interner`: equal values of several calls become one object.
    """
    reader = Reader(session, interner or Interner())
    if node_ids is None:
        return reader.read(None)
    ids = sorted(node_ids)
    records: dict[int, HostRecord | None] = dict.fromkeys(ids)
    for start in range(0, len(ids), queries.CHUNK):
        records.update(reader.read(ids[start : start + queries.CHUNK]))
    return records


def read_signatures(session: Session) -> dict[int, Signature]:
    """Returns the signatures of all nodes with a service."""
    return {row[0]: Signature(row[1], row[2], _service(row[3:])) for row in session.execute(queries.SIGNATURES)}


def signature(record: HostRecord) -> Signature:
    return Signature(record.generation, record.service_id, record.service)


def _service(values: Any) -> ServiceFacts:
    disabled, reason, forced_down, down_reason, refused = values
    return ServiceFacts(
        disabled=disabled,
        disabled_reason=reason,
        forced_down=forced_down,
        down_reason=down_reason,
        refused_report=refused,
    )


class Reader:
    """State shared by the queries of one read of hosts."""

    def __init__(self, session: Session, interner: Interner) -> None:
        self._session = session
        self._interner = interner
        self._values = NodeValues(interner)
        self._images: dict[str, Pairs] = {}

    def read(self, node_ids: list[int] | None) -> dict[int, HostRecord | None]:
        nodes = queries.NODES.rows(self._session, node_ids).all()
        hosts = None if node_ids is None else sorted({row.host for row in nodes})
        gathered = self._gather(node_ids, hosts)
        records: dict[int, HostRecord | None] = {}
        for row in nodes:
            name = row.hypervisor_hostname
            if row.service_id is None:
                LOG.warning("No compute service known for host %s: node %s is left out", row.host, name)
                continue
            try:
                records[row.id] = self._record(row, gathered)
            except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
                LOG.error(
                    "Node %s of host %s offers nothing, because its report makes no sense: %s", name, row.host, error
                )
                records[row.id] = self._without_figures(row, gathered, str(error))
        return records

    def _without_figures(self, row: Any, gathered: "QueryResults", why: str) -> HostRecord:
        """A host that takes nothing, and whose refusal says why. Requests for its neighbours still find its instances."""
        service = msgspec.structs.replace(_service(row[len(queries.COLUMNS) + 1 :]), refused_report=why)
        return HostRecord(
            id=row.id,
            uuid=row.uuid,
            generation=row.generation,
            host=row.host,
            node=row.hypervisor_hostname,
            service_id=row.service_id,
            service=self._interner.intern(service),
            instances=tuple(uuid for uuid, _ in gathered.instances.get((row.host, row.hypervisor_hostname), ())),
            aggregates=gathered.aggregates.get(row.host, ()),
            memory_mb=0,
            memory_mb_used=0,
            vcpus=0,
            vcpus_used=0,
            local_gb=0,
            local_gb_used=0,
            free_disk_mb=0,
        )

    def _gather(self, node_ids: list[int] | None, hosts: list[str] | None) -> "QueryResults":
        session, interner = self._session, self._interner
        pending: dict[int, dict[PendingInstance, None]] = defaultdict(dict)
        amounts: dict[tuple[int, str], int] = defaultdict(int)
        for provider_id, name, used, uuid, reservation_id in queries.PENDING.rows(session, node_ids):
            pending[provider_id][PendingInstance(uuid, reservation_id)] = None
            amounts[provider_id, name] += used
        inventories, provider_ids = self._inventories(node_ids, amounts)
        labels = queries.LABELS.rows(session, node_ids).all()
        return QueryResults(
            inventories=inventories,
            provider_ids=provider_ids,
            pending={key: tuple(ones) for key, ones in pending.items()},
            hardware_requests=self._hardware_requests(
                {instance.reservation_id for ones in pending.values() for instance in ones}
            ),
            instances=self._instances(hosts),
            aggregates={host: interner.intern(tuple(facts)) for host, facts in self._aggregates(hosts).items()},
            traits=self._sets((provider_id, trait) for provider_id, trait, _ in labels if trait),
            memberships=self._sets((provider_id, uuid) for provider_id, _, uuid in labels if uuid),
        )

    def _record(self, row: Any, gathered: "QueryResults") -> HostRecord:
        node, values, interner = row._mapping, self._values, self._interner
        provider_id = gathered.provider_ids.get(row.uuid, 0)
        pending = gathered.pending.get(provider_id, ())
        on_node = gathered.instances.get((row.host, row.hypervisor_hostname), ())
        images = tuple(self._images.get(image_ref, ()) for _, image_ref in on_node) + ((),) * len(pending)
        values.host_ip(row.host_ip)
        if row.hypervisor_version < 0:
            raise ValueError(f"hypervisor_version is {row.hypervisor_version}")
        topology, pools = values.numa_topology(row.numa_topology), values.pci_pools(row.pci_device_pools)
        for pending_instance in pending:
            request = gathered.hardware_requests.get(pending_instance.reservation_id)
            if request is not None:
                topology, pools = after_instance(topology, pools, request.numa_topology, request.pci_requests)
        return host_record(
            node,
            gathered.inventories.get(row.uuid, {}),
            len(pending),
            service_id=row.service_id,
            service=interner.intern(_service(row[len(queries.COLUMNS) + 1 :])),
            image_support=values.image_support(row.hypervisor_type, row.hypervisor_version, row.supported_instances),
            cpu_info=values.cpu_info(row.cpu_info),
            instances=(*(uuid for uuid, _ in on_node), *(pending_instance.uuid for pending_instance in pending)),
            instance_images=interner.intern(images) if any(images) else (),
            aggregates=gathered.aggregates.get(row.host, ()),
            metrics=values.metrics(row.metrics),
            stats=values.stats(row.stats),
            numa_topology=topology,
            pci_pools=pools,
            traits=gathered.traits.get(provider_id, frozenset()),
            provider_aggregates=gathered.memberships.get(provider_id, frozenset()),
        )

    def _inventories(
        self, node_ids: list[int] | None, pending: Mapping[tuple[int, str], int]
    ) -> tuple[dict[str, dict[str, InventoryFacts]], dict[str, int]]:
        """Returns (inventories by node uuid and resource class, provider ids by node uuid)."""
        intern = self._interner.intern
        inventories: dict[str, dict[str, InventoryFacts]] = defaultdict(dict)
        ids: dict[str, int] = {}
        for uuid, name, provider_id, *numbers in queries.INVENTORIES.rows(self._session, node_ids):
            capacity, used, reserved, min_unit, max_unit, step, ratio = numbers
            ids[uuid] = provider_id
            inventory = InventoryFacts(
                capacity=capacity,
                used=used,
                reserved=reserved,
                pending=pending.get((provider_id, name), 0),
                min_unit=min_unit,
                max_unit=max_unit,
                step_size=step,
                allocation_ratio=ratio,
            )
            previous = inventories[uuid].get(name)
            inventories[uuid][intern(name)] = intern(
                inventory if previous is None else merge_inventories(previous, inventory)
            )
        return {uuid: self._interner.intern_mapping(by_class) for uuid, by_class in inventories.items()}, ids

    def _hardware_requests(self, reservation_ids: Collection[str]) -> dict[str, HardwareRequest]:
        return {
            row[0]: _WANTED.from_json(row[1])
            for some in _chunks(reservation_ids)
            for row in self._session.connection().execute(queries.WANTED, {"some": some})
        }

    def _instances(self, hosts: list[str] | None) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """Returns (uuid, image) of the instances, by host and node."""
        grouped: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        for host, node, uuid, image_ref, deleted_at in queries.INSTANCES.rows(self._session, hosts):
            if deleted_at is None:
                grouped[host, node].append((uuid, image_ref))
        for of_node in grouped.values():
            of_node.sort()
        self._read_images({image_ref for of_node in grouped.values() for _, image_ref in of_node})
        return grouped

    def _read_images(self, image_refs: Collection[str]) -> None:
        """Reads the current properties of the images."""
        for some in _chunks(image_refs - self._images.keys()):
            for image_id, image in self._session.connection().execute(queries.IMAGES, {"some": some}):
                self._images[image_id] = tuple(sorted(image.properties.items()))

    def _aggregates(self, hosts: list[str] | None) -> dict[str, list[AggregateFacts]]:
        by_id: dict[int, AggregateFacts] = {}
        facts: dict[str, list[AggregateFacts]] = defaultdict(list)
        for host, aggregate_id, name, metadata, uuid in queries.AGGREGATES.rows(self._session, hosts):
            if aggregate_id not in by_id:
                pairs = tuple(sorted((key, str(value)) for key, value in metadata.items()))
                by_id[aggregate_id] = self._interner.intern(AggregateFacts(aggregate_id, name, pairs, uuid))
            facts[host].append(by_id[aggregate_id])
        return facts

    def _sets(self, rows: Iterable[Any]) -> dict[int, frozenset[str]]:
        sets: dict[int, set[str]] = defaultdict(set)
        for provider_id, value in rows:
            sets[provider_id].add(self._interner.intern(value))
        return {provider_id: self._interner.intern(frozenset(values)) for provider_id, values in sets.items()}


class QueryResults(NamedTuple):
    """The results of the queries, by provider id unless noted otherwise."""

    inventories: Mapping[str, dict[str, InventoryFacts]]  # by node uuid
    provider_ids: Mapping[str, int]  # by node uuid
    pending: Mapping[int, tuple[PendingInstance, ...]]
    hardware_requests: Mapping[str, HardwareRequest]  # by reservation id
    instances: Mapping[tuple[str, str], list[tuple[str, str]]]  # by host and node
    aggregates: Mapping[str, tuple[AggregateFacts, ...]]  # by host
    traits: Mapping[int, frozenset[str]]
    memberships: Mapping[int, frozenset[str]]


def _chunks(values: Collection[str]) -> Iterable[list[str]]:
    ordered = sorted(values)
    return (ordered[start : start + queries.CHUNK] for start in range(0, len(ordered), queries.CHUNK))
