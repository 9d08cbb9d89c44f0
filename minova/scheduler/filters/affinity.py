"""SameHostFilter, DifferentHostFilter, and the filters of the hard policies of server groups."""

from collections.abc import Collection, Iterator

from minova.objects.catalogue.instance_group import AFFINITY, ANTI_AFFINITY
from minova.objects.requests.checks import at_least, at_most, below
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter
from minova.scheduler.filters.by_name import NamedHosts, NameFilter
from minova.scheduler.filters.errors import InvalidFilterInput
from minova.scheduler.hosts.table import Hosts


class SameHostFilter(NumericFilter):
    """Passes hosts with one of the instances of the hint `same_host`."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        uuids = uuids_of(spec, "same_host")
        if uuids:
            yield at_least("instances of the hint same_host here:", hosts.instances_among(uuids), 1)


class DifferentHostFilter(NumericFilter):
    """Passes hosts with none of the instances of the hint `different_host`."""

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        uuids = uuids_of(spec, "different_host")
        if uuids:
            yield at_most("instances of the hint different_host here:", hosts.instances_among(uuids), 0)


class ServerGroupAntiAffinityFilter(NumericFilter):
    """Passes hosts with fewer members of the group than `max_server_per_host` (1 without that rule). A server that is
    being moved may stay on its host.
    """

    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        group = spec.instance_group
        if group is None or group.policy != ANTI_AFFINITY:
            return
        check = below("members of the group here:", hosts.instances_among(group.members), group.most_per_host)
        here_already = hosts.instances_among((spec.instance_uuid,)) > 0 if spec.instance_uuid else False
        yield check.unless(here_already)


class ServerGroupAffinityFilter(NameFilter):
    """Passes the hosts of the group's members; for the first member, any host."""

    def named_hosts(self, spec: RequestSpec) -> NamedHosts | None:
        group = spec.instance_group
        if group is None or group.policy != AFFINITY or not group.hosts:
            return None
        return NamedHosts(
            {(host, None) for host in group.hosts}, f"the group is on {', '.join(sorted(set(group.hosts)))}"
        )


def uuids_of(spec: RequestSpec, hint: str) -> Collection[str]:
    """Raises InvalidFilterInput if the hint holds anything else than uuids."""
    value = spec.get_scheduler_hint(hint)
    if isinstance(value, str):
        return (value,) if value else ()
    try:
        return frozenset(value or ())
    except TypeError as error:
        raise InvalidFilterInput(f"Scheduler hint {hint}: {value!r} names no instances", error) from error
