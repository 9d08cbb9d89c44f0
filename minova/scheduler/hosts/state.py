"""HostState: the view of one row of the table, with every name that Nova's HostState has."""

from typing import Any

import msgspec

from minova.objects.hosts.pci import Pairs


class Hosts:
    """The common part of HostTable and HostState: Nova's HostState names for values that are stored under the
    database's names.
    """

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    @property
    def free_ram_mb(self) -> Any:
        return self.memory_mb - self.memory_mb_used

    @property
    def total_usable_ram_mb(self) -> Any:
        return self.memory_mb

    @property
    def total_usable_disk_gb(self) -> Any:
        return self.local_gb

    @property
    def disk_mb_used(self) -> Any:
        return self.local_gb_used * 1024

    @property
    def vcpus_total(self) -> Any:
        return self.vcpus

    def instances_among(self, uuids: Any) -> Any:
        """Returns how many of these instances are here; of a table, one number per host."""
        raise NotImplementedError

    def number_of_each(self, name: str, number: Any) -> Any:
        """Returns `number(value)` of the value of a class column; of a table, one number per host. It must depend only
        on the value.
        """
        raise NotImplementedError


class InstanceFacts(msgspec.Struct, frozen=True):
    """An instance as its host knows it."""

    uuid: str
    image_properties: Pairs = ()


class HostState(Hosts):
    """The current values of one host in the table, under the names of its columns, of HostRecord and of Nova."""

    def __init__(self, table: Any, row: int) -> None:
        self._table = table
        self.row = row

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._table.value(self.row, name)

    def __repr__(self) -> str:
        """As Nova logs it."""
        return (
            f"({self.host}, {self.node}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}"
        )

    def nova(self) -> Any:
        """Returns the same host in Nova's shapes. It is one object during a decision, so that filters' notes on it are
        kept.
        """
        return self._table.nova_view(self.row)

    @property
    def limits(self) -> dict[str, Any]:
        return self.nova().limits  # type: ignore[no-any-return]

    @property
    def nodename(self) -> str:
        return self._table.records[self.row].node  # type: ignore[no-any-return]

    @property
    def hypervisor_hostname(self) -> str:
        return self.nodename

    @property
    def instances(self) -> dict[str, InstanceFacts]:
        """Instances by uuid, including those that the table has consumed."""
        record = self._table.records[self.row]
        images = record.instance_images or ((),) * len(record.instances)
        facts = {uuid: InstanceFacts(uuid, image) for uuid, image in zip(record.instances, images, strict=True)}
        return facts | {uuid: InstanceFacts(uuid) for uuid in self._table.instances_consumed(self.row)}

    def number_of_each(self, name: str, number: Any) -> float:
        return number(getattr(self, name))  # type: ignore[no-any-return]

    def instances_among(self, uuids: Any) -> int:
        return self._table.instances_among_row(self.row, uuids)  # type: ignore[no-any-return]

    def inventory(self, resource_class: str) -> Any:
        return self._table.inventory_of(self.row, resource_class)
