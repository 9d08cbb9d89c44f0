"""CrossCellWeigher: if a server may move to another cell, hosts of its own cell come first."""

from typing import Any

import numpy as np

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts, HostTable
from minova.scheduler.weights import Weigher


class CrossCellWeigher(Weigher):
    """1 in the cell that the request names, -1 in other cells; 0 if the request names no cell or the server may not
    leave it.
    """

    option = "cross_cell_move_weight_multiplier"

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        destination = spec.requested_destination
        if destination is None or not destination.cell or not destination.allow_cross_cell_move:
            return 0
        if not isinstance(hosts, HostTable):
            return 1 if hosts.cell_uuid == destination.cell else -1
        cells, ids = hosts.class_column("cell_uuid")
        return np.array([1 if cell == destination.cell else -1 for cell in cells])[ids]
