"""What a host and its nodes hold, and which host owns an identity."""

from collections.abc import Iterable

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db.models import Allocation, ComputeNode, Instance, ResourceProvider, Service
from minova.db.servers import migrations, tasks
from minova.db.sql import chunked


def service_of(session: Session, host: str, binary: str) -> Service | None:
    """Returns the locked row in its last committed state."""
    query = select(Service).where(Service.host == host, Service.binary == binary).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def processes_of(session: Session, hosts: Iterable[str], binary: str) -> dict[str, str]:
    """Returns {host: the process that serves it} of the hosts whose process is known."""
    processes: dict[str, str] = {}
    for chunk in chunked(sorted(hosts)):
        query = select(Service.host, Service.process).where(Service.host.in_(chunk), Service.binary == binary)
        processes.update({host: process for host, process in session.execute(query) if process is not None})
    return processes


def nodes_of(session: Session, host: str) -> dict[str, str]:
    """Returns {name: uuid} of the host's nodes."""
    query = select(ComputeNode.hypervisor_hostname, ComputeNode.uuid).where(ComputeNode.host == host)
    return {row[0]: row[1] for row in session.execute(query.order_by(ComputeNode.id))}


def last_writer_epoch(session: Session, host: str) -> int:
    """Returns the highest epoch of a process that has written a node of this host; 0 if there was none."""
    return session.scalar(select(func.max(ComputeNode.writer_epoch)).where(ComputeNode.host == host)) or 0


def other_host_of(session: Session, compute_id: str, host: str) -> str | None:
    """Returns the host, other than this one, that has this identity."""
    by_service = select(Service.host).where(Service.compute_id == compute_id, Service.host != host)
    by_node = select(ComputeNode.host).where(ComputeNode.uuid == compute_id, ComputeNode.host != host)
    return session.scalar(by_service) or session.scalar(by_node)


def nodes_with(session: Session, host: str, instance_uuids: Iterable[str]) -> set[str]:
    """Returns the names of this host's nodes that hold these instances, by the instances' rows."""
    names: set[str] = set()
    for chunk in chunked(sorted(set(instance_uuids))):
        query = select(Instance.node).where(
            Instance.uuid.in_(chunk), Instance.host == host, Instance.deleted_at.is_(None), Instance.node.is_not(None)
        )
        names.update(str(name) for name in session.scalars(query.distinct()))
    return names


def holdings(session: Session, host: str, node: str) -> tuple[str, ...]:
    """Describes what is on the node and would lose its resources with it. Empty if the node may be removed."""
    on_this_node = (Instance.host == host, Instance.node == node, Instance.deleted_at.is_(None))
    allocated = (
        select(func.count(Instance.uuid.distinct()))
        .join(Allocation, Allocation.consumer_uuid == Instance.uuid)
        .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
        .join(ComputeNode, ComputeNode.uuid == ResourceProvider.uuid)
        .where(ComputeNode.host == host, ComputeNode.hypervisor_hostname == node, Instance.deleted_at.is_(None))
    )
    counts = {
        "instances": session.scalar(select(func.count(Instance.id)).where(*on_this_node)),
        "migrations in progress": len(migrations.in_progress_on(session, host, node)),
        "builds": len(tasks.builds_on(session, host, node)),
        "instances with allocations": session.scalar(allocated),
    }
    return tuple(f"{count} {what}" for what, count in counts.items() if count)
