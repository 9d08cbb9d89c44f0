"""A copy of a HostTable for what-if questions, on which many hosts can take an instance at the same time."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import limits_at
from minova.scheduler.decide.preselection import resources_of_rows
from minova.scheduler.hosts.consumption import after_instance
from minova.scheduler.hosts.numa_equivalence import equivalence_key
from minova.scheduler.hosts.table import HostTable, Rows

# The class columns that describe cells and devices. Their numbers are compared before and after.
_CELLS = ("numa_topology", "pci_pools")


class WhatIfTable(HostTable):
    """Its records are those of the copied table. It is neither refreshed nor restored."""

    def __init__(self, table: HostTable) -> None:
        super().__init__(share_instances=table.share_instances)
        self.copy_from(table)
        self._taken: dict[str, Rows] = {}
        self._after: dict[tuple[Any, ...], tuple[int, int]] = {}
        # {equivalence key: the number of the first topology with it}, and {number: the first equivalent one}.
        self._first_equivalent: dict[tuple[Any, ...], int] = {}
        self._represented_by: dict[int, int] = {}

    def consume_each(self, rows: Rows, spec: RequestSpec, uuid: str, rules: Rules) -> None:
        """Each of these rows takes an instance as in `consume`, but without the instance's I/O, which ends with the
        build. All these instances have the same uuid.
        """
        if spec.numa_topology is not None or spec.pci_requests:
            self._consume_cells(rows, spec, rules)
        shares = resources_of_rows(self, rows, spec)
        self._add_instance(rows, spec.flavor)
        self._columns["local_gb_used"][rows] += spec.flavor.root_gb + spec.flavor.ephemeral_gb
        for some, resources in shares:
            self._add_allocation(some, resources)
        self._taken[uuid] = rows

    def instances_among(self, uuids: Iterable[str]) -> NDArray[np.int64]:
        counts = super().instances_among(uuids)
        for uuid in self._taken.keys() & set(uuids):
            counts[self._taken[uuid]] += 1
        return counts

    def instances_among_row(self, row: int, uuids: Iterable[str]) -> int:
        return int(self.instances_among(uuids)[row])

    def _consume_cells(self, rows: Rows, spec: RequestSpec, rules: Rules) -> None:
        """Fits only one of equivalent hosts. The resulting topology represents all of them."""
        ids = self._columns["numa_topology"]
        ids[rows] = [self._representative(number) for number in ids[rows].tolist()]
        keys = np.stack(
            [self._columns[name][rows] for name in (*_CELLS, "cpu_allocation_ratio", "ram_allocation_ratio")]
        )
        distinct, first, places = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        places = places.reshape(-1)
        for place, key in enumerate(map(tuple, distinct.T.tolist())):
            if key not in self._after:
                self._after[key] = self._fitted(int(rows[first[place]]), spec, rules)
            equivalent = rows[places == place]
            for name, number in zip(_CELLS, self._after[key], strict=True):
                self._columns[name][equivalent] = number
            self.numa.write_each(equivalent, self._values["numa_topology"].values[self._after[key][0]])

    def _fitted(self, row: int, spec: RequestSpec, rules: Rules) -> tuple[int, int]:
        """Returns the numbers of the values of `_CELLS` with one instance more."""
        topology, pools = (self.value(row, name) for name in _CELLS)
        limits = limits_at(self.host(row), spec, rules).numa_topology
        after = after_instance(
            topology, pools, spec.numa_topology, spec.pci_requests, limits=limits, packing=rules.packing
        )
        number = self._representative(self._values["numa_topology"].number(after.topology))
        return number, self._values["pci_pools"].number(after.pools)

    def _representative(self, number: int) -> int:
        first = self._represented_by.get(number)
        if first is None:
            topology = self._values["numa_topology"].values[number]
            key = () if topology is None else (equivalence_key(topology),)
            first = self._represented_by[number] = self._first_equivalent.setdefault(key, number)
        return first
