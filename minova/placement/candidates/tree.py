"""Providers as allocation candidates see them, and which of them can serve which part of a request. Pure.

None of these objects can be part of a reference cycle, so Python's garbage collector ignores them (`gc=False`). At
10,000 providers it would take a quarter of the time.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from minova.placement.candidates.request import CandidateRequest, RequestGroup
from minova.placement.limits.inventory_checks import InventoryUsage

# A provider with this trait serves every tree that has one of its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"


class Node(msgspec.Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """One provider. Nodes with equal `traits` or `aggregates` share one set."""

    id: int
    uuid: str
    root_id: int
    root_uuid: str
    parent_id: int | None = None
    parent_uuid: str | None = None
    inventories: Mapping[str, InventoryUsage] = {}
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


class Tree(msgspec.Struct, frozen=True, gc=False):
    """A root, all nodes of its tree (the root among them), and the nodes of other trees that share with it.

    `parents`: {node id: parent's id}, at least of all nodes of this tree and of the trees of the sharing nodes.
    """

    root: Node
    nodes: Collection[Node]
    sharing: Collection[Node]
    parents: Mapping[int, int | None]


class Slot(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A part of the request that one provider must serve: a granular group, or one class of the group without suffix.

    `options`: the providers that can serve it.
    """

    group: RequestGroup
    resources: Mapping[str, int]
    options: tuple[Node, ...]


def sharing_with(nodes: Iterable[Node], sharing: Iterable[Node]) -> list[Node]:
    """Returns those of `sharing` that share an aggregate with a node of the whole tree `nodes` and are not in that
    tree.
    """
    aggregates: frozenset[str] = frozenset()
    root_id = None
    for node in nodes:
        aggregates |= node.aggregates
        root_id = node.root_id
    return [node for node in sharing if node.root_id != root_id and not aggregates.isdisjoint(node.aggregates)]


def slots_of(tree: Tree, request: CandidateRequest, in_trees: Mapping[str, int]) -> list[Slot] | None:
    """Returns None if no provider of this tree can serve a part. `in_trees`: {suffix: root id} of the groups that name
    a tree.
    """
    if not request.root_required <= tree.root.traits or request.root_forbidden & tree.root.traits:
        return None
    slots: list[Slot] = []
    for group in request.groups:
        root_id = in_trees.get(group.suffix)
        slots_of_group = [_granular(tree, group, root_id)] if group.granular else _spread(tree, group, root_id)
        if any(not slot.options for slot in slots_of_group):
            return None
        slots += slots_of_group
    return slots


def _granular(tree: Tree, group: RequestGroup, root_id: int | None) -> Slot:
    """The slot of a group that one provider must serve alone. A sharing provider may be in another tree, also if the
    group names a tree.
    """
    options = [
        node
        for node in (*tree.nodes, *tree.sharing)
        if (root_id is None or node.root_id == root_id) and serves(node, group)
    ]
    return Slot(group, group.resources, tuple(options))


def serves(node: Node, group: RequestGroup) -> bool:
    """Whether this provider alone has all that the group asks for, in whatever tree it is."""
    return (
        _takes(node, group.resources)
        and node.traits.isdisjoint(group.forbidden)
        and node.aggregates.isdisjoint(group.forbidden_aggregates)
        and has_one_each(node.traits, group.required)
        and has_one_each(node.aggregates, group.member_of)
    )


def _spread(tree: Tree, group: RequestGroup, root_id: int | None) -> list[Slot]:
    """Returns a slot for each class. A root's aggregates apply to its whole tree; a sharing provider must itself be in
    the aggregates.
    """
    root = tree.root
    if not root.aggregates.isdisjoint(group.forbidden_aggregates):
        return [Slot(group, group.resources, ())]
    spans = has_one_each(root.aggregates, group.member_of)
    own = () if root_id not in (None, root.id) else tree.nodes
    allowed = [node for node in own if (spans or has_one_each(node.aggregates, group.member_of))]
    if root_id is None:
        allowed += [node for node in tree.sharing if has_one_each(node.aggregates, group.member_of)]
    allowed = [
        node
        for node in allowed
        if node.traits.isdisjoint(group.forbidden) and node.aggregates.isdisjoint(group.forbidden_aggregates)
    ]
    return [
        Slot(
            group,
            {name: amount},
            tuple([n for n in allowed if name in n.inventories and n.inventories[name].takes(amount)]),
        )
        for name, amount in group.resources.items()
    ]


def has_one_each(have: frozenset[str], sets: Iterable[frozenset[str]]) -> bool:
    return all(not have.isdisjoint(some) for some in sets)


def _takes(node: Node, resources: Mapping[str, int]) -> bool:
    return all(name in node.inventories and node.inventories[name].takes(amount) for name, amount in resources.items())
