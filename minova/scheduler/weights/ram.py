"""RAMWeigher: the host with the most free memory first; with a negative multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class RAMWeigher(Weigher):
    minval = 0
    option = "ram_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.free_ram_mb
