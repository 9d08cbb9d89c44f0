"""Compares what the instances of one node should hold of it with what they do hold. Runs with each audit of the node.

One statement only finds suspects. They are then judged and healed under the locks, as `minova-manage placement audit`
does it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import exists, literal, select, union_all
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Allocation, Consumer, Instance, Inventory, Migration
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.node_audit import Drift
from minova.objects.requests.resource_request import claimed_as
from minova.objects.servers import instance as objects
from minova.objects.servers.migration import ENDED
from minova.placement.audit import gather
from minova.placement.audit.heal import heal
from minova.placement.audit.judge import AuditFinding, FindingKind, known_alternatives
from minova.placement.providers import of_node

# Built once: every audit of every node runs them.
_HERE = Allocation.provider_id.in_(of_node.TREE)
# What each consumer holds and, in rows without a consumer, the `used` of the inventories.
_BOOKS = union_all(
    select(Allocation.consumer_uuid, Allocation.provider_id, Allocation.resource_class, Allocation.used).where(_HERE),
    select(literal(""), Inventory.provider_id, Inventory.resource_class, Inventory.used).where(
        Inventory.provider_id.in_(of_node.TREE)
    ),
)
_GONE = (
    select(Consumer.uuid)
    .join(Allocation, Allocation.consumer_uuid == Consumer.uuid)
    .where(
        _HERE,
        Consumer.consumer_type == gather.INSTANCE,
        ~exists().where(Instance.uuid == Consumer.uuid, Instance.deleted_at.is_(None)),
        ~exists().where(Migration.uuid == Consumer.uuid, Migration.status.not_in(sorted(ENDED))),
    )
)

# {consumer: {(provider id, resource class): amount}}.
Held = Mapping[str, Mapping[tuple[int, str], int]]
Run = Callable[[Callable[[Session], Any]], Any]


def suspects(session: Session, provider_uuid: str, instances: Iterable[objects.Instance]) -> tuple[str, ...] | None:
    """Returns idle instances that hold something else than the scheduler claims for them; None if everything is
    correct.
    """
    amounts_by_consumer: dict[str, dict[tuple[int, str], int]] = {}
    for uuid, provider_id, name, amount in session.connection().execute(_BOOKS, {"of": provider_uuid}).all():
        amounts_by_consumer.setdefault(uuid, {})[provider_id, name] = amount
    used = {key: amount for key, amount in amounts_by_consumer.pop("", {}).items() if amount}
    differing = tuple(sorted(_differing(amounts_by_consumer, instances)))
    return differing if differing or used != _total(amounts_by_consumer) else None


def holders_gone(session: Session, provider_uuid: str) -> list[str]:
    """Returns instances and moves that hold something of the node but no longer exist."""
    return sorted(set(session.connection().execute(_GONE, {"of": provider_uuid}).scalars()))


def _total(held: Held) -> dict[tuple[int, str], int]:
    total: dict[tuple[int, str], int] = {}
    for resources in held.values():
        for key, amount in resources.items():
            total[key] = total.get(key, 0) + amount
    return {key: amount for key, amount in total.items() if amount}


def _differing(held: Held, instances: Iterable[objects.Instance]) -> Iterable[str]:
    known: tuple[Flavor, tuple[Mapping[str, int], ...]] | None = None  # most guests of a host have one flavor
    for instance in instances:
        if instance.task_state is None:
            own: dict[str, int] = {}
            for (_, name), amount in held.get(instance.uuid, {}).items():
                own[name] = own.get(name, 0) + amount
            if instance.numa_topology is not None:
                alternatives = known_alternatives(instance.flavor, instance.numa_topology)
            else:
                if known is None or known[0] != instance.flavor:
                    known = instance.flavor, known_alternatives(instance.flavor, None)
                alternatives = known[1]
            if alternatives and not claimed_as(own, alternatives):
                yield instance.uuid


def restore(
    run: Run, now: Any, provider_uuid: str, instance_uuids: Iterable[str], guests: Collection[str]
) -> tuple[tuple[Drift, ...], tuple[str, ...]]:
    """Heals each finding in a transaction of its own. Returns what was corrected, and what stays wrong and why.

    `guests`: instances whose guests the node has. Only theirs is an allocation moved to the node: the row of another
    one may be wrong.
    """
    restored: list[Drift] = []
    unrestored: list[str] = []
    # Wrong amounts first: the decision whether there is enough capacity depends on them.
    findings = run(lambda session: gather.wrong_used(session, provider_uuid))
    findings += [consumer_finding for uuid in instance_uuids for consumer_finding in _finding(run, uuid)]
    for finding in findings:
        reason = _heal(run, now, finding, guests)
        whose = f"{finding.consumer_uuid} {finding.detail}" if finding.consumer_uuid else finding.detail
        if reason is None:
            restored.append(Drift(figure="allocations", kept=whose, found=finding.remedy))
        else:
            unrestored.append(f"{finding.kind}: {whose}: {reason}")
    return tuple(restored), tuple(unrestored)


def _finding(run: Run, uuid: str) -> list[AuditFinding]:
    verdict, _ = run(lambda session: gather.verdict_of(session, uuid))
    return [verdict.finding] if verdict is not None else []


def _heal(run: Run, now: Any, finding: AuditFinding, guests: Collection[str]) -> str | None:
    """Returns why the finding was not corrected; None if it was."""
    if finding.kind is FindingKind.WRONG_PROVIDER and finding.consumer_uuid not in guests:
        return "the node has no guest of it. Left to minova-manage placement audit --fix"
    try:
        run(lambda session: heal(session, finding, now))
    except errors.Conflict as error:
        return str(error)
    return None
