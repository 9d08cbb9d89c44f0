"""Host aggregates, which also define availability zones. A host is in one zone at most, and no change here moves an
instance to another zone.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.catalogue import AggregatesApi
from minova.db.catalogue import aggregates
from minova.db.hosts import compute_nodes, services
from minova.db.servers import instances
from minova.objects.catalogue.aggregate import ZONE, Aggregate, zone_of
from minova.placement import changes
from minova.placement.providers import aggregates as provider_aggregates


class Aggregates(AggregatesApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        def work(session: Session) -> Aggregate:
            return aggregates.add(session, str(uuid.uuid4()), name, metadata, self._worker.at())

        return self._with_free_name(name, work)

    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: Mapping[str, str | None]
    ) -> Aggregate:
        at = self._worker.at()

        def work(session: Session) -> Aggregate:
            aggregates_by_id = aggregates.all_of(session, lock=True)
            before = _aggregate_of(aggregates_by_id, aggregate_id)
            after = msgspec.structs.replace(
                before,
                name=before.name if name is None else name,
                metadata=changed(before.metadata, metadata),
                updated_at=at,
            )
            fault = zone_change_fault(
                before, after, aggregates_by_id.values(), lambda: instances.count_on(session, before.hosts)
            )
            if fault:
                raise errors.BadRequest(f"Cannot update aggregate {aggregate_id}: {fault}.")
            aggregates.change(session, aggregate_id, after.name, after.metadata, at)
            self._announce(session, after.hosts)
            return after

        return self._with_free_name(name or "", work)

    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        def work(session: Session) -> None:
            aggregate = _aggregate_of(aggregates.all_of(session, lock=True), aggregate_id)
            if aggregate.hosts:
                raise errors.BadRequest(
                    f"Cannot remove aggregate {aggregate_id}: it is not empty, and has {', '.join(aggregate.hosts[:10])}."
                )
            aggregates.remove(session, aggregate_id)

        self._worker.run(work)

    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        def work(session: Session) -> Aggregate:
            aggregates_by_id = aggregates.all_of(session, lock=True)
            aggregate = _aggregate_of(aggregates_by_id, aggregate_id)
            if services.find(session, host, COMPUTE) is None:
                raise errors.NotFound(f"Compute host {host} could not be found.")
            if host in aggregate.hosts:
                raise errors.Conflict(f"Aggregate {aggregate_id} already has host {host}.")
            fault = entry_fault(aggregate, host, aggregates_by_id.values(), lambda: instances.count_on(session, [host]))
            if fault:
                raise errors.Conflict(f"Cannot add host to aggregate {aggregate_id}: {fault}.")
            aggregates.add_host(session, aggregate_id, host)
            provider_aggregates.join(session, self._announce(session, [host]), [aggregate.uuid])
            return msgspec.structs.replace(aggregate, hosts=tuple(sorted({*aggregate.hosts, host})))

        return self._worker.run(work)

    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        def work(session: Session) -> Aggregate:
            aggregates_by_id = aggregates.all_of(session, lock=True)
            aggregate = _aggregate_of(aggregates_by_id, aggregate_id)
            if host not in aggregate.hosts:
                raise errors.NotFound(f"Cannot remove host {host} from aggregate {aggregate_id}: it is not in it.")
            others = [other for other in aggregates_by_id.values() if other.id != aggregate_id]
            if (
                aggregate.zone
                and zone_of(host, others) != aggregate.zone
                and (count := instances.count_on(session, [host]))
            ):
                raise errors.Conflict(
                    f"Cannot remove host from aggregate {aggregate_id}: "
                    f"{_moving(host, count, aggregate.zone, zone_of(host, others))}."
                )
            aggregates.remove_host(session, aggregate_id, host)
            provider_aggregates.leave(session, self._announce(session, [host]), aggregate.uuid)
            return msgspec.structs.replace(
                aggregate, hosts=tuple(member for member in aggregate.hosts if member != host)
            )

        return self._worker.run(work)

    def _announce(self, session: Session, hosts: Iterable[str]) -> list[str]:
        """Report in the change feed that these hosts look different in host tables now. Returns the uuids of their
        nodes.
        """
        nodes = compute_nodes.of_hosts(session, sorted(hosts))
        changes.append(session, nodes, self._worker.now())
        return sorted(nodes.values())

    def _with_free_name(self, name: str, work: Callable[[Session], Aggregate]) -> Aggregate:
        try:
            return self._worker.run(work)
        except IntegrityError:
            raise errors.Conflict(f"Aggregate {name} already exists.") from None


def changed(metadata: Mapping[str, str], changes_: Mapping[str, str | None]) -> dict[str, str]:
    """Returns the metadata with these changes; a key with the value None is unset."""
    return {key: value for key, value in {**metadata, **changes_}.items() if value is not None}


def zone_change_fault(
    before: Aggregate, after: Aggregate, all_aggregates: Iterable[Aggregate], instances_there: Callable[[], int]
) -> str | None:
    """Returns why an aggregate's zone cannot change so, as in Nova; None if it can. `instances_there` counts the
    instances on its hosts.
    """
    if after.zone == before.zone and (ZONE in after.metadata) == (ZONE in before.metadata):
        return None
    if not after.zone:
        return "its availability_zone cannot be taken away or be empty"
    others = [other for other in all_aggregates if other.id != before.id]
    other_zones = {zone for host in before.hosts if (zone := zone_of(host, others)) and zone != after.zone}
    if other_zones:
        return f"one or more of its hosts are already in availability zone {', '.join(sorted(other_zones))}"
    if instances_there():
        return "there are instances on its hosts, whose availability zone would change"
    return None


def entry_fault(
    aggregate: Aggregate, host: str, all_aggregates: Iterable[Aggregate], instances_there: Callable[[], int]
) -> str | None:
    """Returns why a host cannot be added to an aggregate with a zone, as in Nova; None if it can."""
    zone = zone_of(host, all_aggregates)
    if not aggregate.zone or zone == aggregate.zone:
        return None
    if zone is not None:
        return f"the host is already in availability zone {zone}, and the aggregate's is {aggregate.zone}"
    count = instances_there()
    return _moving(host, count, zone, aggregate.zone) if count else None


def _moving(host: str, count: int, zone: str | None, to: str | None) -> str:
    return (
        f"host {host} has {count} instance{'' if count == 1 else 's'}, whose availability zone would change "
        f"from {zone or 'the default one'} to {to or 'the default one'}"
    )


def _aggregate_of(aggregates_by_id: Mapping[int, Aggregate], aggregate_id: int) -> Aggregate:
    if aggregate_id not in aggregates_by_id:
        raise errors.NotFound(f"Aggregate {aggregate_id} could not be found.")
    return aggregates_by_id[aggregate_id]
