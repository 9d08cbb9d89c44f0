"""Services and their heartbeats, as the conductor writes them."""

import uuid
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Update, bindparam, case, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova.db.clock import for_insert
from minova.db.models import ComputeNode, Heartbeat, Service
from minova.db.sql import chunked, in_list
from minova.objects.hosts import service as objects

_HEARTBEATS: Any = Heartbeat.__table__
_NODE_IDS = select(ComputeNode.id).where(in_list(ComputeNode.host))
_OF_COMPUTE = update(Service).where(Service.host == bindparam("of_host"), Service.binary == "minova-compute")
# Built once: every audit of every node runs it.
_ACCEPT_REPORT = _OF_COMPUTE.where(Service.refused_report.is_not(None)).values(refused_report=None)


def find(session: Session, host: str, binary: str) -> Service | None:
    return session.scalar(select(Service).where(Service.host == host, Service.binary == binary))


def by_uuid(session: Session, uuid: str) -> Service | None:
    """Returns the service with its row locked."""
    query = select(Service).where(Service.uuid == uuid).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def fences(session: Session, hosts: Collection[str], binary: str, *, held: bool) -> dict[str, bool]:
    """Returns {host: whether it is forced down} of those that have such a service.

    `held`: no other transaction changes these services until this one ends. Any number may read them so, but on Galera each writes them.
    """
    query = select(Service.host, Service.forced_down).where(Service.host.in_(sorted(hosts)), Service.binary == binary)
    rows = session.execute(query.order_by(Service.host).with_for_update(read=True) if held else query)
    return {host: bool(forced_down) for host, forced_down in rows}


def ensure(
    session: Session,
    service: objects.Service,
    at: datetime,
    now: ColumnElement[float],
    *,
    disabled_reason: str | None = None,
    again: bool = False,
) -> Service:
    """Returns the row of (host, binary), and creates it on first use: disabled, if there is a `disabled_reason`."""
    row = find(session, service.host, service.binary)
    if row is None:
        names = ("uuid", "host", "binary", "topic", "down_reason", "version")
        try:
            with session.begin_nested():
                values = {name: getattr(service, name) for name in names}
                values["down_reason"] = service.down_reason and service.down_reason[:255]
                values |= {"disabled": disabled_reason is not None, "disabled_reason": disabled_reason}
                session.connection().execute(insert(Service).values(created_at=at, **values))
        except IntegrityError:  # registered twice at the same time
            pass
        row = find(session, service.host, service.binary)
    if row is None and not again:  # a renamed service has its uuid
        renamed = msgspec.structs.replace(service, uuid=str(uuid.uuid4()))
        return ensure(session, renamed, at, now, disabled_reason=disabled_reason, again=True)
    if row is None:
        raise LookupError(f"{service.uuid} is the service {service.binary} of another host than {service.host}")
    if not set_last_seen(session, [row.id], now):
        with suppress(IntegrityError), session.begin_nested():  # registered twice at the same time
            beat = insert(Heartbeat).values(service_id=row.id, last_seen=for_insert(session, now))
            session.connection().execute(beat)
    return row


def change(session: Session, service_id: int, **values: Any) -> None:
    session.connection().execute(update(Service).where(Service.id == service_id).values(**values))


def note_refused(session: Session, host: str, reason: str | None) -> bool:
    """Notes why a report of the compute about its host was refused; None: it was accepted. Returns whether that is new."""
    if reason is None:
        result: Any = session.connection().execute(_ACCEPT_REPORT, {"of_host": host})
    else:
        differs = Service.refused_report.is_distinct_from(reason)
        result = session.connection().execute(
            _OF_COMPUTE.where(differs).values(refused_report=reason), {"of_host": host}
        )
    return bool(result.rowcount)


def console_addresses(session: Session) -> list[tuple[str, list[str]]]:
    """(host, addresses) of the hosts that have some."""
    query = select(Service.host, Service.console_addresses).where(Service.console_addresses.is_not(None))
    return [(host, addresses or []) for host, addresses in session.execute(query)]


def down_reasons(session: Session) -> dict[int, str]:
    """Returns {service id: reason} of the services that report that they cannot work."""
    query = select(Service.id, Service.down_reason).where(Service.down_reason.is_not(None))
    return {service_id: reason or "" for service_id, reason in session.execute(query)}


