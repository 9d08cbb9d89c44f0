"""A prefilter in SQL: the trees in which each part of a request has a provider that could serve it.

It may pass a tree that cannot serve the request, but never drops one that can: `combine` decides.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

from sqlalchemy import and_, bindparam, exists, false, or_, select, true
from sqlalchemy.orm import aliased
from sqlalchemy.sql import ColumnElement, Select

from minova.db.models import Inventory, ProviderAggregate, ProviderTrait, ResourceProvider
from minova.placement.candidates.request import CandidateRequest, RequestGroup
from minova.placement.candidates.tree import Node, has_one_each, serves

Root = aliased(ResourceProvider)
Child = aliased(ResourceProvider)
Member = aliased(ResourceProvider)
Condition: TypeAlias = ColumnElement[bool]
# A condition on a provider, made from the column of its id.
Need: TypeAlias = Callable[[Any], Condition]


def roots(
    request: CandidateRequest, *, nested: bool, sharing: Collection[Node], in_trees: Mapping[str, int]
) -> Select[Any]:
    """Selects at most `limit` ids of roots above the parameter `after`, in their order.

    `nested`: whether any provider has children.
    `sharing`: all sharing nodes.
    `in_trees`: {suffix: root id}.
    """
    conditions: list[Condition] = [_has_traits(Root.id, [name]) for name in sorted(request.root_required)]
    if request.root_forbidden:
        conditions.append(~_has_traits(Root.id, request.root_forbidden))
    for group, root_id in _distinct(request.groups, in_trees):
        among = _granular if group.granular else _spread
        conditions += among(group, nested, sharing, root_id)
    return (
        select(Root.id)
        .where(Root.parent_provider_id.is_(None), Root.id > bindparam("after"), *conditions)
        .order_by(Root.id)
        .limit(bindparam("limit"))
    )


def _distinct(groups: Iterable[RequestGroup], in_trees: Mapping[str, int]) -> Iterable[tuple[RequestGroup, int | None]]:
    """Groups that ask for the same need only one condition, for example eight devices of the same kind."""
    distinct: dict[Any, tuple[RequestGroup, int | None]] = {}
    for group in groups:
        root_id = in_trees.get(group.suffix)
        key = (
            group.granular,
            tuple(sorted(group.resources.items())),
            group.required,
            group.forbidden,
            group.member_of,
            group.forbidden_aggregates,
            root_id,
        )
        distinct[key] = (group, root_id)
    return distinct.values()


def _granular(group: RequestGroup, nested: bool, sharing: Collection[Node], root_id: int | None) -> list[Condition]:
    def need(provider: Any) -> Condition:
        return and_(
            true(),
            *(_has_inventory(provider, name, amount) for name, amount in group.resources.items()),
            *_unspoilt(provider, group),
            *(_has_traits(provider, some) for some in group.required),
            *(_in_aggregates(provider, some) for some in group.member_of),
        )

    able = [node for node in sharing if serves(node, group) and root_id in (None, node.root_id)]
    return [_served(need, nested, able, root_id)]


def _spread(group: RequestGroup, nested: bool, sharing: Collection[Node], root_id: int | None) -> list[Condition]:
    able = [node for node in sharing if root_id is None and has_one_each(node.aggregates, group.member_of)]
    spans = and_(true(), *(_in_aggregates(Root.id, some) for some in group.member_of))

    def allowed(provider: Any) -> Condition:
        within = or_(spans, and_(true(), *(_in_aggregates(provider, some) for some in group.member_of)))
        return and_(*_unspoilt(provider, group), within if group.member_of else true())

    def class_condition(name: str, amount: int) -> Condition:
        able_to_give = [node for node in able if name in node.inventories and node.inventories[name].takes(amount)]
        return _served(lambda id: and_(_has_inventory(id, name, amount), allowed(id)), nested, able_to_give, root_id)

    def one_of(names: frozenset[str]) -> Condition:
        bearers = [node for node in able if not node.traits.isdisjoint(names)]
        return _served(lambda id: and_(_has_traits(id, names), allowed(id)), nested, bearers, root_id)

    conditions = [class_condition(name, amount) for name, amount in group.resources.items()]
    conditions += [one_of(names) for names in group.required]
    if group.forbidden_aggregates:
        conditions.append(~_in_aggregates(Root.id, group.forbidden_aggregates))
    return conditions


def _served(need: Need, nested: bool, able: Iterable[Node], root_id: int | None) -> Condition:
    """The condition that the need is met by the root, by a provider below it, or by one of `able`, which share with the
    tree.
    """
    within = need(Root.id)
    if nested:
        below = exists().where(Child.root_provider_id == Root.id, Child.parent_provider_id.is_not(None), need(Child.id))
        within = or_(within, below)
    if root_id is not None:
        within = and_(Root.id == root_id, within)
    aggregates = frozenset().union(*(node.aggregates for node in able))
    return or_(within, _tree_in(aggregates, nested) if aggregates else false())


def _tree_in(aggregates: Collection[str], nested: bool) -> Condition:
    own = _in_aggregates(Root.id, aggregates)
    if not nested:
        return own
    return or_(own, exists().where(Member.root_provider_id == Root.id, _in_aggregates(Member.id, aggregates)))


def _unspoilt(provider: Any, group: RequestGroup) -> list[Condition]:
    conditions: list[Condition] = []
    if group.forbidden:
        conditions.append(~_has_traits(provider, group.forbidden))
    if group.forbidden_aggregates:
        conditions.append(~_in_aggregates(provider, group.forbidden_aggregates))
    return conditions


def _has_inventory(provider: Any, name: str, amount: int) -> Condition:
    return exists().where(
        Inventory.provider_id == provider,
        Inventory.resource_class == name,
        Inventory.used + amount <= Inventory.capacity,
        Inventory.min_unit <= amount,
        Inventory.max_unit >= amount,
        amount % Inventory.step_size == 0,
    )


def _has_traits(provider: Any, names: Iterable[str]) -> Condition:
    """The provider has one of these traits."""
    return exists().where(ProviderTrait.provider_id == provider, ProviderTrait.trait.in_(sorted(names)))


def _in_aggregates(provider: Any, uuids: Iterable[str]) -> Condition:
    return exists().where(
        ProviderAggregate.provider_id == provider, ProviderAggregate.aggregate_uuid.in_(sorted(uuids))
    )
