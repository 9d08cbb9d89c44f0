"""Converts hosts of a scenario to the HostRecords that a scheduler would have read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import msgspec

from minova import errors
from minova.codecs import Decoder
from minova.objects.catalogue.image_properties import read
from minova.objects.hosts.numa import NUMACell, NUMAPages, NUMATopology
from minova.objects.hosts.pci import Pairs, PciDevicePool
from minova.scheduler.hosts.record import AggregateFacts, HostRecord, ImageSupport, Metric, ServiceFacts, free_disk_mb
from minova.simulate.scenario import Scenario, ScenarioAggregate, ScenarioCell, ScenarioHost, ScenarioPool, uuid_of

# The image properties for the same three values.
_METRIC = Decoder(Metric)
SUPPORTED = ("hw_architecture", "img_hv_type", "hw_vm_mode")


def host_records(scenario: Scenario, service_down_time: float) -> dict[int, HostRecord]:
    """Returns the records by node id, which is the number of the host, so that the table keeps the scenario's order.
    Raises BadRequest, which names the place.
    """
    aggregates = [_aggregate(index, aggregate) for index, aggregate in enumerate(scenario.aggregates)]
    joined: dict[str, list[AggregateFacts]] = {}
    for facts, aggregate in zip(aggregates, scenario.aggregates, strict=True):
        for host in dict.fromkeys(aggregate.hosts):
            joined.setdefault(host, []).append(facts)
    return {
        index + 1: _record(index, host, tuple(joined.get(host.host, ())), service_down_time)
        for index, host in enumerate(scenario.hosts)
    }


def _aggregate(index: int, aggregate: ScenarioAggregate) -> AggregateFacts:
    number = index + 1 if aggregate.id is None else aggregate.id
    return AggregateFacts(number, aggregate.name, pairs(aggregate.metadata), uuid_of(f"aggregate {number}"))


def _record(
    index: int, host: ScenarioHost, aggregates: tuple[AggregateFacts, ...], service_down_time: float
) -> HostRecord:
    stats = {key: value if value is None else str(value) for key, value in host.stats.items()}
    counted = _counted(index, stats)
    instances = _instances(host)
    return HostRecord(
        id=index + 1,
        uuid=uuid_of(host.uuid or host.host),
        generation=0,
        host=host.host,
        node=host.node or host.host,
        service_id=index + 1,
        service=ServiceFacts(
            disabled=host.disabled,
            forced_down=host.forced_down,
            silent_since=0.0 if abs(host.heartbeat_age) > service_down_time else None,
        ),
        memory_mb=host.memory_mb,
        memory_mb_used=host.memory_mb_used,
        vcpus=host.vcpus,
        vcpus_used=host.vcpus_used,
        local_gb=host.local_gb,
        local_gb_used=host.local_gb_used,
        free_disk_mb=free_disk_mb(host.local_gb - host.local_gb_used, host.disk_available_least, 0),
        num_instances=counted("num_instances"),
        num_io_ops=counted("io_workload"),
        failed_builds=counted("failed_builds"),
        ram_allocation_ratio=host.ram_allocation_ratio,
        cpu_allocation_ratio=host.cpu_allocation_ratio,
        disk_allocation_ratio=host.disk_allocation_ratio,
        host_ip=_address(index, host.host_ip),
        image_support=ImageSupport(
            hypervisor_type=host.hypervisor_type,
            hypervisor_version=host.hypervisor_version,
            supported_instances=tuple(
                _supported(f"hosts[{index}].supported_instances[{number}]", names)
                for number, names in enumerate(host.supported_instances)
            ),
        ),
        aggregates=aggregates,
        cpu_info=_json_text(host.cpu_info),
        instances=tuple(instances),
        instance_images=tuple(instances.values()),
        metrics=tuple(_metric(index, number, metric) for number, metric in enumerate(host.metrics)),
        numa_topology=_topology(host.numa),
        pci_pools=tuple(_pool(pool) for pool in host.pci_pools),
        cell_uuid=uuid_of(host.cell or "cell"),
        stats=stats,
    )


def pairs(values: Mapping[str, Any]) -> Pairs:
    return tuple(sorted((key, str(value)) for key, value in values.items()))


def _counted(index: int, stats: Mapping[str, str | None]) -> Callable[[str], int]:
    def counted(name: str) -> int:
        try:
            return int(stats.get(name) or 0)
        except ValueError:
            raise errors.BadRequest(
                f"hosts[{index}].stats.{name}: expected a whole number, got {stats[name]!r}"
            ) from None

    return counted


def _instances(host: ScenarioHost) -> dict[str, Pairs]:
    """Returns the image properties of each instance."""
    properties_by_name = {**{name: {} for name in host.instances}, **host.instance_images}
    return {uuid_of(name): pairs(properties) for name, properties in properties_by_name.items()}


def _address(index: int, text: str | None) -> str | None:
    try:
        return text and str(ip_address(text))
    except ValueError:
        raise errors.BadRequest(f"hosts[{index}].host_ip: expected an address, got {text!r}") from None


def _supported(place: str, names: tuple[str, str, str]) -> tuple[str, str, str]:
    """Returns the names in the spelling that drivers report."""
    try:
        architecture, hypervisor, mode = (read(kind, name) for kind, name in zip(SUPPORTED, names, strict=True))
    except errors.BadRequest as error:
        raise errors.BadRequest(f"{place}: {error}") from None
    return architecture, hypervisor, mode


def _json_text(info: Mapping[str, Any] | str | None) -> str:
    return info or "" if info is None or isinstance(info, str) else msgspec.json.encode(info).decode()


def _metric(index: int, number: int, metric: Mapping[str, Any]) -> Metric:
    try:
        return _METRIC.from_builtins({key: value for key, value in metric.items() if value is not None})
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"hosts[{index}].metrics[{number}]: {error}") from None


def _topology(cells: Sequence[ScenarioCell] | None) -> NUMATopology | None:
    return NUMATopology(tuple(_cell(cell) for cell in cells)) if cells else None


def _cell(cell: ScenarioCell) -> NUMACell:
    return NUMACell(
        id=cell.id,
        cpuset=frozenset(cell.cpuset),
        pcpuset=frozenset(cell.pcpuset),
        memory=cell.memory,
        cpu_usage=cell.cpu_usage,
        memory_usage=cell.memory_usage,
        pinned_cpus=frozenset(cell.pinned_cpus),
        siblings=_sets(cell.siblings),
        mempages=tuple(
            NUMAPages(size_kb=page.size_kb, total=page.total, used=page.used, reserved=page.reserved)
            for page in cell.mempages
        ),
        socket=cell.socket,
    )


def _sets(lists: Iterable[Iterable[int]]) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(cpus) for cpus in lists)


def _pool(pool: ScenarioPool) -> PciDevicePool:
    return PciDevicePool(
        vendor_id=pool.vendor_id,
        product_id=pool.product_id,
        count=pool.count,
        dev_type=pool.dev_type,
        numa_node=pool.numa_node,
        tags=pairs(pool.tags),
    )
