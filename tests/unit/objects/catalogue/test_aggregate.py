"""The zone of a host."""

from datetime import UTC, datetime

from minova.objects.catalogue.aggregate import Aggregate, zone_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def aggregate(zone: str | None, *hosts: str) -> Aggregate:
    metadata = {} if zone is None else {"availability_zone": zone}
    return Aggregate(id=1, uuid="u", name="a", metadata=metadata, hosts=hosts, created_at=NOW)


def test_the_first_aggregate_of_the_host_that_has_a_zone_defines_it() -> None:
    aggregates = [
        aggregate(None, "a"),
        aggregate("", "a"),
        aggregate("z1", "b"),
        aggregate("z2", "a"),
        aggregate("z3", "a"),
    ]
    assert [zone_of(host, aggregates) for host in ("a", "b", "c")] == ["z2", "z1", None]
    assert [each.zone for each in aggregates[:3]] == [None, None, "z1"]
