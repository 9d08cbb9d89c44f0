"""The resources of guests that no row expects on the node. They count as used, so that no other guest gets them. Pure.

As in Nova, only the memory counts of a domain that is not minova's.
"""

from collections.abc import Container, Iterable, Mapping

import msgspec

from minova.compute.accounting.usage import Usage
from minova.objects.hosts.compute_node import DomainView
from minova.objects.unexpected.guest_record import GuestRecord


def orphans_of(
    domains: Iterable[DomainView],
    expected: Container[str],
    records: Mapping[str, GuestRecord],
    left_disks: Mapping[str, int],
) -> dict[str, Usage]:
    """Returns the usage by uuid.

    `records`: of the host's guests; they know disks, CPUs and devices.
    `left_disks`: {uuid: GB} of disks without a domain.
    """
    usages = {
        domain.uuid: _usage(domain, records.get(domain.uuid)) for domain in domains if domain.uuid not in expected
    }
    for uuid, disk_gb in left_disks.items():
        if uuid not in expected and uuid not in usages:
            usages[uuid] = Usage(memory_mb=0, disk_gb=disk_gb, vcpus=0)
    return usages


def with_records(domains: Iterable[DomainView], records: Mapping[str, GuestRecord]) -> tuple[DomainView, ...]:
    """Returns the domains with what the records know of the same attempts."""
    return tuple(
        msgspec.structs.replace(domain, accepted=True)
        if (record := records.get(domain.uuid)) is not None and record.accepted and record.attempt == domain.attempt
        else domain
        for domain in domains
    )


def _usage(domain: DomainView, record: GuestRecord | None) -> Usage:
    if not domain.ours:
        return Usage(memory_mb=domain.memory_mb, disk_gb=0, vcpus=0)
    if record is None or record.attempt != domain.attempt:
        return Usage(memory_mb=domain.memory_mb, disk_gb=0, vcpus=domain.vcpus)
    instance = record.instance
    return Usage(
        memory_mb=domain.memory_mb,
        disk_gb=instance.flavor.disk_gb,
        vcpus=domain.vcpus,
        numa=instance.numa_topology,
    )
