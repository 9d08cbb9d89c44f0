"""Services and nodes as the API reads them."""

from collections.abc import Sequence

import msgspec
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db.models import ComputeNode, Heartbeat, Instance, Service
from minova.objects.liveness import silent


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """All services, when each was last heard (seconds since the epoch), and the ids of those that are down."""

    rows: tuple[Service, ...]
    last_seen: dict[int, float]
    down: frozenset[int]

    def is_up(self, service: Service) -> bool:
        return service.id not in self.down


def services(session: Session, down_time: float) -> Services:
    """`down_time`: seconds of silence after which one is down."""
    rows = tuple(session.scalars(select(Service).order_by(Service.id)))
    beats = session.execute(select(Heartbeat.service_id, Heartbeat.last_seen))
    last_seen = {beat.service_id: beat.last_seen for beat in beats}
    down = silent(last_seen, down_time) | {
        row.id for row in rows if row.forced_down or row.down_reason or row.id not in last_seen
    }
    return Services(rows=rows, last_seen=last_seen, down=frozenset(down))


def nodes(session: Session, after: int, limit: int | None) -> Sequence[ComputeNode]:
    """By id, beginning after `after`."""
    return session.scalars(
        select(ComputeNode).where(ComputeNode.id > after).order_by(ComputeNode.id).limit(limit)
    ).all()


def node(session: Session, node_id: int) -> ComputeNode | None:
    return session.get(ComputeNode, node_id)


def servers_on(session: Session, host: str, nodename: str) -> Sequence[Instance]:
    """Those of all projects, by age."""
    here = (Instance.host == host, Instance.node == nodename, Instance.deleted_at.is_(None))
    return session.scalars(select(Instance).where(*here).order_by(Instance.id)).all()


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
    """SUMS over the nodes of enabled services, and their `count`, as Nova counts."""
    columns = [func.coalesce(func.sum(getattr(ComputeNode, name)), 0) for name in SUMS]
    enabled = select(Service.host).where(Service.topic == "compute", Service.disabled.is_(False))
    row = session.execute(select(func.count(ComputeNode.id), *columns).where(ComputeNode.host.in_(enabled))).one()
    return {name: int(value) for name, value in zip(("count", *SUMS), row, strict=True)}
