"""IoOpsWeigher: the host with the fewest builds, moves and snapshots first; with a positive multiplier, last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class IoOpsWeigher(Weigher):
    minval = 0
    option = "io_ops_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.num_io_ops
