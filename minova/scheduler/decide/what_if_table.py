"""A copy of a HostTable to try on it what shall not be decided: many hosts take an instance at the same time."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.chain import Rules
from minova.scheduler.decide.decision import limits_at
from minova.scheduler.decide.preselection import resources_of_rows
from minova.scheduler.hosts.consumption import after_instance
from minova.scheduler.hosts.numa_equivalence import equivalence_key
from minova.scheduler.hosts.table import HostTable, Rows

# What cells and devices look like before and after: numbers into the class columns.
_CELLS = ("numa_topology", "pci_pools")


class WhatIfTable(HostTable):
    """Knows the records as they were copied; is not refreshed and not restored."""

    def __init__(self, table: HostTable) -> None:
        super().__init__(share_instances=table.share_instances)
        self.records, self.row_of = list(table.records), dict(table.row_of)
        self._columns = {name: column.copy() for name, column in table._columns.items()}
        self._values = {name: values.copy() for name, values in table._values.items()}
        self._resource_classes = set(table._resource_classes)
        self.numa, self._instance_index = table.numa.copy(), table._instance_index
        self._taken: dict[str, Rows] = {}
        self._after: dict[tuple[Any, ...], tuple[int, int]] = {}
        # {likeness: the number of the first topology like that}, and of each topology its first like it.
        self._first_like: dict[tuple[Any, ...], int] = {}
        self._stands_for: dict[int, int] = {}

    def consume_each(self, rows: Rows, spec: RequestSpec, uuid: str, rules: Rules) -> None:
        """Each of these hosts takes an instance as `consume` has it, but for I/O, which ends with the build; all those
        instances have this one name.
        """
        if spec.numa_topology is not None or spec.pci_requests:
            self._consume_cells(rows, spec, rules)
        flavor, columns = spec.flavor, self._columns
        local_gb = flavor.root_gb + flavor.ephemeral_gb
        amounts = {"memory_mb_used": flavor.memory_mb, "vcpus_used": flavor.vcpus, "local_gb_used": local_gb}
        counted = {"free_disk_mb": -local_gb * 1024, "num_instances": 1}
        shares = resources_of_rows(self, rows, spec)
        for name, amount in (amounts | counted).items():
            columns[name][rows] += amount
        for some, resources in shares:
            for resource_class in resources.keys() & self._resource_classes:
                columns[f"{resource_class}.used"][some] += resources[resource_class]
        self._taken[uuid] = rows

    def instances_among(self, uuids: Iterable[str]) -> NDArray[np.int64]:
        counts = super().instances_among(uuids)
        for uuid in self._taken.keys() & set(uuids):
            counts[self._taken[uuid]] += 1
        return counts

    def instances_among_row(self, row: int, uuids: Iterable[str]) -> int:
        return int(self.instances_among(uuids)[row])

    def _consume_cells(self, rows: Rows, spec: RequestSpec, rules: Rules) -> None:
        """Hosts that are alike are fitted once, and one's topology stands for all of them."""
        ids = self._columns["numa_topology"]
        ids[rows] = [self._standing_for(number) for number in ids[rows].tolist()]
        keys = np.stack(
            [self._columns[name][rows] for name in (*_CELLS, "cpu_allocation_ratio", "ram_allocation_ratio")]
        )
        distinct, first, places = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        places = places.reshape(-1)
        for place, key in enumerate(map(tuple, distinct.T.tolist())):
            if key not in self._after:
                self._after[key] = self._fitted(int(rows[first[place]]), spec, rules)
            alike = rows[places == place]
            for name, number in zip(_CELLS, self._after[key], strict=True):
                self._columns[name][alike] = number
            self.numa.write_each(alike, self._values["numa_topology"].values[self._after[key][0]])

    def _fitted(self, row: int, spec: RequestSpec, rules: Rules) -> tuple[int, int]:
        topology, pools = (self.value(row, name) for name in _CELLS)
        limits = limits_at(self.host(row), spec, rules).numa_topology
        left = after_instance(
            topology, pools, spec.numa_topology, spec.pci_requests, limits=limits, packing=rules.packing
        )
        number = self._standing_for(self._values["numa_topology"].number(left[0]))
        return number, self._values["pci_pools"].number(left[1])

    def _standing_for(self, number: int) -> int:
        first = self._stands_for.get(number)
        if first is None:
            topology = self._values["numa_topology"].values[number]
            like = () if topology is None else (equivalence_key(topology),)
            first = self._stands_for[number] = self._first_like.setdefault(like, number)
        return first
