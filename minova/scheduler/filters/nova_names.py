"""The attributes of Nova's HostState. Requests may name these attributes and no others."""

import json
from collections import UserDict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from netaddr import IPAddress

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Filter, Verdict, all_of
from minova.scheduler.hosts.state import HostState
from minova.scheduler.hosts.table import HostTable, Mask, Rows

# Attributes that are equal on many hosts: Nova's name, and the column that shows whether they are equal.
SHARED = {
    **{
        name: name
        for name in (
            "total_usable_ram_mb",
            "total_usable_disk_gb",
            "disk_mb_used",
            "free_ram_mb",
            "free_disk_mb",
            "vcpus_total",
            "vcpus_used",
            "num_instances",
            "num_io_ops",
            "failed_builds",
            "hypervisor_version",
            "ram_allocation_ratio",
            "cpu_allocation_ratio",
            "disk_allocation_ratio",
            "cell_uuid",
            "host_ip",
        )
    },
    **dict.fromkeys(("hypervisor_type", "cpu_info", "supported_instances"), "capabilities"),
}
OWN = (
    "host",
    "nodename",
    "hypervisor_hostname",
    "uuid",
    "service",
    "stats",
    "metrics",
    "instances",
    "limits",
    "aggregates",
    "numa_topology",
    "pci_stats",
)


def attribute(host: HostState, name: str) -> Any:
    """Returns the attribute as Nova's HostState has it; None if there is no such attribute."""
    if name == "service":
        return _service(host)
    if name == "stats":
        return {key: str(value) for key, value in host.stats.items()}
    if name == "supported_instances":
        return [list(supported) for supported in host.capabilities.supported_instances]
    if name == "host_ip":
        # An IPAddress, not a string: it is not equal to any string, and cannot be ordered with one.
        return host.host_ip and IPAddress(host.host_ip)
    if name == "pci_stats":
        return host.pci_pools
    if name == "cpu_info":
        return host.cpu_info or None
    if name in SHARED or name in OWN:
        return getattr(host, name)
    return None


def _service(host: HostState) -> UserDict[str, Any]:
    """Not a dict, as in Nova: a query can read its keys, an extra spec cannot."""
    facts = host.service
    return UserDict(
        {
            "host": host.host,
            "binary": "nova-compute",
            "topic": "compute",
            "disabled": facts.disabled,
            "disabled_reason": facts.disabled_reason,
            "forced_down": facts.forced_down,
        }
    )


def field_of(value: Any, name: str) -> Any:
    """Descends one level: into JSON text, a dictionary or an object. Returns None if there is nothing."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


class EquivalentHostsFilter(Filter):
    """Judges only one of the hosts that have equal values of the attributes that the request reads."""

    def reads(self, spec: RequestSpec) -> Iterable[str] | None:
        """Returns Nova's names of the attributes. None: the request sets nothing, and every host passes."""
        raise NotImplementedError

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        names = self.reads(spec)
        if names is None:
            return all_of([], len(hosts))
        rows = np.flatnonzero(left)
        reasons: dict[Any, str | None] = {}
        passed, why = left.copy(), {}
        for row, key in zip(rows.tolist(), _equivalence_keys(hosts, rows, sorted(set(names))), strict=True):
            if key not in reasons:
                reasons[key] = self.refusal_reason(hosts.host(row), spec)
            why[row] = reasons[key]
            passed[row] = why[row] is None
        return Verdict(passed, lambda lost: [why[row] or "" for row in lost.tolist()])


def _equivalence_keys(hosts: HostTable, rows: Rows, names: Sequence[str]) -> Sequence[Any]:
    """Returns a key for each row that equivalent rows share; the row itself if finding a key is not cheap."""
    if not names:
        return [()] * len(rows)
    if all(name in SHARED for name in names):
        return list(zip(*(getattr(hosts, SHARED[name])[rows].tolist() for name in names), strict=True))
    return list(range(len(rows)))
