"""Which rows of Placement contradict each other, and what corrects them. Pure.

An instance with a task or a move in progress is never judged: its claim may be in progress. An instance's host and
allocations change only while it has a task, in the same transaction as the task's end. So a finding about an instance
without a task does not resolve by itself. A move holds something as long as it is open, or has still to be cleaned up.
Consumers of other types than INSTANCE and MIGRATION, and providers that users created over HTTP, are left alone. Corrections change only what Placement counts of an instance, never the instance.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.requests.resource_request import ENCRYPTION_CONTEXT, claimed_as, resource_alternatives
from minova.objects.servers.migration import ENDED


class FindingKind(StrEnum):
    WITHOUT_INSTANCE = "allocation without instance"
    MOVE_IS_OVER = "allocation of a move that is over"
    WITHOUT_ALLOCATION = "instance without allocation"
    WRONG_PROVIDER = "allocation on the wrong provider"
    WRONG_AMOUNT = "allocation of another amount"
    WRONG_USED = "wrong used"
    WITHOUT_NODE = "provider without node"
    GUEST_WITHOUT_ROW = "guest without server"
    NEWER_GUEST = "guest newer than its server"
    MISPLACED_GUEST = "guest on another host than its server"
    WITHOUT_GUEST = "server without guest"
    WITHOUT_COPY = "move without the copy of its source"


class AuditFinding(msgspec.Struct, frozen=True, kw_only=True):
    """`consumer_uuid`: the uuid of the instance or of the migration. `remedy`: what a fix does; empty: this tool cannot correct it."""

    kind: FindingKind
    detail: str
    remedy: str = ""
    consumer_uuid: str | None = None
    provider_uuid: str | None = None
    resource_class: str | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer holds of one provider. `of_node`: the root of the provider's tree was created
    for a compute node.
    """

    provider_uuid: str
    provider_name: str
    root_uuid: str
    of_node: bool
    resources: Mapping[str, int]


class AuditedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that holds something for a move. `status`: of the migration; None: there is none. `owes`: a host has still to
    remove what the move has left.
    """

    uuid: str
    holdings: Sequence[Holding]
    status: str | None
    owes: bool


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of a node's tree, and what is free of each of its resource classes."""

    provider_uuid: str
    free: Mapping[str, int]


class AuditedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that is not deleted.

    `provider_uuid`, `provider_name`: of its compute node, None if the node has no provider.
    `alternatives`: what the scheduler may have claimed for it, the preferred first (see `resource_alternatives`); empty
    if its flavor cannot be read.
    `tree`: the providers of its node, the root first.
    `holds_resources`: it is on a host, in a state in which it needs resources.
    """

    host: str | None
    node: str | None
    state: str
    holds_resources: bool
    provider_uuid: str | None
    provider_name: str | None
    alternatives: Sequence[Mapping[str, int]]
    tree: Sequence[Offer] = ()
    project_id: str = ""
    user_id: str = ""


class AuditedConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """`instance` None: there is no such instance. `busy`: the instance has a task or a move in progress."""

    uuid: str
    holdings: Sequence[Holding]
    instance: AuditedInstance | None
    busy: bool


class ConsumerVerdict(msgspec.Struct, frozen=True):
    """`allocations`: what the consumer should hold, {provider uuid: {class: amount}}."""

    finding: AuditFinding
    allocations: Mapping[str, Mapping[str, int]]


class UsedAmount(msgspec.Struct, frozen=True, kw_only=True):
    """An inventory's `used` (None: there is no such inventory) and the sum of its allocations."""

    provider_uuid: str
    provider_name: str
    resource_class: str
    used: int | None
    allocated: int


