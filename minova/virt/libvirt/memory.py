"""The memory in use on a host."""

from collections.abc import Iterable
from typing import Any

import libvirt

from minova.objects.compute_node import DomainView
from minova.objects.states import PowerState

KIB_IN_MB = 1024


def used_mb(connection: Any, domains: Iterable[DomainView]) -> int:
    """Total less free, buffers and cached; where the hypervisor does not tell, the sum of what runs."""
    try:
        stats = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return sum(domain.memory_mb for domain in domains if domain.power_state == PowerState.RUNNING)
    return host_used_mb(stats)


def host_used_mb(stats: dict[str, int]) -> int:
    """Of libvirt's node memory statistics, in KiB. Pure."""
    return (stats["total"] - stats["free"] - stats.get("buffers", 0) - stats.get("cached", 0)) // KIB_IN_MB
