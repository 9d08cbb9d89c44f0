"""Nova's host aggregate: hosts with common metadata. An aggregate with the key `availability_zone` defines a zone."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

ZONE = "availability_zone"


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    uuid: str
    name: str
    metadata: dict[str, str] = {}
    hosts: tuple[str, ...] = ()
    created_at: datetime
    updated_at: datetime | None = None

    @property
    def zone(self) -> str | None:
        return self.metadata.get(ZONE) or None


def zone_of(host: str, aggregates: Iterable[Aggregate]) -> str | None:
    """Returns the zone of a host according to its aggregates; None: the default zone."""
    return next((aggregate.zone for aggregate in aggregates if aggregate.zone and host in aggregate.hosts), None)
