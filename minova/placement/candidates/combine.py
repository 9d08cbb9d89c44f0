"""Finds providers that together serve a whole request. Tries every assignment of providers to the request's slots, one
slot after the other.

An assignment is abandoned as soon as it cannot succeed: no capacity left, one provider for two groups that must be
apart, no common ancestor. The states of dead ends are remembered, so that a dead end that is reached again in another
order is not searched again. Assignments are generated one by one: a caller that needs few of them pays only for these.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

import msgspec

from minova.placement.candidates.request import CandidateRequest
from minova.placement.candidates.tree import Node, Slot, Tree, has_one_each, slots_of

# The provider of each slot.
Assignment: TypeAlias = tuple[Node, ...]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """`nodes[i]` serves `slots[i]`."""

    slots: Sequence[Slot]
    nodes: Assignment

    def allocations(self) -> dict[str, dict[str, int]]:
        """Returns {provider uuid: {class: amount}}."""
        amounts: dict[str, dict[str, int]] = {}
        for slot, node in zip(self.slots, self.nodes, strict=True):
            for name, amount in slot.resources.items():
                of_node = amounts.setdefault(node.uuid, {})
                of_node[name] = of_node.get(name, 0) + amount
        return amounts

    def mappings(self) -> dict[str, list[str]]:
        """Returns {suffix: provider uuids}."""
        providers: dict[str, dict[str, None]] = {}
        for slot, node in zip(self.slots, self.nodes, strict=True):
            providers.setdefault(slot.group.suffix, {})[node.uuid] = None
        return {suffix: list(uuids) for suffix, uuids in providers.items()}

    def holders(self) -> list[Node]:
        """Returns the providers from which something is taken."""
        return [node for slot, node in zip(self.slots, self.nodes, strict=True) if slot.resources]

    def key(self) -> frozenset[tuple[str, tuple[str, ...], int]]:
        """A key that is equal for the same choice, also if another tree leads to it."""
        served = zip(self.slots, self.nodes, strict=True)
        return frozenset((slot.group.suffix, tuple(slot.resources), node.id) for slot, node in served)


class Combiner:
    """`in_trees`: {suffix: root id} of the groups that name a tree."""

    def __init__(self, request: CandidateRequest, in_trees: Mapping[str, int]) -> None:
        self._request = request
        self._in_trees = in_trees
        names = [name for group in request.groups for name in group.resources]
        self._contended = request.isolate or len(names) > len(set(names))
        # Whether the choice for one slot restricts the choice for another.
        self._independent = (
            not self._contended
            and request.nested
            and not request.same_subtrees
            and not any(group.required for group in request.groups if not group.granular)
        )

    def candidates_of(self, tree: Tree) -> Iterator[Candidate]:
        """Yields all candidates of one tree. The same providers may occur again for another tree if they share with
        both.
        """
        slots = slots_of(tree, self._request, self._in_trees)
        if slots is None or (self._contended and not _may_fit(slots, self._request.isolate)):
            return
        slots.sort(key=lambda slot: len(slot.options))
        if self._independent:
            assignments: Iterator[Assignment] = product(*(slot.options for slot in slots))
        else:
            assignments = _AssignmentSearch(tree.parents, slots, self._request).assignments()
        for assignment in assignments:
            yield Candidate(slots, assignment)


def _may_fit(slots: Sequence[Slot], isolate: bool) -> bool:
    """Returns False if the slots that only certain providers can serve need more than these providers have together."""
    for options in {slot.options for slot in slots}:
        among = set(options)
        confined = [slot for slot in slots if among.issuperset(slot.options)]
        if isolate and sum(slot.group.granular for slot in confined) > len(among):
            return False
        requested: Counter[str] = Counter()
        for slot in confined:
            requested.update(slot.resources)
        for name, amount in requested.items():
            inventories = [node.inventories[name] for node in options if name in node.inventories]
            if amount > sum(max(0, inventory.capacity - inventory.used) for inventory in inventories):
                return False
    return True


class _AssignmentSearch:
    """Holds the choices made so far. Backtracking undoes them one by one."""

    def __init__(self, parents: Mapping[int, int | None], slots: Sequence[Slot], request: CandidateRequest) -> None:
        self._slots = slots
        self._request = request
        self._parents = parents
        self._chosen: list[Node] = []
        self._used: Counter[tuple[int, str]] = Counter()
        self._dead: set[object] = set()
        self._ancestors: dict[int, frozenset[int]] = {}
        # For each same_subtree: the slots that it covers.
        self._subtrees = [
            frozenset(index for index, slot in enumerate(slots) if slot.group.suffix in suffixes)
            for suffixes in request.same_subtrees
        ]
        self._required = next((slot.group.required for slot in slots if not slot.group.granular), ())
        self._traits_later = self._traits_from_each() if self._required else []

    def _traits_from_each(self) -> list[frozenset[str]]:
        """Returns, for each slot, the traits that this slot and later slots of the group without a suffix may
        contribute.
        """
        sets: list[frozenset[str]] = [frozenset()]
        for slot in reversed(self._slots):
            more = [] if slot.group.granular else [node.traits for node in slot.options]
            sets.append(sets[-1].union(*more))
        return sets[::-1]

    def assignments(self) -> Iterator[Assignment]:
        index = len(self._chosen)
        if index == len(self._slots):
            yield tuple(self._chosen)
            return
        state = self._state()
        if state in self._dead:
            return
        succeeded = False
        slot = self._slots[index]
        for node in slot.options:
            if not self._allows(slot, node):
                continue
            self._choose(slot, node)
            if self._can_go_on():
                for assignment in self.assignments():
                    succeeded = True
                    yield assignment
            self._take_back(slot, node)
        if not succeeded:
            self._dead.add(state)

    def _choose(self, slot: Slot, node: Node) -> None:
        self._chosen.append(node)
        for name, amount in slot.resources.items():
            self._used[node.id, name] += amount

    def _take_back(self, slot: Slot, node: Node) -> None:
        self._chosen.pop()
        for name, amount in slot.resources.items():
            self._used[node.id, name] -= amount
            if not self._used[node.id, name]:
                del self._used[node.id, name]

    def _allows(self, slot: Slot, node: Node) -> bool:
        for name, amount in slot.resources.items():
            chosen_amount = self._used.get((node.id, name), 0)
            inventory = node.inventories[name]
            if chosen_amount and (
                inventory.used + chosen_amount + amount > inventory.capacity
                or chosen_amount + amount > inventory.max_unit
            ):
                return False
        if self._request.isolate and slot.group.granular and node in self._apart():
            return False
        return self._request.nested or all(node.root_id != other.root_id or node is other for other in self._chosen)

    def _apart(self) -> list[Node]:
        return [node for slot, node in self._served() if slot.group.granular]

    def _served(self) -> Iterator[tuple[Slot, Node]]:
        return zip(self._slots, self._chosen, strict=False)

    def _can_go_on(self) -> bool:
        return all(self._subtree_holds(indices) for indices in self._subtrees) and self._traits_hold()

    def _subtree_holds(self, indices: frozenset[int]) -> bool:
        """Whether a chosen provider, or one that may still be chosen, is an ancestor of all chosen ones (or is the only
        one).
        """
        chosen = {node.id for index, node in enumerate(self._chosen) if index in indices}
        if len(chosen) < 2:
            return True
        above = frozenset.intersection(*(self._ancestors_of(node_id) for node_id in chosen))
        if above & chosen:
            return True
        later = [self._slots[index] for index in indices if index >= len(self._chosen)]
        return any(node.id in above for slot in later for node in slot.options)

    def _ancestors_of(self, node_id: int) -> frozenset[int]:
        """Includes the node itself."""
        if node_id not in self._ancestors:
            ancestors, at = {node_id}, self._parents.get(node_id)
            while at is not None and at not in ancestors:
                ancestors.add(at)
                at = self._parents.get(at)
            self._ancestors[node_id] = frozenset(ancestors)
        return self._ancestors[node_id]

    def _traits_hold(self) -> bool:
        """Whether the providers of the group without a suffix have its traits together, or still may."""
        if not self._required:
            return True
        have = self._traits_later[len(self._chosen)]
        have = have.union(*(node.traits for slot, node in self._served() if not slot.group.granular))
        return has_one_each(have, self._required)

    def _state(self) -> object:
        """Everything that determines whether the remaining slots can be filled."""
        return (
            len(self._chosen),
            frozenset(self._used.items()),
            frozenset(node.id for node in self._apart()) if self._request.isolate else None,
            frozenset(node.id for slot, node in self._served() if not slot.group.granular) if self._required else None,
            tuple(
                frozenset(node.id for index, node in enumerate(self._chosen) if index in indices)
                for indices in self._subtrees
            ),
        )
