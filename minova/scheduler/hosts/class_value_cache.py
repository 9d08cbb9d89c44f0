"""A number for each distinct value of a class column, worked out once and kept as long as the table keeps the value."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.scheduler.hosts.table import Hosts, HostTable


class ClassValueCache:
    """`number` must depend on the value alone. The list of a table's values only grows, until another takes its place."""

    def __init__(self, of: str, number: Callable[[Any], float]) -> None:
        self._of = of
        self._number = number
        self._values: Sequence[Any] = ()
        self._known: NDArray[np.float64] = np.zeros(0)

    def of_one(self, host: Hosts) -> float:
        return self._number(getattr(host, self._of))

    def of_each(self, table: HostTable) -> NDArray[np.float64]:
        """By the numbers of the values."""
        values = table.class_column(self._of).values
        known = self._known if values is self._values else np.zeros(0)
        if len(known) < len(values):
            known = np.concatenate([known, [self._number(value) for value in values[len(known) :]]])
        self._values, self._known = values, known
        return known

    def over(self, hosts: Hosts) -> Any:
        """A column, or the number of the one host."""
        if not isinstance(hosts, HostTable):
            return self.of_one(hosts)
        return self.of_each(hosts)[hosts.class_column(self._of).ids]
