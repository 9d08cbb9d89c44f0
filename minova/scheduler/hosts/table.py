"""The HostTable: one NumPy column per attribute of a host.

Filters and weighers read attributes such as `hosts.memory_mb`. On a table that is a column, on a HostState a number:
the same expression works for both. Rows are always in the order of the nodes' ids.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.numa import NUMATopologyLimits
from minova.objects.requests.request_spec import KeptResources, RequestSpec
from minova.scheduler.hosts.class_columns import ClassColumn, ClassNumbers, DistinctValues
from minova.scheduler.hosts.consumption import after_instance
from minova.scheduler.hosts.instance_index import InstanceIndex, RowsOfHosts
from minova.scheduler.hosts.inventory_columns import INVENTORY_COLUMNS, InventoryColumns, column_name, single_value
from minova.scheduler.hosts.nova_view import NovaHostState
from minova.scheduler.hosts.numa_columns import NumaColumns
from minova.scheduler.hosts.record import CLASS_COLUMNS, FLOAT_COLUMNS, WHOLE_COLUMNS, HostRecord
from minova.scheduler.hosts.state import Hosts, HostState

__all__ = ["INVENTORY_COLUMNS", "ClassColumn", "HostState", "HostTable", "Hosts", "InventoryColumns", "Mask", "Rows"]

Mask = NDArray[np.bool_]
# Row numbers.
Rows = NDArray[np.int64]


class HostTable(Hosts):
    """`apply` and `set_silent` write what was read, `consume` writes decisions, and `restore` undoes `consume`.

    `share_instances`: the nodes of a host share its instances, as in Nova's HostManager; in a scenario each node has
    its own.
    """

    def __init__(self, *, share_instances: bool = False) -> None:
        self.share_instances = share_instances
        self.records: list[HostRecord] = []
        self.row_of: dict[int, int] = {}
        self.consumed: dict[int, list[str]] = {}
        self._silent: dict[int, float] = {}
        self._values = {name: DistinctValues() for name in CLASS_COLUMNS}
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros(0, np.int64) for name in CLASS_COLUMNS},
            # Floats represent whole numbers exactly, and weighers can use them without copies.
            **{name: np.zeros(0, np.float64) for name in (*WHOLE_COLUMNS, *FLOAT_COLUMNS)},
        }
        self._resource_classes: set[str] = set()
        self._inventories: dict[str, InventoryColumns] = {}
        self.numa = NumaColumns()
        self._instance_index = InstanceIndex()
        self._nova_views: dict[int, NovaHostState] = {}
        self._rows_of_hosts = RowsOfHosts()

    def __len__(self) -> int:
        return len(self.records)

    def __getattr__(self, name: str) -> Any:
        """Returns a column by its name."""
        column = self.__dict__["_columns"].get(name)
        if column is None:
            raise AttributeError(f"HostTable has no column {name!r}")
        return column

    def value(self, row: int, name: str) -> Any:
        """Returns the value of one host for the name of a column or of a field of its record."""
        if name in self._values:
            return self._values[name].values[self._columns[name][row]]
        if name in self._columns:
            number = self._columns[name][row].item()
            return number if name in FLOAT_COLUMNS else int(number)
        return getattr(self.records[row], name)

    def class_numbers(self, name: str, number: Callable[[Any], float]) -> ClassNumbers:
        """A number for each distinct value of a class column, in the order of `class_column(name).values`."""
        return self._values[name].numbers(number)

    def number_of_each(self, name: str, number: Callable[[Any], float]) -> NDArray[np.float64] | float:
        """`number` of each host's value of a class column; one number if all hosts have the same value."""
        numbers = self.class_numbers(name, number).numbers
        return float(numbers[0]) if len(numbers) == 1 else numbers[self._columns[name]]

    def class_column(self, name: str) -> ClassColumn:
        return ClassColumn(self._values[name].values, self._columns[name])

    def by_class(self, name: str, holds: Callable[[Any], bool]) -> Mask:
        """Returns the hosts whose value of a class column fulfils `holds`."""
        values, ids = self.class_column(name)
        return np.fromiter(map(holds, values), bool, len(values))[ids]

    def inventory(self, resource_class: str) -> InventoryColumns:
        """Returns the inventories of one class. A unit that is equal on every host is one number, which is cheaper to
        check.
        """
        inventory = self._inventories.get(resource_class)
        if inventory is None:
            if resource_class in self._resource_classes:
                columns = [self._columns[column_name(resource_class, name)] for name in INVENTORY_COLUMNS]
                inventory = InventoryColumns(
                    columns[0], columns[1], single_value(columns[2]), columns[3], single_value(columns[4])
                )
            else:
                none = np.zeros(len(self), np.int64)
                inventory = InventoryColumns(none, none, 0, none, 0)
            self._inventories[resource_class] = inventory
        return inventory

    def inventory_of(self, row: int, resource_class: str) -> InventoryColumns:
        """As `inventory`, for one host."""
        columns = self.inventory(resource_class)
        return InventoryColumns(*(value if isinstance(value, int) else value[row].item() for value in columns))

    def host(self, row: int) -> HostState:
        return HostState(self, row)

    def rows_of_host(self, lowered: str) -> list[int]:
        """Returns the rows of a host's nodes, by the host's name in lower case."""
        return self._rows_of_hosts.of(self.records, lowered)

    def nova_view(self, row: int) -> NovaHostState:
        """Returns the host for filters written for Nova: the same object until `begin`."""
        if row not in self._nova_views:
            self._nova_views[row] = NovaHostState(self, row)
        return self._nova_views[row]

    def begin(self) -> None:
        """Starts a request: drops what filters written for Nova noted on hosts for the previous request."""
        self._nova_views = {}

    def instances_among(self, uuids: Iterable[str]) -> NDArray[np.int64]:
        """Returns how many of these instances each host has."""
        counts = np.zeros(len(self), np.int64)
        for uuid in set(uuids):
            counts[list(self._rows_with(uuid))] += 1
        return counts

    def instances_among_row(self, row: int, uuids: Iterable[str]) -> int:
        return sum(row in self._rows_with(uuid) for uuid in set(uuids))

    def _rows_with(self, uuid: str) -> set[int]:
        rows = {self.row_of[node_id] for node_id in self._instance_index.nodes(uuid)}
        if not self.share_instances:
            return rows
        hosts = {self.records[row].host for row in rows}
        return {row for host in hosts for row in self.rows_of_host(host.lower()) if self.records[row].host == host}

    def instances_consumed(self, row: int) -> Sequence[str]:
        """Returns the instances that the host has consumed."""
        return self.consumed.get(self.records[row].id, ())

    def copy_from(self, other: "HostTable") -> None:
        """Makes this table a copy of the current state of `other`. Only immutable values are shared."""
        self.records, self.row_of = list(other.records), dict(other.row_of)
        self._columns = {name: column.copy() for name, column in other._columns.items()}
        self._values = {name: values.copy() for name, values in other._values.items()}
        self._resource_classes = set(other._resource_classes)
        self.numa, self._instance_index = other.numa.copy(), other._instance_index.copy()

    # -- what was read ----------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[int, HostRecord | None]) -> None:
        """Write records by node id; None removes the host."""
        removed = [
            self.row_of[node_id] for node_id, record in changes.items() if record is None and node_id in self.row_of
        ]
        new_records = [
            record for node_id, record in changes.items() if record is not None and node_id not in self.row_of
        ]
        for node_id in changes:
            if node_id in self.row_of:
                row = self.row_of[node_id]
                self._instance_index.drop(node_id, (*self.records[row].instances, *self.instances_consumed(row)))
        if removed or new_records:
            self._reshape(removed, new_records)
            self._rows_of_hosts.forget()
        for node_id, record in changes.items():
            if record is not None:
                row = self.row_of[node_id]
                if record.host != self.records[row].host:
                    self._rows_of_hosts.forget()
                self.records[row] = record
                self._instance_index.put(node_id, record.instances)
                self._write(row)
        self._inventories.clear()
        self._nova_views = {}
        self._compact()

    def set_silent(self, silent: Mapping[int, float]) -> None:
        """`silent`: {service id: last heartbeat} of all services that count as silent now."""
        changed = {key for key in {*silent, *self._silent} if silent.get(key) != self._silent.get(key)}
        self._silent = dict(silent)
        if changed:
            for row, record in enumerate(self.records):
                if record.service_id in changed:
                    self._columns["service"][row] = self._values["service"].number(self._service(record))
            self._compact()

    def _reshape(self, removed: Sequence[int], fresh: Sequence[HostRecord]) -> None:
        keep = np.ones(len(self.records), bool)
        keep[list(removed)] = False
        records = [record for record, is_kept in zip(self.records, keep, strict=True) if is_kept] + list(fresh)
        order = np.argsort([record.id for record in records], kind="stable")
        for name, column in self._columns.items():
            self._columns[name] = np.concatenate([column[keep], np.zeros(len(fresh), column.dtype)])[order]
        self.numa.reshape(keep, len(fresh), order)
        self.records = [records[i] for i in order]
        self.row_of = {record.id: row for row, record in enumerate(self.records)}

    def _write(self, row: int) -> None:
        record = self.records[row]
        columns = self._columns
        for name in (*WHOLE_COLUMNS, *FLOAT_COLUMNS):
            columns[name][row] = getattr(record, name)
        for name in CLASS_COLUMNS:
            value = self._service(record) if name == "service" else getattr(record, name)
            columns[name][row] = self._values[name].number(value)
        self.numa.write(row, record.numa_topology)
        for resource_class in record.inventories.keys() - self._resource_classes:
            self._resource_classes.add(resource_class)
            for name in INVENTORY_COLUMNS:
                columns[column_name(resource_class, name)] = np.zeros(len(self.records), np.int64)
        for resource_class in self._resource_classes:
            inventory = record.inventories.get(resource_class)
            for name in INVENTORY_COLUMNS:
                columns[column_name(resource_class, name)][row] = 0 if inventory is None else getattr(inventory, name)

    def _service(self, record: HostRecord) -> Any:
        since = self._silent.get(record.service_id)
        return record.service if since is None else msgspec.structs.replace(record.service, silent_since=since)

    def _compact(self) -> None:
        for name, values in self._values.items():
            self._columns[name] = values.compacted(self._columns[name])

    # -- what was decided -------------------------------------------------------------------------------------------

    def consume(
        self,
        row: int,
        spec: RequestSpec,
        instance_uuid: str | None = None,
        *,
        resources: Mapping[str, int] | None = None,
        limits: NUMATopologyLimits | None = None,
        packing: bool = False,
    ) -> None:
        """The host takes one instance of `spec`. Later decisions see it, until `restore`.

        `resources`: those of its allocation. Nothing is changed if its cells and devices cannot be computed.
        """
        topology, pools = self.value(row, "numa_topology"), self.value(row, "pci_pools")
        after = after_instance(topology, pools, spec.numa_topology, spec.pci_requests, limits=limits, packing=packing)
        node_id, columns = self.records[row].id, self._columns
        uuids = self.consumed.setdefault(node_id, [])
        is_counted = instance_uuid is not None and self.instances_among_row(row, (instance_uuid,)) > 0
        if instance_uuid is not None:
            uuids.append(instance_uuid)
            self._instance_index.put(node_id, (instance_uuid,))
        if spec.image is not None and spec.image.properties and not is_counted:
            images = (*self.value(row, "instance_images"), tuple(sorted(spec.image.properties.items())))
            columns["instance_images"][row] = self._values["instance_images"].number(images)
        columns["num_io_ops"][row] += 1
        self._add_instance(row, spec.flavor)
        self._add_allocation(row, spec.resources if resources is None else resources)
        if after[0] is not topology:
            columns["numa_topology"][row] = self._values["numa_topology"].number(after[0])
            self.numa.write(row, after[0])
        if after[1] is not pools:
            columns["pci_pools"][row] = self._values["pci_pools"].number(after[1])

    def count_kept(self, row: int, kept: KeptResources, times: int) -> None:
        """Adds to the host's use, until `restore`, what a resized server keeps there; `times` -1: subtracts it."""
        self.consumed.setdefault(self.records[row].id, [])
        columns = self._columns
        columns["memory_mb_used"][row] += times * kept.memory_mb
        columns["vcpus_used"][row] += times * kept.vcpus
        columns["free_disk_mb"][row] -= times * kept.disk_gb * 1024
        self._add_allocation(row, {name: times * amount for name, amount in kept.resources.items()})

    def _add_instance(self, rows: int | Rows, flavor: Flavor) -> None:
        """Applies what one instance of this flavor changes in the columns of each of these rows, apart from I/O and
        cells.
        """
        columns = self._columns
        columns["memory_mb_used"][rows] += flavor.memory_mb
        columns["vcpus_used"][rows] += flavor.vcpus
        # As in Nova, disk changes the free disk, not `disk_mb_used`.
        columns["free_disk_mb"][rows] -= (flavor.root_gb + flavor.ephemeral_gb) * 1024
        columns["num_instances"][rows] += 1

    def _add_allocation(self, rows: int | Rows, resources: Mapping[str, int]) -> None:
        for resource_class, amount in resources.items():
            if resource_class in self._resource_classes:
                self._columns[column_name(resource_class, "used")][rows] += amount

    def restore(self) -> set[int]:
        """Undo `consume`. Returns the ids of the nodes that had consumed, which must be read again."""
        touched, self.consumed = self.consumed, {}
        for node_id, uuids in touched.items():
            if node_id in self.row_of:
                row = self.row_of[node_id]
                self._instance_index.drop(node_id, uuids)
                self._instance_index.put(node_id, self.records[row].instances)
                self._write(row)
        return set(touched)