class ServiceKey(NamedTuple):
    id: int
    uuid: str
    host: str
    binary: str


def keys(session: Session) -> list[ServiceKey]:
    """Returns the keys of all services."""
    query = select(Service.id, Service.uuid, Service.host, Service.binary)
    return [ServiceKey(*row) for row in session.execute(query)]


def node_ids(session: Session, *hosts: str) -> list[int]:
    """Returns the ids of the compute nodes of these hosts."""
    return list(session.scalars(_NODE_IDS, {"some": sorted(hosts)}))


def lowest_versions(session: Session, down_time: float) -> dict[str, int]:
    """Returns, by topic, the lowest version with which a service registered. Counts only services that were heard
    within `down_time` seconds, and of each topic only the services that serve it.
    """
    newest = select(func.max(Heartbeat.last_seen)).scalar_subquery()
    query = (
        select(Service.topic, func.min(Service.version))
        .join(Heartbeat, Heartbeat.service_id == Service.id)
        .where(Heartbeat.last_seen >= newest - down_time, Service.binary == "minova-" + Service.topic)
        .group_by(Service.topic)
    )
    return {topic: int(version or 0) for topic, version in session.execute(query)}


def guest_keys(session: Session, down_time: float) -> dict[str, str]:
    """Returns {host: IDs of keys} of the conductors that were heard within `down_time` seconds. Leaves out those of releases that do not
    report them.
    """
    newest = select(func.max(Heartbeat.last_seen)).scalar_subquery()
    query = (
        select(Service.host, Service.guest_keys)
        .join(Heartbeat, Heartbeat.service_id == Service.id)
        .where(Heartbeat.last_seen >= newest - down_time)
        .where(Service.binary == objects.CONDUCTOR, Service.guest_keys.is_not(None))
        .order_by(Service.host)
    )
    return {host: keys or "" for host, keys in session.execute(query)}


def to_object(row: Service, last_seen: float | None = None) -> objects.Service:
    names = ("uuid", "host", "binary", "topic", "id", "disabled", "disabled_reason", "forced_down", "down_reason")
    seen_at = datetime.fromtimestamp(last_seen, UTC).replace(tzinfo=None) if last_seen is not None else None
    return objects.Service(**{n: getattr(row, n) for n in names}, version=row.version, last_seen_up=seen_at)


# -- heartbeats --------------------------------------------------------------------------------------------------------


def last_seen(session: Session, service_id: int) -> float | None:
    """Returns when the service was last seen, by the cloud clock; None if it never was."""
    return session.scalar(select(Heartbeat.last_seen).where(Heartbeat.service_id == service_id))


@lru_cache(16)
def _beat(now: ColumnElement[float]) -> Update:
    """Built once: every conductor writes heartbeats every second."""
    return update(_HEARTBEATS).where(in_list(_HEARTBEATS.c.service_id)).values(last_seen=now)


def set_last_seen(session: Session, service_ids: Collection[int], now: ColumnElement[float]) -> int:
    """Sets `last_seen` of these services to now. Returns how many of them have a row."""
    written = 0
    for chunk in chunked(sorted(service_ids)):
        result: Any = session.connection().execute(_beat(now), {"some": chunk})
        written += int(result.rowcount)
    return written


def silence_of(session: Session, service_id: int, now: ColumnElement[float]) -> float | None:
    """Returns the seconds since the service was last seen; None if it never was."""
    return session.scalar(select(now - Heartbeat.last_seen).where(Heartbeat.service_id == service_id))


def seconds_since_last_beat(session: Session, now: ColumnElement[float]) -> float:
    """Returns the seconds since any service was last seen; 0 if none ever was."""
    return session.scalar(select(now - func.max(Heartbeat.last_seen))) or 0.0


def skip_time(session: Session, seconds: float, now: ColumnElement[float]) -> None:
    """Shift `last_seen` by an outage in which no service could be heard, capped at now."""
    later = Heartbeat.last_seen + seconds
    statement = update(Heartbeat).values(last_seen=case((later < now, later), else_=now))
    session.connection().execute(statement.where(Heartbeat.last_seen <= now - seconds))
