"""The weighers of the soft policies of server groups."""

from typing import Any

from minova.objects.catalogue.instance_group import SOFT_AFFINITY, SOFT_ANTI_AFFINITY
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """Prefers the host with the most members of the group."""

    option = "soft_affinity_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return members_here(hosts, spec, SOFT_AFFINITY)


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """Prefers the host with the fewest members of the group."""

    option = "soft_anti_affinity_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return -members_here(hosts, spec, SOFT_ANTI_AFFINITY)


def members_here(hosts: Hosts, spec: RequestSpec, policy: str) -> Any:
    group = spec.instance_group
    return hosts.instances_among(group.members) if group is not None and group.policy == policy else 0
