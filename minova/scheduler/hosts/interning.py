"""Stores equal values as one object: thousands of hosts have the same cells, inventories and aggregates."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# With more values all are dropped. This costs only memory.
MAX_INTERNED = 200_000


class Interner:
    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def intern(self, value: T) -> T:
        """Returns the first equal value."""
        first: T = self._first((type(value), value), value)
        return first

    def intern_mapping(self, value: Mapping[str, T]) -> dict[str, T]:
        """Returns the first equal dictionary. Its values must be hashable."""
        first: dict[str, T] = self._first(("mapping", *sorted(value.items(), key=lambda pair: pair[0])), dict(value))
        return first

    def _first(self, key: Any, value: Any) -> Any:
        if len(self._known) > MAX_INTERNED:
            self._known.clear()
        return self._known.setdefault(key, value)
