"""AvailabilityZoneFilter, as in Nova 20: the zone is in the metadata of the host's aggregates."""

from typing import Any

from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.filters import ClassFilter
from minova.scheduler.hosts.record import AggregateFacts


class AvailabilityZoneFilter(ClassFilter):
    """A host is in the default zone if none of its aggregates has a zone."""

    of = "aggregates"

    def __init__(self, conf: Any) -> None:
        super().__init__(conf)
        self.default_zone: str = conf.scheduler.default_availability_zone

    def verdict(self, value: tuple[AggregateFacts, ...], spec: RequestSpec) -> str | None:
        if not spec.availability_zone:
            return None
        zones = {zone for aggregate in value for zone in aggregate.values("availability_zone")} or {self.default_zone}
        if spec.availability_zone in zones:
            return None
        return f"availability zone {', '.join(sorted(zones))}, requested {spec.availability_zone}"
