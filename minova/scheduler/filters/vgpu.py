"""VGPUFilter: passes hosts with enough free virtual GPUs for the flavor (`resources:VGPU`)."""

from collections.abc import Iterator

from minova import errors
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import Check, NumericFilter, enough_free
from minova.scheduler.hosts.table import Hosts

KEY = "resources:VGPU"


class VGPUFilter(NumericFilter):
    def checks(self, hosts: Hosts, spec: RequestSpec) -> Iterator[Check]:
        amount = spec.flavor.extra_specs.get(KEY)
        if amount is None:
            return
        if not amount.isdecimal():
            raise errors.BadRequest(f"Extra spec {KEY}: {amount!r} is no number.")
        inventory = hosts.inventory("VGPU")
        yield enough_free(
            "VGPU", inventory.capacity - inventory.used, int(amount), limit=inventory.capacity, used=inventory.used
        )
