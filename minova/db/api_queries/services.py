"""Services and nodes as the API reads them, and as conductors read them that look for silent services."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.db.models import ComputeNode, Heartbeat, Instance, Service
from minova.db.models.placement import MAX_INT
from minova.db.sql import chunked
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.liveness import judge
from minova.objects.hosts.service import CONDUCTOR


class ServiceRow(NamedTuple):
    """The columns of a service that are read often. Rows of the mapped class would take four times as long to read."""

    id: int
    uuid: str
    host: str
    binary: str
    topic: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    down_reason: str | None
    refused_report: str | None
    version: int


class ServiceLiveness(msgspec.Struct, frozen=True, kw_only=True):
    """All services and what is known of their liveness.

    `last_seen`: when each service was last heard, in seconds since the epoch by the database's wall clock.
    `down`: ids of the services that get no new work: they are absent, or report that they cannot work.
    `absent`: ids of the services that do not work, as far as is known: silent, forced down, or never heard.
    `in_doubt`: ids of the services that count as up although they are silent.
    """

    rows: tuple[ServiceRow, ...]
    last_seen: Mapping[int, float]
    down: frozenset[int]
    absent: frozenset[int] = frozenset()
    in_doubt: frozenset[int] = frozenset()

    def is_up(self, service: ServiceRow) -> bool:
        """Whether it may get new work."""
        return service.id not in self.down

    def is_absent(self, service: ServiceRow) -> bool:
        """Whether work that it was given must be assumed to have stopped. A service that reports that it cannot take new
        work is not absent: it still does, or ends, what it has.
        """
        return service.id in self.absent


@lru_cache(16)
def _heard_services(now: ColumnElement[float], wall: ColumnElement[float]) -> Any:
    """Each service with its heartbeat, the cloud clock, and how far that is behind the wall clock. Built once: every
    conductor runs it every few seconds, and an API for each server that an administrator reads.
    """
    columns = (getattr(Service, name) for name in ServiceRow._fields)
    query = select(*columns, Heartbeat.last_seen, now, wall - now).order_by(Service.id)
    return query.outerjoin(Heartbeat, Heartbeat.service_id == Service.id)


def services(session: Session, down_time: float, db: Database) -> ServiceLiveness:
    """Reads all services and judges them. `down_time`: a service is down after this many seconds of silence. `db`: for
    its clocks.
    """
    heard = session.connection().execute(_heard_services(db.now(), db.wall())).all()
    rows = tuple(ServiceRow._make(row[:-3]) for row in heard)
    seen_by_service: dict[int, float] = {row[0]: row[-3] for row in heard if row[-3] is not None}
    now, behind = heard[0][-2:] if heard else (0.0, 0.0)
    verdict = judge(seen_by_service, down_time, {row.id for row in rows if row.binary == CONDUCTOR})
    absent = verdict.down | {row.id for row in rows if row.forced_down or row.id not in seen_by_service}
    down = absent | {row.id for row in rows if row.down_reason is not None}
    # The clock runs, but not even a conductor has been heard: no messages come through. Then silence does not mean that
    # a service is down.
    all_silent = bool(seen_by_service) and now - max(seen_by_service.values()) > down_time
    in_doubt = frozenset(row.id for row in rows) if all_silent else verdict.in_doubt
    seen_at = {key: at + behind for key, at in seen_by_service.items()}
    return ServiceLiveness(rows=rows, last_seen=seen_at, down=down, absent=absent, in_doubt=in_doubt - down)


def uuid_of(session: Session, service_id: int) -> str | None:
    """Returns None if there is no such service."""
    if service_id > MAX_INT:
        return None
    return session.scalar(select(Service.uuid).where(Service.id == service_id))


def nodes(session: Session, after: int, limit: int | None) -> Sequence[ComputeNode]:
    """Returns nodes in the order of their ids, beginning after id `after`."""
    return session.scalars(
        select(ComputeNode).where(ComputeNode.id > after).order_by(ComputeNode.id).limit(limit)
    ).all()


def node(session: Session, node_id: int) -> ComputeNode | None:
    return session.get(ComputeNode, node_id)


def node_by_uuid(session: Session, uuid: str) -> ComputeNode | None:
    return session.scalar(select(ComputeNode).where(ComputeNode.uuid == uuid))


def has_node(session: Session, host: str | None, nodename: str | None) -> bool:
    """Whether there is a node of this host (None: any) with this name (None: any)."""
    equal = ((ComputeNode.host, host), (ComputeNode.hypervisor_hostname, nodename))
    query = select(ComputeNode.id).where(*(column == value for column, value in equal if value is not None))
    return session.scalar(query.limit(1)) is not None


def nodes_named(session: Session, part: str) -> Sequence[ComputeNode]:
    """Returns the nodes with `part` in their name, as Nova searches. `%` and `_` match only themselves."""
    query = select(ComputeNode).where(ComputeNode.hypervisor_hostname.icontains(part, autoescape=True))
    return session.scalars(query.order_by(ComputeNode.id)).all()


def servers_of_hosts(session: Session, hosts: Collection[str]) -> list[tuple[str, str, str]]:
    """Returns (host, uuid, name) of each server on these hosts, by age."""
    servers: list[tuple[int, str, str, str]] = []
    query = select(Instance.id, Instance.host, Instance.uuid, Instance.display_name)
    for some in chunked(sorted(hosts)):
        rows = session.execute(query.where(Instance.host.in_(some), Instance.deleted_at.is_(None)))
        servers += [(number, str(host), uuid, name) for number, host, uuid, name in rows]
    return [(host, uuid, name) for _, host, uuid, name in sorted(servers)]


def flavors_on(session: Session, host: str) -> list[tuple[str, Flavor]]:
    """Returns (project, flavor) of each server on the host, by age."""
    query = select(Instance.project_id, Instance.flavor).where(Instance.host == host, Instance.deleted_at.is_(None))
    return [(project_id, flavor) for project_id, flavor in session.execute(query.order_by(Instance.id))]


def first_node_of(session: Session, host: str) -> ComputeNode | None:
    return session.scalar(select(ComputeNode).where(ComputeNode.host == host).order_by(ComputeNode.id).limit(1))


def servers_on(session: Session, host: str, nodename: str) -> Sequence[Instance]:
    """Returns the servers of all projects on this node, by age."""
    on_node = (Instance.host == host, Instance.node == nodename, Instance.deleted_at.is_(None))
    return session.scalars(select(Instance).where(*on_node).order_by(Instance.id)).all()


SUMS = (
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "current_workload",
    "running_vms",
    "disk_available_least",
)


def totals(session: Session) -> dict[str, int]:
    """Returns SUMS over the nodes of enabled services, and `count`, the number of these nodes, as Nova counts."""
    columns = [func.coalesce(func.sum(getattr(ComputeNode, name)), 0) for name in SUMS]
    enabled = select(Service.host).where(Service.topic == "compute", Service.disabled.is_(False))
    row = session.execute(select(func.count(ComputeNode.id), *columns).where(ComputeNode.host.in_(enabled))).one()
    return {name: int(value) for name, value in zip(("count", *SUMS), row, strict=True)}
