"""Checks which providers have capacity, by their inventories alone. Pure: takes numbers, returns
verdicts with reasons.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from minova.objects.requests.checks import Check, at_least, enough_free


class InventoryNumbers(Protocol):
    """The numbers of one inventory, or a column of each number over many providers (all 0 for a provider without the
    inventory).
    """

    @property
    def capacity(self) -> Any: ...

    @property
    def used(self) -> Any: ...

    @property
    def min_unit(self) -> Any: ...

    @property
    def max_unit(self) -> Any: ...

    @property
    def step_size(self) -> Any: ...


class InventoryUsage(msgspec.Struct, gc=False):
    """An inventory and how much of it is used. Claims that hold its lock update it.

    It cannot be part of a reference cycle, so Python's garbage collector ignores it (`gc=False`).
    """

    capacity: int
    used: int
    min_unit: int
    max_unit: int
    step_size: int

    def takes(self, amount: int) -> bool:
        """Whether this amount can be allocated in addition, in one allocation."""
        return (
            self.used + amount <= self.capacity
            and self.min_unit <= amount <= self.max_unit
            and amount % self.step_size == 0
        )


def capacity_checks(resource_class: str, inventory: InventoryNumbers, amount: int, held: int = 0) -> Iterator[Check]:
    """Yields the checks that must pass for a consumer that holds `held` of this class here to hold `amount` instead."""
    used = inventory.used - held if held else inventory.used
    yield enough_free(resource_class, inventory.capacity - used, amount, capacity=inventory.capacity, used=used)
    yield at_least(f"max_unit of {resource_class}", have=inventory.max_unit, need=amount)
    yield Check(
        amount >= inventory.min_unit, f"requested {resource_class}", amount, "<", "min_unit", inventory.min_unit, ""
    )
    step = inventory.step_size + (inventory.step_size == 0)
    yield Check(amount % step == 0, f"requested {resource_class}", amount, "is no multiple of", "step_size", step, "")


def refusals(
    inventories: Mapping[str, InventoryNumbers], amounts: Mapping[str, int], held: Mapping[str, int]
) -> list[str]:
    """Returns the reasons why one provider cannot give `amounts` to a consumer that already holds `held` of it; empty
    if it can.

    What a consumer keeps unchanged is never refused, even if the inventory has shrunk below its usage.
    """
    reasons = []
    for name in sorted(amounts):
        if amounts[name] == held.get(name, 0):
            continue
        if name not in inventories:
            reasons.append(f"no inventory of {name}")
            continue
        reasons += [
            c.reason()
            for c in capacity_checks(name, inventories[name], amounts[name], held.get(name, 0))
            if not c.passed
        ]
    return reasons
