"""DiskWeigher: the host with the most free disk first; with a negative multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class DiskWeigher(Weigher):
    minval = 0
    option = "disk_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.free_disk_mb
