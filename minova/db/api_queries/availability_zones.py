"""Availability zones as the API reads them. A host is in the zone of its aggregates, otherwise in the default zone."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from minova.db.models import Aggregate, AggregateHost, Instance, Service
from minova.db.sql import chunked, in_list
from minova.objects.catalogue.aggregate import ZONE

_METADATA = select(Aggregate.id, Aggregate.metadata_)
# Built once: every GET of a server runs it.
_OF_HOSTS = (
    select(AggregateHost.host, Aggregate.metadata_)
    .join(Aggregate, Aggregate.id == AggregateHost.aggregate_id)
    .where(in_list(AggregateHost.__table__.c.host))
)


def by_host(session: Session, hosts: Collection[str] | None = None) -> dict[str, str]:
    """Returns {host: zone} of these hosts (None: of all hosts). Hosts of the default zone are left out."""
    if hosts is None:
        zones = _zones(session)
        query = select(AggregateHost.host, AggregateHost.aggregate_id).where(AggregateHost.aggregate_id.in_(zones))
        return {host: zones[aggregate_id] for host, aggregate_id in session.execute(query)} if zones else {}
    return {
        host: str(metadata[ZONE])
        for some in chunked(sorted(hosts))
        for host, metadata in session.connection().execute(_OF_HOSTS, {"some": some})
        if metadata.get(ZONE)
    }


def is_available(session: Session, zone: str, default: str) -> bool:
    """Whether the zone has an enabled compute service. Nova checks this before it accepts a request."""
    zones = _zones(session)
    enabled = select(Service.id).where(Service.topic == "compute", Service.disabled.is_(False)).limit(1)
    hosts = select(AggregateHost.host)
    hosts_in_zone = hosts.where(AggregateHost.aggregate_id.in_([key for key, name in zones.items() if name == zone]))
    if session.scalar(enabled.where(Service.host.in_(hosts_in_zone))) is not None:
        return True
    elsewhere = hosts.where(AggregateHost.aggregate_id.in_(zones))
    return zone == default and session.scalar(enabled.where(Service.host.not_in(elsewhere))) is not None


def shows_zone(session: Session, zone: str, default: str) -> ColumnElement[bool]:
    """The condition that an instance shows this zone: its host is in the zone, or it has no host and its request named
    the zone.
    """
    zones = _zones(session)
    hosts = select(AggregateHost.host)
    in_zone: ColumnElement[bool] = Instance.host.in_(
        hosts.where(AggregateHost.aggregate_id.in_([k for k, name in zones.items() if name == zone]))
    )
    if zone == default:
        elsewhere = Instance.host.not_in(hosts.where(AggregateHost.aggregate_id.in_(zones)))
        in_zone = or_(in_zone, and_(Instance.host.is_not(None), elsewhere))
    return or_(in_zone, and_(Instance.host.is_(None), Instance.availability_zone == zone))


def _zones(session: Session) -> dict[int, str]:
    """Returns {aggregate id: zone} of the aggregates that define a zone."""
    rows = session.connection().execute(_METADATA)
    return {aggregate_id: str(metadata[ZONE]) for aggregate_id, metadata in rows if metadata.get(ZONE)}
