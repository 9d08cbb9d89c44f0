"""The answer to a scenario in its output format: plain lists and dicts under Nova's names."""

from collections.abc import Iterable
from typing import Any

import msgspec

from minova import errors
from minova.hardware.errors import nova_name
from minova.objects.hosts.numa import InstanceNUMATopology, NUMACell, NUMATopology
from minova.objects.hosts.pci import PciDevicePool

Json = dict[str, Any]


def error_text(error: Exception) -> str:
    """`ExceptionType: text`, with Nova's name of the type."""
    while type(error) is errors.MinovaError and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return f"{nova_name(error)}: {error}"


def topology_json(topology: InstanceNUMATopology | None) -> Json | None:
    if topology is None:
        return None
    return {
        "emulator_threads_policy": topology.emulator_threads_policy,
        "cells": [
            {
                "id": cell.id,
                "cpuset": sorted(cell.cpuset),
                "pcpuset": sorted(cell.pcpuset),
                "memory": cell.memory,
                "pagesize": cell.pagesize,
                "cpu_policy": cell.cpu_policy,
                "cpu_thread_policy": cell.cpu_thread_policy,
                "cpu_pinning": {str(guest): host for guest, host in cell.cpu_pinning},
                "cpuset_reserved": None if cell.cpuset_reserved is None else sorted(cell.cpuset_reserved),
            }
            for cell in topology.cells
        ],
    }


def usage_json(topology: NUMATopology | None) -> list[Json] | None:
    return None if topology is None else [_cell_usage(cell) for cell in topology.cells]


def _cell_usage(cell: NUMACell) -> Json:
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [{"size_kb": page.size_kb, "total": page.total, "used": page.used} for page in cell.mempages],
    }


def pools_json(pools: Iterable[PciDevicePool]) -> list[Json]:
    """Tags are in the same dict as the other fields. Pools with the fewest tags come first, as in Nova."""
    return [_pool(pool) for pool in sorted(pools, key=lambda pool: len(pool.tags))]


def _pool(pool: PciDevicePool) -> Json:
    fields = msgspec.structs.asdict(pool)
    tags = fields.pop("tags")
    return dict(sorted({**fields, **dict(tags)}.items()))
