"""Filters that pass or refuse hosts by name."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Filter, Verdict, all_of
from minova.scheduler.hosts.state import HostState
from minova.scheduler.hosts.table import HostTable, Mask


class NamedHosts(NamedTuple):
    """Hosts by name: (host, node); node None: any node of the host. These hosts pass or, with `but`, fail."""

    nodes: Collection[tuple[str, str | None]]
    reason: str
    but: bool = False


class NameFilter(Filter):
    def named_hosts(self, spec: RequestSpec) -> NamedHosts | None:
        """Returns None if the request sets nothing; then every host passes."""
        raise NotImplementedError

    def filter_table(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        named_hosts = self.named_hosts(spec)
        if named_hosts is None:
            return all_of([], len(hosts))
        passed = np.full(len(hosts), named_hosts.but)
        for host, node in named_hosts.nodes:
            for row in hosts.rows_of_host(host.lower()):
                if hosts.records[row].host == host and node in (None, hosts.records[row].node):
                    passed[row] = not named_hosts.but
        return Verdict(passed, lambda lost: [named_hosts.reason] * len(lost))

    def refusal_reason(self, host: HostState, spec: RequestSpec) -> str | None:
        named_hosts = self.named_hosts(spec)
        if named_hosts is None:
            return None
        is_named = (host.host, None) in named_hosts.nodes or (host.host, host.node) in named_hosts.nodes
        return None if is_named is not named_hosts.but else named_hosts.reason
