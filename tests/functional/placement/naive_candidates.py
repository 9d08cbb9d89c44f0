"""Allocation candidates by trying everything: plain Python on the cloud's description, slow and easy to believe."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from minova.placement.candidates.request import CandidateRequest, RequestGroup
from tests.conformance.placement.random_clouds import SHARES


class Naive:
    """`cloud`: as `random_clouds.cloud` makes it."""

    def __init__(self, cloud: Mapping[str, Any]) -> None:
        self._all = {provider["uuid"]: provider for provider in cloud["providers"]}
        self._used: Counter[tuple[str, str]] = Counter()
        for allocations in cloud["consumers"].values():
            for uuid, held in allocations.items():
                self._used.update({(uuid, name): amount for name, amount in held["resources"].items()})

    def candidates(self, request: CandidateRequest) -> set[str]:
        """Each as text: allocations and mappings."""
        roots = [uuid for uuid, provider in self._all.items() if provider["parent"] is None]
        return {candidate for root in roots for candidate in self._of_tree(root, request)}

    def _of_tree(self, root: str, request: CandidateRequest) -> Iterator[str]:
        traits = set(self._all[root]["traits"])
        if not request.root_required <= traits or request.root_forbidden & traits:
            return
        slots = [
            (group, part)
            for group in request.groups
            for part in ([group.resources] if group.granular else [{n: a} for n, a in group.resources.items()])
        ]
        options = [[u for u in self._all if self._may(u, root, group, part)] for group, part in slots]
        for chosen in product(*options):
            amounts: Counter[tuple[str, str]] = Counter()
            mappings: dict[str, set[str]] = {}
            for (group, part), uuid in zip(slots, chosen, strict=True):
                amounts.update({(uuid, name): amount for name, amount in part.items()})
                mappings.setdefault(group.suffix, set()).add(uuid)
            if self._holds(amounts, mappings, request):
                yield text_of(amounts, mappings)

    def _may(self, uuid: str, root: str, group: RequestGroup, part: Mapping[str, int]) -> bool:
        inside = self._root_of(uuid) == root
        if not inside and not self._shares_with(uuid, root):
            return False
        provider, above = self._all[uuid], self._all[root]
        if group.in_tree is not None:
            named = self._root_of(group.in_tree)
            if self._root_of(uuid) != named or (not group.granular and not inside):
                return False
        if set(group.forbidden) & set(provider["traits"]):
            return False
        if group.granular and not _one_each(provider["traits"], group.required):
            return False
        spread = [] if group.granular else above["aggregates"]
        if set(group.forbidden_aggregates) & {*provider["aggregates"], *spread}:
            return False
        member = _one_each(provider["aggregates"], group.member_of)
        if not member and not (inside and not group.granular and _one_each(above["aggregates"], group.member_of)):
            return False
        return all(self._room(uuid, name, amount, of_many=False) for name, amount in part.items())

    def _room(self, uuid: str, name: str, amount: int, *, of_many: bool) -> bool:
        inventory = self._all[uuid]["inventories"].get(name)
        if inventory is None:
            return False
        capacity = int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
        fits = self._used[uuid, name] + amount <= capacity and amount <= inventory["max_unit"]
        return fits and (of_many or (amount >= inventory["min_unit"] and amount % inventory["step_size"] == 0))

    def _root_of(self, uuid: str) -> str:
        while self._all[uuid]["parent"] is not None:
            uuid = self._all[uuid]["parent"]
        return uuid

    def _shares_with(self, uuid: str, root: str) -> bool:
        if SHARES not in self._all[uuid]["traits"]:
            return False
        tree = [provider_uuid for provider_uuid in self._all if self._root_of(provider_uuid) == root]
        return any(
            set(self._all[provider_uuid]["aggregates"]) & set(self._all[uuid]["aggregates"]) for provider_uuid in tree
        )

    def _holds(
        self, amounts: Mapping[tuple[str, str], int], mappings: Mapping[str, set[str]], request: CandidateRequest
    ) -> bool:
        if not all(self._room(uuid, name, amount, of_many=True) for (uuid, name), amount in amounts.items()):
            return False
        for group in request.groups:
            traits = {trait for uuid in mappings[group.suffix] for trait in self._all[uuid]["traits"]}
            if not _one_each(traits, group.required):
                return False
        granular = [group.suffix for group in request.groups if group.granular]
        apart = {uuid for suffix in granular for uuid in mappings[suffix]}
        if request.isolate and len(apart) != len(granular):
            return False
        if not request.nested:
            used = {uuid for uuid, _ in amounts}
            if len(used) != len({self._root_of(uuid) for uuid in used}):
                return False
        return all(self._one_above({u for s in suffixes for u in mappings[s]}) for suffixes in request.same_subtrees)

    def _one_above(self, uuids: set[str]) -> bool:
        return any(all(top in self._line(uuid) for uuid in uuids) for top in uuids)

    def _line(self, uuid: str | None) -> Iterator[str]:
        while uuid is not None:
            yield uuid
            uuid = self._all[uuid]["parent"]


def _one_each(have: Any, sets: Any) -> bool:
    return all(set(have) & set(some) for some in sets)


def text_of(amounts: Mapping[tuple[str, str], int], mappings: Mapping[str, Any]) -> str:
    held = sorted((uuid, name, amount) for (uuid, name), amount in amounts.items())
    return json.dumps([held, {suffix: sorted(uuids) for suffix, uuids in sorted(mappings.items())}])
