"""BuildFailureWeigher: hosts with recent build failures come last."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.hosts.table import Hosts
from minova.scheduler.weights import Weigher


class BuildFailureWeigher(Weigher):
    option = "build_failure_weight_multiplier"
    sign = -1

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.failed_builds
