"""Corrects what the audit of Placement found. Judges each finding again under the locks, in a
transaction of its own.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, func, insert, or_, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.db.engine import Database
from minova.db.models import Allocation, Inventory, ResourceProvider
from minova.db.servers import instances, migrations, tasks
from minova.placement import changes
from minova.placement.allocations import claims, rows, writes
from minova.placement.audit import gather as audit_gather
from minova.placement.audit.judge import AuditFinding, FindingKind
from minova.placement.providers import of_node

_SEVERAL = (
    audit_gather.wrong_used,
    audit_gather.wrong_consumers,
    audit_gather.moves_that_are_over,
    audit_gather.lost_providers,
)


class HealedFinding(msgspec.Struct, frozen=True):
    """`reason`: why a finding was not corrected; None if it is correct now."""

    finding: AuditFinding
    reason: str | None


def fix(db: Database) -> Iterator[HealedFinding]:
    """Corrects wrong `used` amounts first, because the other decisions depend on them, and providers last, when they
    may have lost their consumers.
    """
    for gather in _SEVERAL:
        with db.read() as session:
            gathered = gather(session)
        for finding in gathered:
            yield HealedFinding(finding, _heal(db, finding))


def _heal(db: Database, finding: AuditFinding) -> str | None:
    if not finding.remedy:
        return "nothing can be done from here"
    try:
        db.run(lambda session: heal(session, finding, db.now()))
    except errors.Conflict as error:
        return str(error)
    return None


def heal(session: Session, finding: AuditFinding, now: ColumnElement[float]) -> None:
    """Does nothing if the finding has become correct by itself. Raises Conflict, with the reason, if it cannot be
    corrected.
    """
    if finding.kind is FindingKind.WRONG_USED:
        _set_used(session, str(finding.provider_uuid), str(finding.resource_class), now)
    elif finding.kind is FindingKind.MOVE_IS_OVER:
        _release_move(session, str(finding.consumer_uuid), now)
    elif finding.kind is FindingKind.WITHOUT_NODE:
        _delete_provider(session, str(finding.provider_uuid))
    else:
        _reallocate(session, str(finding.consumer_uuid), now)


def allocate(session: Session, uuid: str, now: ColumnElement[float]) -> None:
    """Writes what a guest uses that exists, also beyond the capacity of its node."""
    _reallocate(session, uuid, now, exists=True)


def _reallocate(session: Session, uuid: str, now: ColumnElement[float], *, exists: bool = False) -> None:
    # Every transaction that begins or ends a task takes this lock, so no task can begin or end meanwhile.
    locked = instances.lock(session, [uuid])
    tasks.lock(session, [uuid])
    verdict, instance = audit_gather.verdict_of(session, uuid)
    if verdict is None:
        return
    if instance is None or not verdict.allocations:
        claims.release(session, [uuid], now)
        if uuid not in locked:
            claims.forget(session, [uuid])
        return
    allocations = writes.ConsumerAllocations(
        consumer_uuid=uuid,
        allocations={provider: dict(resources) for provider, resources in verdict.allocations.items()},
        project_id=instance.project_id,
        user_id=instance.user_id,
        consumer_type=audit_gather.INSTANCE,
    )
    # A guest uses its own node, full or not: the node's usage must say so, so that no further server is placed there.
    writes.replace(
        session, [allocations], now, beyond_capacity=exists or verdict.finding.kind is FindingKind.WRONG_PROVIDER
    )


def _release_move(session: Session, uuid: str, now: ColumnElement[float]) -> None:
    migration = migrations.lock(session, uuid)
    if not audit_gather.moves_that_are_over(session, uuid):
        return
    claims.release(session, [uuid], now)
    if migration is None:
        claims.forget(session, [uuid])


def _set_used(session: Session, provider_uuid: str, resource_class: str, now: Any) -> None:
    provider_id = session.scalar(select(ResourceProvider.id).where(ResourceProvider.uuid == provider_uuid))
    if provider_id is None:
        return
    inventories = rows.lock_inventories(session, [provider_id])
    allocated = session.scalar(
        select(func.sum(Allocation.used)).where(
            Allocation.provider_id == provider_id, Allocation.resource_class == resource_class
        )
    )
    used = int(allocated or 0)
    key = {"provider_id": provider_id, "resource_class": resource_class}
    connection = session.connection()
    if (provider_id, resource_class) in inventories:
        connection.execute(update(Inventory).filter_by(**key).values(used=used))
    elif used:
        # The same row that stays for a class that its node no longer has while some of it is still used.
        connection.execute(insert(Inventory).values(**key, total=0, max_unit=1, capacity=0, used=used))
    changes.append(session, rows.node_ids_of(session, [provider_id]), now)


def _delete_provider(session: Session, provider_uuid: str) -> None:
    model = ResourceProvider
    root_id = session.scalar(select(model.id).where(model.uuid == provider_uuid))
    tree = session.scalars(select(model.id).where(or_(model.id == root_id, model.root_provider_id == root_id))).all()
    # A claim on the provider waits for these locks, and then finds no provider.
    rows.lock_inventories(session, tree)
    finding = next(
        (candidate for candidate in audit_gather.lost_providers(session) if candidate.provider_uuid == provider_uuid),
        None,
    )
    if finding is None:
        return
    if session.scalar(select(Allocation.consumer_uuid).where(Allocation.provider_id.in_(tree)).limit(1)) is not None:
        raise errors.Conflict(finding.detail)
    of_node.delete(session, provider_uuid)
