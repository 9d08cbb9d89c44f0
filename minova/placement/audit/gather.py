"""Reads the rows that the audit of Placement judges. Each read is one statement and sees one snapshot. So it always
sees completely what a transaction changes together: an allocation with its `used`, an instance's end with its release.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import and_, case, exists, false, func, literal, null, or_, select, union_all
from sqlalchemy.orm import Session, aliased
from sqlalchemy.sql import ColumnElement

from minova.db.models import (
    Allocation,
    ComputeNode,
    Consumer,
    Instance,
    Inventory,
    Migration,
    ResourceProvider,
    Task,
    UnexpectedGuest,
)
from minova.db.sql import chunked
from minova.objects.servers.migration import ENDED
from minova.objects.servers.states import RESOURCE_FREE
from minova.objects.unexpected.removal_rules import WHY, DomainVerdict
from minova.placement.allocations.transfers import CONSUMER_TYPE
from minova.placement.audit import judge as audit
from minova.placement.audit.judge import (
    AuditFinding,
    ConsumerVerdict,
    FindingKind,
    judge,
    judge_move,
    judge_provider,
    judge_used,
    known_alternatives,
)
from minova.placement.providers import of_node

INSTANCE = "INSTANCE"
Root = aliased(ResourceProvider)
Own = aliased(ResourceProvider)
_ROOT_ID = func.coalesce(ResourceProvider.root_provider_id, ResourceProvider.id)
_FREE = sorted(state.value for state in RESOURCE_FREE)
_ALIVE = Instance.deleted_at.is_(None)
_OF_ITS_NODE = (ComputeNode.host == Instance.host) & (ComputeNode.hypervisor_hostname == Instance.node)


def findings(session: Session) -> list[AuditFinding]:
    """Returns all that is wrong."""
    return [
        *wrong_used(session),
        *wrong_consumers(session),
        *moves_that_are_over(session),
        *lost_providers(session),
        *unexpected_guests(session),
    ]


# -- guests ------------------------------------------------------------------------------------------------------------

_OF_REASON = {
    DomainVerdict.NO_ROW: FindingKind.GUEST_WITHOUT_ROW,
    DomainVerdict.NEWER: FindingKind.NEWER_GUEST,
    DomainVerdict.MISPLACED: FindingKind.MISPLACED_GUEST,
    DomainVerdict.NO_GUEST: FindingKind.WITHOUT_GUEST,
    DomainVerdict.NO_COPY: FindingKind.WITHOUT_COPY,
}


def unexpected_guests(session: Session) -> list[AuditFinding]:
    """Finds guests that no row accounts for, and servers whose guests are gone, as their hosts have reported last."""
    model = UnexpectedGuest
    query = (
        select(model.uuid, model.host, model.reason).where(model.remove_at.is_(None)).order_by(model.host, model.uuid)
    )
    return [
        AuditFinding(
            kind=_OF_REASON[DomainVerdict(reason)],
            consumer_uuid=uuid,
            detail=f"host {host}: {WHY[DomainVerdict(reason)]}; see minova-manage unexpected list",
        )
        for uuid, host, reason in session.execute(query)
        if DomainVerdict(reason) in _OF_REASON
    ]


# -- consumers ---------------------------------------------------------------------------------------------------------


def wrong_consumers(session: Session) -> list[AuditFinding]:
    queries = (holders_without_instance(), instances_elsewhere(), _holders_of_both_cpu_classes())
    suspects = sorted({uuid for query in queries for uuid in session.scalars(query)})
    verdicts = [judge(consumer) for chunk in chunked(suspects) for consumer in consumers(session, chunk)]
    suspicions = [verdict.finding for verdict in verdicts if verdict is not None]
    # A task or a move may have begun between two of these reads, and have taken what its instance held.
    begun = {
        uuid
        for chunk in chunked([str(suspicion.consumer_uuid) for suspicion in suspicions])
        for uuid in _busy(session, chunk)
    }
    return [finding for finding in suspicions if finding.consumer_uuid not in begun]


def verdict_of(session: Session, consumer_uuid: str) -> tuple[ConsumerVerdict | None, audit.AuditedInstance | None]:
    (consumer,) = consumers(session, [consumer_uuid])
    return judge(consumer), consumer.instance


def _idle(uuid: Any) -> ColumnElement[bool]:
    """Neither a task nor a move is in progress. Each condition is one of its own, which PostgreSQL makes a join of."""
    in_progress = Migration.status.not_in(sorted(ENDED))
    return and_(
        ~exists().where(Task.instance_uuid == uuid),
        ~exists().where(Migration.instance_uuid == uuid, in_progress),
        ~exists().where(Migration.uuid == uuid, in_progress),
    )


def holders_without_instance() -> Any:
    """Selects consumers that hold something for an instance that does not exist or needs no resources."""
    needs = and_(Instance.uuid == Consumer.uuid, _ALIVE, Instance.host.is_not(None), Instance.vm_state.not_in(_FREE))
    holds = exists().where(Allocation.consumer_uuid == Consumer.uuid)
    # MariaDB reads the instances once, one after the other, and notes their UUIDs. In an outer join it would look for the row of each
    # consumer, at random.
    return select(Consumer.uuid).where(
        Consumer.consumer_type == INSTANCE, ~exists().where(needs), holds, _idle(Consumer.uuid)
    )


def instances_elsewhere() -> Any:
    """Selects instances on a host that hold nothing of their own node's tree, or something of another node's. Reads the
    allocations and the instances once, each from its beginning to its end.

    MariaDB would go from host to host, and read the allocations of one instance after the other: with a buffer pool that is smaller than
    the tables, each row is a page to be read. It does not split the sums where they are a part of a union.
    """
    # Trees that users made count for no node.
    root = case((Root.of_node.is_(True), Root.id))
    sums = (
        select(Allocation.consumer_uuid, func.min(root).label("least"), func.max(root).label("most"))
        .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
        .join(Root, Root.id == _ROOT_ID)
        .group_by(Allocation.consumer_uuid)
    )
    none = select(Allocation.consumer_uuid, Allocation.provider_id, Allocation.provider_id).where(false())
    roots = union_all(_in_this_order(sums), none).subquery()
    elsewhere = or_(roots.c.least.is_(None), roots.c.least != Own.id, roots.c.most != Own.id)
    query = (
        select(Instance.uuid)
        .join(ComputeNode, _OF_ITS_NODE)
        .join(Own, Own.uuid == ComputeNode.uuid)
        .outerjoin(roots, roots.c.consumer_uuid == Instance.uuid)
        .where(_ALIVE, Instance.vm_state.not_in(_FREE), elsewhere, _idle(Instance.uuid))
    )
    return _in_this_order(query)


def _in_this_order(query: Any) -> Any:
    """Lets MariaDB join the tables as the statement names them."""
    for dialect in ("mysql", "mariadb"):
        query = query.prefix_with("STRAIGHT_JOIN", dialect=dialect)
    return query


def _holders_of_both_cpu_classes() -> Any:
    """A mixed guest holds both classes. Audits of older releases also made pinned guests hold both."""
    shared = aliased(Allocation)
    return (
        select(Allocation.consumer_uuid)
        .join(Consumer, Consumer.uuid == Allocation.consumer_uuid)
        .join(shared, (shared.consumer_uuid == Allocation.consumer_uuid) & (shared.resource_class == "VCPU"))
        .where(Consumer.consumer_type == INSTANCE, Allocation.resource_class == "PCPU", _idle(Consumer.uuid))
        .distinct()
    )


def consumers(session: Session, uuids: Sequence[str]) -> list[audit.AuditedConsumer]:
    busy = _busy(session, uuids)
    holdings = _holdings(session, uuids)
    instances = _instances(session, uuids)
    return [
        audit.AuditedConsumer(
            uuid=uuid, holdings=holdings.get(uuid, []), instance=instances.get(uuid), busy=uuid in busy
        )
        for uuid in uuids
    ]


def _busy(session: Session, uuids: Sequence[str]) -> set[str]:
    left_alone = or_(~_idle(Consumer.uuid), Consumer.consumer_type != INSTANCE)
    busy = set(session.scalars(select(Consumer.uuid).where(Consumer.uuid.in_(uuids), left_alone)))
    return busy | set(session.scalars(select(Instance.uuid).where(Instance.uuid.in_(uuids), ~_idle(Instance.uuid))))


def moves_that_are_over(session: Session, uuid: str | None = None) -> list[AuditFinding]:
    """Finds what moves still hold after their end: of one migration, or of all. One statement reads each allocation with the
    status of its migration, so that a move which ends meanwhile is seen before its end or after it.
    """
    query = (
        select(
            Consumer.uuid,
            ResourceProvider.uuid,
            ResourceProvider.name,
            Root.uuid,
            Root.of_node,
            Allocation.resource_class,
            Allocation.used,
            Migration.status,
            Migration.cleanup_host,
        )
        .join(Allocation, Allocation.consumer_uuid == Consumer.uuid)
        .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
        .join(Root, Root.id == _ROOT_ID)
        .outerjoin(Migration, Migration.uuid == Consumer.uuid)
        .where(Consumer.consumer_type == CONSUMER_TYPE, ~exists().where(Instance.uuid == Consumer.uuid))
        .order_by(Consumer.uuid, ResourceProvider.id, Allocation.resource_class)
    )
    if uuid is not None:
        query = query.where(Consumer.uuid == uuid)
    rows = session.execute(query).all()
    ends = {row[0]: (row.status, row.cleanup_host is not None) for row in rows}
    holdings = _by_consumer(row[:7] for row in rows)
    moves = [
        audit.AuditedMove(uuid=uuid, holdings=holdings[uuid], status=status, owes=owes)
        for uuid, (status, owes) in ends.items()
    ]
    judgements = [judge_move(move) for move in moves]
    return [finding for finding in judgements if finding is not None]


def _holdings(session: Session, uuids: Sequence[str]) -> dict[str, list[audit.Holding]]:
    query = (
        select(
            Allocation.consumer_uuid,
            ResourceProvider.uuid,
            ResourceProvider.name,
            Root.uuid,
            Root.of_node,
            Allocation.resource_class,
            Allocation.used,
        )
        .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
        .join(Root, Root.id == _ROOT_ID)
        .where(Allocation.consumer_uuid.in_(uuids))
        .order_by(Allocation.consumer_uuid, ResourceProvider.id, Allocation.resource_class)
    )
    return _by_consumer(tuple(row) for row in session.execute(query))


def _by_consumer(rows: Iterable[Sequence[Any]]) -> dict[str, list[audit.Holding]]:
    """`rows`: consumer, the uuid and name of the provider, its root, whether that is of a node, the class, and the amount."""
    resources: dict[tuple[Any, ...], dict[str, int]] = {}
    for *of, name, amount in rows:
        resources.setdefault(tuple(of), {})[name] = amount
    holdings: dict[str, list[audit.Holding]] = {}
    for (consumer, uuid, name, root_uuid, is_of_node), allocated in resources.items():
        row = audit.Holding(
            provider_uuid=uuid, provider_name=name, root_uuid=root_uuid, of_node=bool(is_of_node), resources=allocated
        )
        holdings.setdefault(consumer, []).append(row)
    return holdings


def _instances(session: Session, uuids: Sequence[str]) -> dict[str, audit.AuditedInstance]:
    query = (
        select(Instance, Own.uuid, Own.name)
        .outerjoin(ComputeNode, _OF_ITS_NODE)
        .outerjoin(Own, Own.uuid == ComputeNode.uuid)
        .where(Instance.uuid.in_(uuids), _ALIVE)
        .execution_options(populate_existing=True)
    )
    rows = session.execute(query).all()
    trees = _trees(session, {str(provider_uuid) for _, provider_uuid, _ in rows if provider_uuid is not None})
    return {
        row.uuid: audit.AuditedInstance(
            host=row.host,
            node=row.node,
            state=row.vm_state,
            holds_resources=row.host is not None and row.vm_state not in _FREE,
            provider_uuid=provider_uuid,
            provider_name=provider_name,
            alternatives=known_alternatives(row.flavor, row.numa_topology),
            tree=trees.get(provider_uuid, ()),
            project_id=row.project_id,
            user_id=row.user_id,
        )
        for row, provider_uuid, provider_name in rows
    }


def _trees(session: Session, root_uuids: Collection[str]) -> dict[str, list[audit.Offer]]:
    """Returns the providers of each node and what is free of them, by the uuid of the root."""
    query = (
        select(Root.uuid, ResourceProvider.uuid, Inventory.resource_class, Inventory.capacity - Inventory.used)
        .join(Root, Root.id == _ROOT_ID)
        .join(Inventory, Inventory.provider_id == ResourceProvider.id)
        .where(Root.uuid.in_(root_uuids))
        .order_by(ResourceProvider.id)
    )
    free: dict[tuple[str, str], dict[str, int]] = {}
    for root_uuid, uuid, name, amount in session.execute(query):
        free.setdefault((root_uuid, uuid), {})[name] = amount
    trees: dict[str, list[audit.Offer]] = {}
    for (root_uuid, uuid), amounts in free.items():
        trees.setdefault(root_uuid, []).append(audit.Offer(provider_uuid=uuid, free=amounts))
    return trees


# -- inventories and providers -----------------------------------------------------------------------------------------


def wrong_used(session: Session, provider_uuid: str | None = None) -> list[AuditFinding]:
    """Finds inventories whose `used` is not the sum of their allocations: of one node's providers,
    or of all providers.
    """
    of = of_node.tree_of(provider_uuid) if provider_uuid is not None else None
    counted = select(Inventory.provider_id, Inventory.resource_class, Inventory.used, literal(0).label("allocated"))
    holdings = select(Allocation.provider_id, Allocation.resource_class, null(), Allocation.used)
    if of is not None:
        counted, holdings = counted.where(Inventory.provider_id.in_(of)), holdings.where(Allocation.provider_id.in_(of))
    books = union_all(counted, holdings).subquery()
    key = (books.c.provider_id, books.c.resource_class)
    used, allocated = func.max(books.c.used), func.sum(books.c.allocated)
    differ = or_(used.is_(None), used != allocated)
    sums = select(*key, used.label("used"), allocated.label("allocated")).group_by(*key).having(differ).subquery()
    query = (
        select(ResourceProvider.uuid, ResourceProvider.name, sums.c.resource_class, sums.c.used, sums.c.allocated)
        .join(sums, sums.c.provider_id == ResourceProvider.id)
        .order_by(ResourceProvider.name, sums.c.resource_class)
    )
    problems = [
        judge_used(
            audit.UsedAmount(
                provider_uuid=uuid, provider_name=name, resource_class=resource_class, used=used, allocated=int(total)
            )
        )
        for uuid, name, resource_class, used, total in session.execute(query)
    ]
    return [finding for finding in problems if finding is not None]


def lost_providers(session: Session) -> list[AuditFinding]:
    """Finds providers that were created for compute nodes that no longer exist."""
    consumer_count = (
        select(func.count(func.distinct(Allocation.consumer_uuid)))
        .join(ResourceProvider, ResourceProvider.id == Allocation.provider_id)
        .where(or_(ResourceProvider.id == Root.id, ResourceProvider.root_provider_id == Root.id))
        .scalar_subquery()
    )
    query = (
        select(Root.uuid, Root.name, consumer_count)
        .where(Root.of_node.is_(True), ~exists().where(ComputeNode.uuid == Root.uuid))
        .order_by(Root.name)
    )
    return [
        judge_provider(audit.ProviderWithoutNode(uuid=row[0], name=row[1], consumers=row[2]))
        for row in session.execute(query)
    ]
