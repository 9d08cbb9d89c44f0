"""HypervisorVersionWeigher: the host with the newest hypervisor first; with a negative multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class HypervisorVersionWeigher(Weigher):
    option = "hypervisor_version_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.hypervisor_version
