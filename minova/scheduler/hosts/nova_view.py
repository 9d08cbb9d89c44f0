"""A HostState for filters and weighers written for Nova: in the shapes of Nova's objects, which
they may also write to.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from minova.hardware.pci_pools import shortage
from minova.objects.hosts.pci import InstancePCIRequest, PciDevicePool
from minova.scheduler.hosts.record import AggregateFacts
from minova.scheduler.hosts.state import HostState


class NovaAggregate(msgspec.Struct, frozen=True):
    id: int
    uuid: str
    name: str
    metadata: dict[str, str]

    @property
    def availability_zone(self) -> str | None:
        return self.metadata.get("availability_zone")


class PciStats(msgspec.Struct, frozen=True):
    """The free devices of a host, with the methods of Nova's PciDeviceStats."""

    pools: tuple[PciDevicePool, ...]

    def support_requests(
        self, requests: Sequence[InstancePCIRequest], provider_mapping: Any = None, numa_cells: Any = None
    ) -> bool:
        return shortage(self.pools, requests) is None


class NovaHostState(HostState):
    """`limits` is for filters to write to; `written` holds what each filter wrote there, by the filter's name."""

    def __init__(self, table: Any, row: int) -> None:
        super().__init__(table, row)
        self._limits: dict[str, Any] = {}
        self.written: dict[str, dict[str, Any]] = {}

    def nova(self) -> "NovaHostState":
        return self

    @property
    def limits(self) -> dict[str, Any]:
        return self._limits

    @limits.setter
    def limits(self, value: dict[str, Any]) -> None:
        self._limits = value

    @property
    def aggregates(self) -> list[NovaAggregate]:
        facts: tuple[AggregateFacts, ...] = self._table.value(self.row, "aggregates")
        return [
            NovaAggregate(aggregate.id, aggregate.uuid, aggregate.name, dict(aggregate.metadata)) for aggregate in facts
        ]

    @property
    def service(self) -> dict[str, Any]:
        facts = self._table.value(self.row, "service")
        return {"host": self.host, "id": self.service_id, **msgspec.structs.asdict(facts)}

    @property
    def supported_instances(self) -> list[list[str]]:
        return [list(supported) for supported in self._table.value(self.row, "supported_instances")]

    @property
    def metrics(self) -> list[Any]:
        """Metrics with whole numbers, as in Nova."""
        return [
            msgspec.structs.replace(metric, value=metric.whole) for metric in self._table.value(self.row, "metrics")
        ]

    @property
    def pci_stats(self) -> PciStats:
        return PciStats(self.pci_pools)