class ProviderWithoutNode(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that was created for a compute node that no longer exists. `consumers`: how many hold something of its
    tree.
    """

    uuid: str
    name: str
    consumers: int


def judge(consumer: AuditedConsumer) -> ConsumerVerdict | None:
    """Returns None if nothing is wrong, or it cannot be decided now."""
    instance = consumer.instance
    if consumer.busy:
        return None
    if instance is None or not instance.holds_resources:
        return _nothing_to_hold(consumer) if consumer.holdings else None
    if instance.provider_uuid is None:
        return None
    wrong = [
        holding for holding in consumer.holdings if holding.of_node and holding.root_uuid != instance.provider_uuid
    ]
    right = [holding for holding in consumer.holdings if holding.root_uuid == instance.provider_uuid]
    if wrong:
        return _wrong_provider(consumer, instance, wrong, moves=not right)
    return _wrong_amount(consumer, instance, right) if right else _without_allocation(consumer, instance)


def _nothing_to_hold(consumer: AuditedConsumer) -> ConsumerVerdict:
    instance = consumer.instance
    why = "there is no such instance" if instance is None else f"the instance is {instance.state} and on no host"
    finding = AuditFinding(
        kind=FindingKind.WITHOUT_INSTANCE,
        consumer_uuid=consumer.uuid,
        provider_uuid=consumer.holdings[0].provider_uuid,
        detail=f"holds {text_of(consumer.holdings)}, but {why}",
        remedy="release what it holds",
    )
    return ConsumerVerdict(finding, {})


def _wrong_provider(
    consumer: AuditedConsumer, instance: AuditedInstance, wrong: Sequence[Holding], *, moves: bool
) -> ConsumerVerdict:
    right_holdings = {
        holding.provider_uuid: dict(holding.resources) for holding in consumer.holdings if holding not in wrong
    }
    if moves:
        for name, amount in _sum(holding.resources for holding in wrong).items():
            _set_amount(right_holdings, instance, (), name, amount)
    finding = AuditFinding(
        kind=FindingKind.WRONG_PROVIDER,
        consumer_uuid=consumer.uuid,
        provider_uuid=wrong[0].provider_uuid,
        detail=f"holds {text_of(wrong)}, but the instance is on {instance.provider_name}",
        remedy=f"move it to {instance.provider_name}" if moves else "release that part",
    )
    return ConsumerVerdict(finding, right_holdings)


def _wrong_amount(
    consumer: AuditedConsumer, instance: AuditedInstance, right: Sequence[Holding]
) -> ConsumerVerdict | None:
    """Judges only classes that an alternative names: the instance holds other classes for other reasons."""
    total = _sum(holding.resources for holding in right)
    if not instance.alternatives or claimed_as(total, instance.alternatives):
        return None
    alternative = _nearest(total, instance)
    finding = AuditFinding(
        kind=FindingKind.WRONG_AMOUNT,
        consumer_uuid=consumer.uuid,
        provider_uuid=right[0].provider_uuid,
        detail=f"holds {text_of(right)}, but its flavor takes {' or '.join(map(_resources, instance.alternatives))}",
        remedy=f"hold {_resources(alternative)}",
    )
    holdings = {holding.provider_uuid: dict(holding.resources) for holding in consumer.holdings}
    for name in {name for resources in instance.alternatives for name in resources}:
        if total.get(name) != alternative.get(name):
            _set_amount(holdings, instance, right, name, alternative.get(name, 0))
    return ConsumerVerdict(finding, {provider: resources for provider, resources in holdings.items() if resources})


def _without_allocation(consumer: AuditedConsumer, instance: AuditedInstance) -> ConsumerVerdict | None:
    if not instance.alternatives:
        return None
    alternative = _nearest({}, instance)
    finding = AuditFinding(
        kind=FindingKind.WITHOUT_ALLOCATION,
        consumer_uuid=consumer.uuid,
        provider_uuid=instance.provider_uuid,
        detail=f"{instance.state} on {instance.provider_name}, of which it holds nothing",
        remedy=f"allocate {_resources(alternative)} on {instance.provider_name}",
    )
    holdings = {holding.provider_uuid: dict(holding.resources) for holding in consumer.holdings}
    for name, amount in alternative.items():
        _set_amount(holdings, instance, (), name, amount)
    return ConsumerVerdict(finding, holdings)


def _nearest(held: Mapping[str, int], instance: AuditedInstance) -> Mapping[str, int]:
    """Returns the alternative that needs the fewest changes; of these one for which there is enough capacity; of these
    the scheduler's preferred one.
    """

    def cost(alternative: Mapping[str, int]) -> tuple[int, int]:
        class_names = {name for resources in instance.alternatives for name in resources}
        more = {name: alternative.get(name, 0) - held.get(name, 0) for name in class_names}
        changed = sum(amount != 0 for amount in more.values())
        return changed, sum(_offering(instance, name, amount) is None for name, amount in more.items() if amount > 0)

    return min(instance.alternatives, key=cost)


def _offering(instance: AuditedInstance, name: str, amount: int) -> str | None:
    """Returns the provider of the node's tree that has `amount` free of the class: the root, else the one with the most
    free.
    """
    able = [offer for offer in instance.tree if offer.free.get(name, 0) >= amount]
    if not able:
        return None
    return max(
        able, key=lambda candidate: (candidate.provider_uuid == instance.provider_uuid, candidate.free[name])
    ).provider_uuid


def _set_amount(
    kept: dict[str, dict[str, int]], instance: AuditedInstance, right: Sequence[Holding], name: str, amount: int
) -> None:
    """Sets the amount of one class. If several providers of the tree gave it, the one that gave most gives all of it
    from now on.
    """
    holders = sorted(
        (holder for holder in right if holder.resources.get(name)), key=lambda holder: -holder.resources[name]
    )
    giving = [holding.provider_uuid for holding in holders]
    for provider in giving:
        del kept[provider][name]
    if amount:
        provider = giving[0] if giving else _offering(instance, name, amount) or str(instance.provider_uuid)
        kept.setdefault(provider, {})[name] = amount


def known_alternatives(flavor: Flavor, numa_topology: InstanceNUMATopology | None) -> tuple[Mapping[str, int], ...]:
    """As `resource_alternatives`, but empty if the flavor is malformed; some older releases accepted such flavors. They also built
    guests with plain memory where the flavor asked for encrypted memory, which hold no context of it.
    """
    try:
        alternatives = resource_alternatives(flavor, numa_topology)
    except errors.BadRequest:
        return ()
    plain = [
        {name: amount for name, amount in resources.items() if name != ENCRYPTION_CONTEXT}
        for resources in alternatives
        if ENCRYPTION_CONTEXT in resources
    ]
    return (*alternatives, *plain)


def judge_move(move: AuditedMove) -> AuditFinding | None:
    if not move.holdings or move.owes or (move.status is not None and move.status not in ENDED):
        return None
    why = "there is no such migration" if move.status is None else f"its migration is {move.status}"
    return AuditFinding(
        kind=FindingKind.MOVE_IS_OVER,
        consumer_uuid=move.uuid,
        provider_uuid=move.holdings[0].provider_uuid,
        detail=f"holds {text_of(move.holdings)}, but {why}",
        remedy="release what it holds",
    )


def judge_used(amount: UsedAmount) -> AuditFinding | None:
    if amount.used == amount.allocated:
        return None
    statement = "has no inventory" if amount.used is None else f"says {amount.used} are used"
    return AuditFinding(
        kind=FindingKind.WRONG_USED,
        provider_uuid=amount.provider_uuid,
        resource_class=amount.resource_class,
        detail=f"{amount.resource_class} of {amount.provider_name} {statement}; the sum of its allocations is {amount.allocated}",
        remedy=f"set used to {amount.allocated}" if amount.used is not None else "add an inventory without room",
    )


def judge_provider(provider: ProviderWithoutNode) -> AuditFinding:
    consumers = f", and {provider.consumers} consumers hold something of it" if provider.consumers else ""
    return AuditFinding(
        kind=FindingKind.WITHOUT_NODE,
        provider_uuid=provider.uuid,
        detail=f"{provider.name} was made for a compute node that there is no more{consumers}",
        remedy="delete the provider, once nothing of it is held" if provider.consumers else "delete the provider",
    )


def text_of(holdings: Iterable[Holding]) -> str:
    return ", ".join(f"{_resources(holding.resources)} on {holding.provider_name}" for holding in holdings)


def _resources(resources: Mapping[str, int]) -> str:
    return " ".join(f"{name}={amount}" for name, amount in sorted(resources.items()))


def _sum(each: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for resources in each:
        for name, amount in resources.items():
            total[name] = total.get(name, 0) + amount
    return total
