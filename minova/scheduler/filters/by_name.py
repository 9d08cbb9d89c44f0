"""Filters that know hosts by their names."""

from collections.abc import Callable
from typing import NamedTuple

from minova.objects.request_spec import RequestSpec
from minova.scheduler.filters import Filter, Verdict, all_of
from minova.scheduler.host_table import HostState, HostTable, Mask, Rows


class NameTest(NamedTuple):
    """Both are asked with host and node."""

    passes: Callable[[str, str], bool]
    reason: Callable[[str, str], str]


class NameFilter(Filter):
    def test(self, spec: RequestSpec) -> NameTest | None:
        """None: the request does not ask, and everybody passes."""
        raise NotImplementedError

    def sieve(self, hosts: HostTable, left: Mask, spec: RequestSpec) -> Verdict:
        test = self.test(spec)
        if test is None:
            return all_of([], len(hosts))
        records, passed = hosts.records, left.copy()
        rows = left.nonzero()[0]
        passed[rows] = [test.passes(records[row].host, records[row].node) for row in rows.tolist()]

        def reasons(rows: Rows) -> list[str]:
            return [test.reason(records[row].host, records[row].node) for row in rows.tolist()]

        return Verdict(passed, reasons)

    def refusal(self, host: HostState, spec: RequestSpec) -> str | None:
        test = self.test(spec)
        if test is None or test.passes(host.host, host.node):
            return None
        return test.reason(host.host, host.node)
