"""Decodes what a compute node reports as text. Equal texts are decoded once, however many hosts have them. Pure.

Raises an error for whatever could fail a filter or weigher later, which would fail the decision for all hosts.
"""

import ipaddress
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from minova.codecs import Decoder, parse_json
from minova.contracts.wire_bounds import fault_of
from minova.objects.hosts.bounds import Count
from minova.objects.hosts.numa import NUMACell, NUMATopology
from minova.objects.hosts.pci import PciDevicePool
from minova.scheduler.hosts.interning import Interner
from minova.scheduler.hosts.record import ImageSupport, Metric

T = TypeVar("T")

_TOPOLOGY: Decoder[Any] = Decoder(NUMATopology | None)
_POOLS: Decoder[Any] = Decoder(tuple[PciDevicePool, ...] | None)
_METRICS: Decoder[Any] = Decoder(tuple[Metric, ...] | None)
_SUPPORTED: Decoder[Any] = Decoder(tuple[tuple[str, str, str], ...] | None)


class AddressWidth(msgspec.Struct, frozen=True):
    bits: Count | None = None


class CpuInfo(msgspec.Struct, frozen=True):
    """What filters read of `cpu_info`."""

    arch: str | None = None
    maxphysaddr: AddressWidth = AddressWidth()
    machine_types: dict[str, tuple[str, ...]] | None = None


_CPU = Decoder(CpuInfo)


class NodeValues:
    """Raises ValidationError (msgspec) or ValueError if a text is invalid. Stats map text to text."""

    def __init__(self, interner: Interner) -> None:
        self._interner = interner
        self._decoded: dict[tuple[Any, str], Any] = {}

    def numa_topology(self, text: str | None) -> NUMATopology | None:
        topology: NUMATopology | None = self._once(text, _TOPOLOGY, None, self._topology)
        return topology

    def pci_pools(self, text: str | None) -> tuple[PciDevicePool, ...]:
        pools_read: tuple[PciDevicePool, ...] = self._once(text, _POOLS, (), lambda pools: self._each(pools or ()))
        return pools_read

    def metrics(self, text: str | None) -> tuple[Metric, ...]:
        values: tuple[Metric, ...] = self._once(text, _METRICS, (), lambda metrics: metrics or ())
        return values

    def stats(self, text: str | None) -> dict[str, Any]:
        values: dict[str, Any] = parse_json(text) if text else {}
        return {
            self._interner.intern(key): _interned_text(self._interner, value) for key, value in (values or {}).items()
        }

    def cpu_info(self, text: str | None) -> str:
        """Returns the text, which filters parse."""
        if not text:
            return ""

        def checked(_: Any) -> str:
            fault = fault_of(parse_json(text))
            if fault is not None:
                raise ValueError(f"cpu_info: {fault}")
            return text

        cpu_info: str = self._once(text, _CPU, "", checked)
        return cpu_info

    def host_ip(self, text: str | None) -> str | None:
        if text:
            ipaddress.ip_address(text)
        return text

    def image_support(self, hypervisor_type: str, version: int, text: str | None) -> ImageSupport:
        supported = self._once(text, _SUPPORTED, (), lambda decoded: decoded or ())
        return self._interner.intern(
            ImageSupport(hypervisor_type=hypervisor_type, hypervisor_version=version, supported_instances=supported)
        )

    def _once(self, text: str | None, decoder: Decoder[Any], missing: Any, convert: Callable[[Any], Any]) -> Any:
        if text is None:
            return missing
        key = (decoder, text)
        if key not in self._decoded:
            self._decoded[key] = self._interner.intern(convert(decoder.from_json(text)))
        return self._decoded[key]

    def _topology(self, topology: NUMATopology | None) -> NUMATopology | None:
        return None if topology is None else NUMATopology(tuple(self._cell(cell) for cell in topology.cells))

    def _cell(self, cell: NUMACell) -> NUMACell:
        intern = self._interner.intern
        return intern(
            msgspec.structs.replace(
                cell,
                cpuset=intern(cell.cpuset),
                pcpuset=intern(cell.pcpuset),
                pinned_cpus=intern(cell.pinned_cpus),
                siblings=intern(tuple(intern(core) for core in cell.siblings)),
                mempages=self._each(cell.mempages),
            )
        )

    def _each(self, values: tuple[T, ...]) -> tuple[T, ...]:
        return self._interner.intern(tuple(self._interner.intern(value) for value in values))


def _interned_text(interner: Interner, value: Any) -> Any:
    return interner.intern(value) if isinstance(value, str) else value
