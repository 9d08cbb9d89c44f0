"""NumInstancesWeigher: the host with the most instances first; with a negative multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class NumInstancesWeigher(Weigher):
    option = "num_instances_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.num_instances
