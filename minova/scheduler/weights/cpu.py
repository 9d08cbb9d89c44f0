"""CPUWeigher: the host with the most free vCPUs first; with a negative multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class CPUWeigher(Weigher):
    minval = 0
    option = "cpu_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.vcpus * hosts.cpu_allocation_ratio - hosts.vcpus_used
