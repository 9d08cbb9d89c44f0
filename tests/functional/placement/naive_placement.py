"""Placement in plain Python: dicts, and sums made anew each time. It says what each change must come to."""

from collections import Counter
from typing import Any

from minova.placement.providers.inventories import Numbers

# What a change comes to: done, or the kind of its refusal.
DONE, CONFLICT, BAD, NOT_FOUND = "done", "Conflict", "BadRequest", "NotFound"
Resources = dict[str, int]


class NaiveProvider:
    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.generation = 0
        self.inventories: dict[str, Numbers] = {}
        self.traits: set[str] = set()
        self.aggregates: set[str] = set()


class NaivePlacement:
    def __init__(self) -> None:
        self.providers: dict[str, NaiveProvider] = {}
        # {consumer: {provider: {class: amount}}}, nothing of those that hold nothing.
        self.held: dict[str, dict[str, Resources]] = {}
        # The row of a consumer outlives what it held once a scheduler has claimed for it: (generation, claim number).
        self.rows: dict[str, tuple[int, int]] = {}

    # -- looks -----------------------------------------------------------------------------------------------------

    def used(self) -> Counter[tuple[str, str]]:
        total: Counter[tuple[str, str]] = Counter()
        for allocations in self.held.values():
            for provider, resources in allocations.items():
                total.update({(provider, name): amount for name, amount in resources.items()})
        return total

    def root_of(self, name: str) -> str:
        parent = self.providers[name].parent
        return name if parent is None else self.root_of(parent)

    def below(self, name: str) -> set[str]:
        """And itself."""
        subtree = {name}
        for child, provider in self.providers.items():
            if provider.parent == name:
                subtree |= self.below(child)
        return subtree

    def generation_of(self, consumer: str) -> int | None:
        """As the API shows it: None for one that holds nothing."""
        return self.rows[consumer][0] if consumer in self.held else None

    def cloud(self) -> dict[str, Any]:
        """As `random_clouds.cloud` makes one, parents before their children."""
        names = sorted(self.providers, key=lambda name: len([n for n in self.providers if name in self.below(n)]))
        return {
            "providers": [
                {
                    "uuid": name,
                    "parent": self.providers[name].parent,
                    "inventories": {
                        of: {field: getattr(numbers, field) for field in Numbers.__struct_fields__}
                        for of, numbers in self.providers[name].inventories.items()
                    },
                    "traits": sorted(self.providers[name].traits),
                    "aggregates": sorted(self.providers[name].aggregates),
                }
                for name in names
            ],
            "consumers": {
                consumer: {provider: {"resources": resources} for provider, resources in allocations.items()}
                for consumer, allocations in self.held.items()
            },
        }

    # -- providers -------------------------------------------------------------------------------------------------

    def create(self, name: str, parent: str | None) -> str:
        if parent is not None and parent not in self.providers:
            return BAD
        if parent == name:
            return BAD
        if name in self.providers:
            return CONFLICT
        self.providers[name] = NaiveProvider(parent)
        return DONE

    def move(self, name: str, parent: str | None) -> str:
        if parent == self.providers[name].parent:
            return DONE
        if parent is not None and (parent not in self.providers or parent in self.below(name)):
            return BAD
        self.providers[name].parent = parent
        return DONE

    def remove(self, name: str) -> str:
        if len(self.below(name)) > 1 or any(name in allocations for allocations in self.held.values()):
            return CONFLICT
        del self.providers[name]
        return DONE

    def set_inventories(self, name: str, wanted: dict[str, Numbers], *, stale: bool) -> str:
        provider, used = self.providers[name], self.used()
        if stale or any(used[name, of] for of in provider.inventories if of not in wanted):
            return CONFLICT
        provider.inventories = dict(wanted)
        provider.generation += 1
        return DONE

    def set_traits(self, name: str, wanted: set[str], *, stale: bool) -> str:
        provider = self.providers[name]
        if wanted == provider.traits:
            return DONE
        if stale:
            return CONFLICT
        provider.traits = set(wanted)
        provider.generation += 1
        return DONE

    def set_aggregates(self, name: str, wanted: set[str], *, stale: bool) -> str:
        if stale:
            return CONFLICT
        self.providers[name].aggregates = set(wanted)
        self.providers[name].generation += 1
        return DONE

    # -- allocations -----------------------------------------------------------------------------------------------

    def put(self, wanted: dict[str, dict[str, Resources]], generations: dict[str, int | None]) -> str:
        """Of several consumers, all or none."""
        if any(generation != self.generation_of(consumer) for consumer, generation in generations.items()):
            return CONFLICT
        if any(provider not in self.providers for allocations in wanted.values() for provider in allocations):
            return BAD
        if not self._fits(wanted):
            return CONFLICT
        touched = {p for consumer in wanted for p in wanted[consumer] or self.held.get(consumer, {})}
        for provider in touched:
            self.providers[provider].generation += 1
        for consumer, allocations in wanted.items():
            self._put(consumer, allocations)
        return DONE

    def _fits(self, wanted: dict[str, dict[str, Resources]]) -> bool:
        amounts = [(p, name, n) for held in wanted.values() for p, of in held.items() for name, n in of.items()]
        if not all(self._units(*amount) for amount in amounts):
            return False
        before, after, used = self._sum(self.held, wanted), self._sum(wanted, wanted), self.used()
        return all(
            amount <= before[key]
            or used[key] - before[key] + amount <= self.providers[key[0]].inventories[key[1]].capacity
            for key, amount in after.items()
        )

    def _put(self, consumer: str, allocations: dict[str, Resources]) -> None:
        generation, claim_number = self.rows.get(consumer, (0, 0))
        if allocations:
            self.rows[consumer] = ((generation if consumer in self.held else 0) + 1, claim_number)
            self.held[consumer] = allocations
            return
        self.held.pop(consumer, None)
        if not claim_number:
            self.rows.pop(consumer, None)

    def delete(self, consumer: str) -> str:
        if consumer not in self.held:
            return NOT_FOUND
        self._put(consumer, {})
        return DONE

    def claim(self, consumer: str, provider: str, resources: Resources) -> bool:
        """Whether it is given. A refused claim does not use up its number."""
        generation, claim_number = self.rows.get(consumer, (-1, 0))
        self.rows.setdefault(consumer, (0, claim_number + 1))
        had = self.held.get(consumer, {}).get(provider, {})
        used = self.used()
        for name, amount in resources.items():
            if had.get(name, 0) == amount:
                continue
            if not self._units(provider, name, amount):
                return False
            if used[provider, name] - had.get(name, 0) + amount > self.providers[provider].inventories[name].capacity:
                return False
        self.rows[consumer] = (generation + 1, claim_number + 1)
        self.held[consumer] = {provider: resources}
        return True

    def release(self, consumer: str) -> None:
        self.held.pop(consumer, None)
        if consumer in self.rows:
            generation, claim_number = self.rows[consumer]
            self.rows[consumer] = (generation + 1, claim_number + 1)

    def _units(self, provider: str, name: str, amount: int) -> bool:
        of = self.providers[provider].inventories.get(name)
        return of is not None and of.min_unit <= amount <= of.max_unit and amount % of.step_size == 0

    def _sum(self, source: dict[str, dict[str, Resources]], consumers: Any) -> Counter[tuple[str, str]]:
        chosen = NaivePlacement()
        chosen.held = {consumer: source[consumer] for consumer in consumers if consumer in source}
        return chosen.used()
