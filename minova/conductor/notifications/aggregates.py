"""Payloads of Nova's versioned notifications of aggregates. Pure."""

from collections.abc import Mapping
from typing import Any

from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.image_caching import THERE, CacheStatus
from minova.objects.requests.versioned_payloads import Payload, payload


def of_aggregate(aggregate: Aggregate) -> Payload:
    """The payload of `aggregate.cache_images.start` and `.end`."""
    names = ("id", "uuid", "name", "metadata")
    data: dict[str, Any] = {name: getattr(aggregate, name) for name in names}
    return payload("AggregatePayload", "1.1", data | {"hosts": [*aggregate.hosts]})


def of_host(aggregate: Aggregate, host: str, outcome: Mapping[str, CacheStatus], index: int) -> Payload:
    """The payload of `aggregate.cache_images.progress`: a host is done, the one with this number, from 1 on."""
    data = {
        "id": aggregate.id,
        "uuid": aggregate.uuid,
        "name": aggregate.name,
        "host": host,
        "images_cached": [image_id for image_id, status in outcome.items() if status in THERE],
        "images_failed": [image_id for image_id, status in outcome.items() if status not in THERE],
        "index": index,
        "total": len(aggregate.hosts),
    }
    return payload("AggregateCachePayload", "1.0", data)
