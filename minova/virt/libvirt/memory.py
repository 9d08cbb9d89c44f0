"""The memory in use on a host."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import libvirt

from minova.objects.compute_node import DomainView
from minova.objects.states import PowerState

KIB_IN_MB = 1024
MEMINFO = Path("/proc/meminfo")
# What of a host's memory in use it can give up at once.
_FREE = ("MemFree", "Buffers", "Cached")


def used_mb(connection: Any, domains: Iterable[DomainView], meminfo: Path = MEMINFO) -> int:
    """Total less free, buffers and cached; where the hypervisor does not tell, the sum of what runs. With Xen the
    compute is in dom0, whose own figures `meminfo` has.
    """
    if connection.getType() == "Xen":
        return xen_used_mb(
            (
                (domain.ID(), domain.info()[2])
                for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            ),
            read_meminfo(meminfo.read_text()),
        )
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


def xen_used_mb(domains: Iterable[tuple[int, int]], dom0: Mapping[str, int]) -> int:
    """Of each running domain its id and memory; of dom0, whose id is 0, only what it cannot give up counts. All in
    KiB. Pure.
    """
    free = sum(dom0.get(name, 0) for name in _FREE)
    return sum(kib - free if number == 0 else kib for number, kib in domains) // KIB_IN_MB


def read_meminfo(text: str) -> dict[str, int]:
    """The lines of /proc/meminfo, in KiB. Pure."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name: int(words[0]) for name, _, rest in lines if (words := rest.split()) and words[0].isdecimal()}
