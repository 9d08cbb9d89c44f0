"""Instances as the API reads them: one, or a page of many that costs what the page holds."""

import re
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, Text, and_, bindparam, case, cast, exists, func, not_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from minova.db.api_queries import addresses, availability_zones, keyset
from minova.db.api_queries.patterns import Pattern
from minova.db.models import (
    AggregateHost,
    DiagnosisRow,
    Instance,
    InstanceAction,
    InstanceActionEvent,
    InstanceDiagnosis,
    InstanceFault,
    InstanceGroupMember,
    InstanceTag,
    NeutronPort,
    Port,
)
from minova.db.networks import neutron_ports
from minova.db.sql import chunked, json_field
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.servers.states import VmState

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  - as the database keeps times
# `json_field` reads a column of text, and on PostgreSQL this one is none.
_AUTO_DISK_CONFIG = case((json_field(cast(Instance.system_metadata, Text), disk_config.KEY) == "True", 1), else_=0)
# Never NULL: a page must be able to begin after any row. Rows are numbered as they are created.
SORT_KEYS: dict[str, keyset.SortKey] = {
    "created_at": Instance.id,
    "display_name": Instance.display_name,
    "uuid": Instance.uuid,
    "vm_state": Instance.vm_state,
    "power_state": Instance.power_state,
    "launch_index": Instance.launch_index,
    "project_id": Instance.project_id,
    "user_id": Instance.user_id,
    "hostname": Instance.hostname,
    "image_ref": Instance.image_ref,
    "kernel_id": Instance.kernel_id,
    "ramdisk_id": Instance.ramdisk_id,
    "auto_disk_config": _AUTO_DISK_CONFIG,
    "progress": Instance.progress,
    "config_drive": case((Instance.config_drive.is_(True), 1), else_=0),
    "instance_type_id": func.coalesce(json_field(Instance.flavor, "flavorid"), ""),
    "availability_zone": func.coalesce(Instance.availability_zone, ""),
    "display_description": func.coalesce(Instance.description, ""),
    "host": func.coalesce(Instance.host, ""),
    "node": func.coalesce(Instance.node, ""),
    "key_name": func.coalesce(Instance.key_name, ""),
    "locked": case((Instance.locked_by.is_not(None), 1), else_=0),
    "locked_by": func.coalesce(Instance.locked_by, ""),
    "access_ip_v4": func.coalesce(Instance.access_ip_v4, ""),
    "access_ip_v6": func.coalesce(Instance.access_ip_v6, ""),
    "task_state": func.coalesce(Instance.task_state, ""),
    "launched_at": func.coalesce(Instance.launched_at, _EPOCH),
    "terminated_at": func.coalesce(Instance.terminated_at, _EPOCH),
    "updated_at": func.coalesce(Instance.updated_at, Instance.created_at),
}
# Columns of text that a pattern may search.
PATTERN_TEXTS: dict[str, InstrumentedAttribute[Any]] = {
    "display_name": Instance.display_name,
    "display_description": Instance.description,
    "hostname": Instance.hostname,
    "kernel_id": Instance.kernel_id,
    "key_name": Instance.key_name,
    "node": Instance.node,
    "ramdisk_id": Instance.ramdisk_id,
    "reservation_id": Instance.reservation_id,
    "locked_by": Instance.locked_by,
    "access_ip_v4": Instance.access_ip_v4,
    "access_ip_v6": Instance.access_ip_v6,
}


# Addresses, numbers and times. A pattern searches their text, and each database would format that text in its own way.
PATTERN_VALUES: dict[str, Any] = {
    **addresses.TEXTS,
    "auto_disk_config": _AUTO_DISK_CONFIG,
    "launch_index": Instance.launch_index,
    "power_state": Instance.power_state,
    "progress": Instance.progress,
    "created_at": Instance.created_at,
    "launched_at": Instance.launched_at,
    "terminated_at": Instance.terminated_at,
}
_RESERVATION = re.compile(r"r-[0-9a-f]{16}")
# Rows that are read at a time for patterns that no database can run.
BATCH = 1000


class RelatedRows(NamedTuple):
    """Which other tables may have rows of an instance. Clients that wait for a server read it again and again, and most
    servers have no rows in most of these tables: one statement finds that out, in place of one for each table.
    """

    ports: bool = True
    neutron_ports: bool = True
    tags: bool = True
    groups: bool = True
    aggregates: bool = True


class InstanceRow(NamedTuple):
    """The columns of an instance that answers show. Rows of the mapped class take several times as long to load and to
    access.

    `related`: read for a single instance only.
    """

    id: int
    uuid: str
    display_name: str
    hostname: str
    description: str | None
    project_id: str
    user_id: str
    flavor: Flavor
    image_ref: str
    image: Image | None
    kernel_id: str
    ramdisk_id: str
    vm_state: str
    task_state: str | None
    power_state: int
    has_fault: bool
    host: str | None
    node: str | None
    availability_zone: str | None
    launch_index: int
    reservation_id: str
    metadata_: dict[str, Any]
    user_data: str | None
    key_name: str | None
    config_drive: bool
    system_metadata: dict[str, Any]
    progress: int
    locked_by: str | None
    locked_reason: str | None
    access_ip_v4: str | None
    access_ip_v6: str | None
    created_at: datetime
    updated_at: datetime | None
    launched_at: datetime | None
    terminated_at: datetime | None
    deleted_at: datetime | None
    related: RelatedRows = RelatedRows()


# Built once: every GET of a server runs them.
_COLUMNS = tuple(getattr(Instance, name) for name in InstanceRow._fields if name != "related")
# In the order of `RelatedRows`.
_RELATED = (
    *(
        exists().where(model.instance_uuid == Instance.uuid)
        for model in (Port, NeutronPort, InstanceTag, InstanceGroupMember)
    ),
    exists().where(AggregateHost.host == Instance.host),
)
_ROWS = select(*_COLUMNS)
_ONE = select(*_COLUMNS, *_RELATED).where(Instance.uuid == bindparam("b_uuid"))
_ONE_LIVING = _ONE.where(Instance.deleted_at.is_(None))


class InstanceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is None is not filtered by.

    `patterns`: by key of PATTERN_TEXTS and PATTERN_VALUES.
    `deleted`: None returns both deleted and other instances.
    """

    project_id: str | None = None
    user_id: str | None = None
    patterns: tuple[tuple[str, Pattern], ...] = ()
    vm_states: tuple[str, ...] | None = None
    task_states: tuple[str, ...] | None = None
    host: str | None = None
    flavorid: str | None = None
    image_ref: str | None = None
    uuid: str | None = None
    config_drive: bool | None = None
    availability_zone: str | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    locked: bool | None = None
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_tags_any: tuple[str, ...] = ()
    deleted: bool | None = False


def instance(session: Session, uuid: str, project_id: str | None, *, deleted: bool = False) -> InstanceRow | None:
    """Returns one instance of this project (None: of any project). `deleted`: also finds a deleted one."""
    row = session.connection().execute(_ONE if deleted else _ONE_LIVING, {"b_uuid": uuid}).first()
    if row is None or project_id not in (None, row.project_id):
        return None
    related = RelatedRows._make(map(bool, row[len(_COLUMNS) :]))
    return InstanceRow(*row[: len(_COLUMNS)])._replace(related=related)


def numa_topology(session: Session, uuid: str) -> InstanceNUMATopology | None:
    return session.scalar(select(Instance.numa_topology).where(Instance.uuid == uuid))


def instances(
    session: Session,
    instance_filter: InstanceFilter,
    order: Sequence[tuple[str, bool]],
    marker: str | None,
    limit: int,
    default_zone: str,
) -> list[InstanceRow]:
    """Returns the instances sorted by `order`, pairs of (key of SORT_KEYS, whether descending), then by age.

    Raises LookupError if there is no such marker.
    """
    columns = keyset.columns_of(order, SORT_KEYS, Instance.id)
    query, conditions = _ROWS, _conditions(instance_filter)
    if instance_filter.availability_zone is not None:
        conditions.append(availability_zones.shows_zone(session, instance_filter.availability_zone, default_zone))
    after: Sequence[Any] | None = None
    if marker is not None:
        last = session.execute(
            select(Instance.project_id, *keyset.selected(columns)).where(Instance.uuid == marker)
        ).first()
        if last is None or instance_filter.project_id not in (None, last.project_id):
            raise LookupError(marker)
        after = last[1:]
    by_address, many, searches = _split(session, instance_filter.patterns)
    query = query.where(*conditions, *by_address)
    if searches:
        return _searched(
            session,
            query.where(*(Instance.uuid.in_(addresses.instances_of(port_ids)) for port_ids in many)),
            columns,
            after,
            searches,
            limit,
        )
    if after is not None:
        query = query.where(keyset.after(after, columns))
    if many:
        return _read_by_id(session, addresses.first_of_many(session, query, columns, many, limit))
    return _read(session, keyset.ordered(query, columns).limit(limit))


def _read(session: Session, query: Select[Any]) -> list[InstanceRow]:
    return [InstanceRow(*row) for row in session.connection().execute(query)]


def _in_database(key: str, pattern: Pattern) -> bool:
    return key in PATTERN_TEXTS and pattern.like is not None


class _Patterns(NamedTuple):
    """Patterns that `_conditions` leaves out. `many`: queries for the ports of instances, each of which names many. `searches`: those
    that no database can run.
    """

    conditions: list[ColumnElement[bool]]
    many: list[Select[Any]]
    searches: list[tuple[str, Pattern]]


def _split(session: Session, patterns: Sequence[tuple[str, Pattern]]) -> _Patterns:
    split = _Patterns([], [], [])
    of_addresses = any(key in addresses.TEXTS for key, _ in patterns)
    with_neutron = of_addresses and neutron_ports.are_there(session)
    for key, pattern in patterns:
        if _in_database(key, pattern):
            continue
        if with_neutron and key in addresses.TEXTS:
            if pattern.needed is not None:
                split.conditions.append(addresses.may_match(key, pattern.needed))
            split.searches.append((key, pattern))
            continue
        needed = pattern.needed if key in addresses.TEXTS else None
        having = None if needed is None else addresses.instances_or_ports(session, key, needed)
        if isinstance(having, list):
            split.conditions.append(Instance.uuid.in_(having))
        if having is None or pattern.like is None:
            split.searches.append((key, pattern))
        elif isinstance(having, Select):
            split.many.append(having)
    return split


def _read_by_id(session: Session, ids: Sequence[int]) -> list[InstanceRow]:
    """In this order, without those that have gone."""
    rows_by_id = {}
    for some in chunked(ids):
        rows_by_id.update({row.id: row for row in _read(session, _ROWS.where(Instance.id.in_(some)))})
    return [rows_by_id[number] for number in ids if number in rows_by_id]


def _searched(
    session: Session,
    query: Select[Any],
    columns: keyset.Columns,
    after: Sequence[Any] | None,
    searches: Sequence[tuple[str, Pattern]],
    limit: int,
) -> list[InstanceRow]:
    """Reads only the columns that are searched and sorted by, until `limit` rows match. Then reads these rows whole."""
    searchable = PATTERN_TEXTS | PATTERN_VALUES
    keys = [key for key, _ in searches]
    searchers = [pattern.searcher() for _, pattern in searches]
    narrow = keyset.ordered(query, columns).with_only_columns(
        Instance.id, Instance.uuid, *(searchable[key] for key in keys), *keyset.selected(columns)
    )
    first_sort_key = 2 + len(keys)
    ids: list[int] = []
    while len(ids) < limit:
        page = narrow if after is None else narrow.where(keyset.after(after, columns))
        rows = session.execute(page.limit(BATCH)).all()
        of_neutron = (
            addresses.in_neutron(session, [row.uuid for row in rows]) if addresses.TEXTS.keys() & {*keys} else {}
        )
        ids += [
            row[0]
            for row in rows
            if all(
                _finds(search, value) or _finds(search, of_neutron.get((row.uuid, key)))
                for key, search, value in zip(keys, searchers, row[2:first_sort_key], strict=True)
            )
        ]
        if len(rows) < BATCH:
            break
        after = rows[-1][first_sort_key:]
    return _read_by_id(session, ids[:limit])


def _finds(search: Callable[[str], Any], value: Any) -> bool:
    """Searches a time both as the database stores it and as answers show it, and each of several
    addresses separately.
    """
    if value is None:
        return False
    if isinstance(value, datetime):
        texts = (value.isoformat(" ", "seconds"), f"{value.isoformat('T', 'seconds')}Z")
        return any(search(text) is not None for text in texts)
    return any(search(line) is not None for line in str(value).split(addresses.SEPARATOR))


def _conditions(instance_filter: InstanceFilter) -> list[ColumnElement[bool]]:
    equal: list[tuple[InstrumentedAttribute[Any], Any]] = [
        (Instance.project_id, instance_filter.project_id),
        (Instance.user_id, instance_filter.user_id),
        (Instance.host, instance_filter.host),
        (Instance.image_ref, instance_filter.image_ref),
        (Instance.uuid, instance_filter.uuid),
        (Instance.config_drive, instance_filter.config_drive),
    ]
    conditions: list[ColumnElement[bool]] = [column == value for column, value in equal if value is not None]
    if instance_filter.deleted is False and instance_filter.vm_states is None:
        # As in Nova: a soft-deleted instance is found only by its state.
        conditions.append(Instance.vm_state != VmState.SOFT_DELETED)
    if instance_filter.deleted is not None:
        conditions.append(
            Instance.deleted_at.is_not(None) if instance_filter.deleted else Instance.deleted_at.is_(None)
        )
    among = ((Instance.vm_state, instance_filter.vm_states), (Instance.task_state, instance_filter.task_states))
    conditions += [column.in_(values) for column, values in among if values is not None]
    for key, pattern in instance_filter.patterns:
        if _in_database(key, pattern):
            conditions.append(_text_condition(key, pattern))
    if instance_filter.flavorid is not None:
        conditions.append(json_field(Instance.flavor, "flavorid") == instance_filter.flavorid)
    if instance_filter.changed_since is not None:
        conditions.append(func.coalesce(Instance.updated_at, Instance.created_at) >= instance_filter.changed_since)
    if instance_filter.changed_before is not None:
        conditions.append(func.coalesce(Instance.updated_at, Instance.created_at) <= instance_filter.changed_before)
    if instance_filter.locked is not None:
        conditions.append(Instance.locked_by.is_not(None) if instance_filter.locked else Instance.locked_by.is_(None))
    return conditions + _tag_conditions(instance_filter)


def _tag_conditions(instance_filter: InstanceFilter) -> list[ColumnElement[bool]]:
    """The instance has all of `tags`, one of `tags_any`, not all of `not_tags` and none of `not_tags_any`."""
    conditions = [_has_tag((tag,)) for tag in instance_filter.tags]
    if instance_filter.tags_any:
        conditions.append(_has_tag(instance_filter.tags_any))
    if instance_filter.not_tags:
        conditions.append(not_(and_(*(_has_tag((tag,)) for tag in instance_filter.not_tags))))
    if instance_filter.not_tags_any:
        conditions.append(not_(_has_tag(instance_filter.not_tags_any)))
    return conditions


def _has_tag(tags: Sequence[str]) -> ColumnElement[bool]:
    return exists().where(InstanceTag.instance_uuid == Instance.uuid, InstanceTag.tag.in_(tags))


def _text_condition(key: str, pattern: Pattern) -> ColumnElement[bool]:
    if key == "reservation_id" and _RESERVATION.fullmatch(pattern.text):
        return Instance.reservation_id == pattern.text  # uses the index
    return PATTERN_TEXTS[key].ilike(pattern.like or "", escape="\\")


def last_faults(session: Session, uuids: Collection[str]) -> dict[str, InstanceFault]:
    """Returns the newest fault of each instance."""
    if not uuids:
        return {}
    newest = (
        select(func.max(InstanceFault.id))
        .where(InstanceFault.instance_uuid.in_(uuids))
        .group_by(InstanceFault.instance_uuid)
    )
    faults = session.scalars(select(InstanceFault).where(InstanceFault.id.in_(newest)))
    return {fault.instance_uuid: fault for fault in faults}


class Attempt(NamedTuple):
    """One attempt to build. `result` is None while it is in progress. `reason` is for administrators; `kind` names it
    for users.
    """

    host: str
    result: str | None
    reason: str | None
    kind: str | None
    started_at: datetime
    finished_at: datetime | None


def attempts(session: Session, uuid: str) -> list[Attempt]:
    """Returns the attempts to build the instance, in their order."""
    event, action = InstanceActionEvent, InstanceAction
    query = select(event.host, event.result, event.details, event.kind, event.start_time, event.finish_time)
    query = query.join(action, action.id == event.action_id).where(action.instance_uuid == uuid).order_by(event.id)
    return [Attempt(row.host or "", *row[1:]) for row in session.execute(query)]


def actions(session: Session, uuid: str) -> Sequence[InstanceAction]:
    """Returns the actions of an instance, the newest first."""
    model = InstanceAction
    return session.scalars(select(model).where(model.instance_uuid == uuid).order_by(model.id.desc())).all()


def action(session: Session, uuid: str, request_id: str) -> InstanceAction | None:
    """Returns the newest action that a request has begun on an instance."""
    model = InstanceAction
    query = select(model).where(model.instance_uuid == uuid, model.request_id == request_id).order_by(model.id.desc())
    return session.scalar(query.limit(1))


def events(session: Session, action_id: int) -> Sequence[InstanceActionEvent]:
    """Returns the events of an action, the newest first."""
    model = InstanceActionEvent
    return session.scalars(select(model).where(model.action_id == action_id).order_by(model.id.desc())).all()


def without_kinds(session: Session, action_ids: Sequence[int]) -> frozenset[int]:
    """Returns those of these actions that have a failed event without a recorded kind."""
    model, kindless_ids = InstanceActionEvent, set[int]()
    for some in chunked(action_ids):
        query = select(model.action_id).where(model.action_id.in_(some), model.result == "Error", model.kind.is_(None))
        kindless_ids.update(session.scalars(query))
    return frozenset(kindless_ids)


def has_action(session: Session, uuid: str, action: str, request_id: str) -> bool:
    """Whether the request has begun this action on the instance."""
    model = InstanceAction
    query = select(model.id).where(model.request_id == request_id, model.instance_uuid == uuid, model.action == action)
    return session.scalar(query.limit(1)) is not None


def last_diagnosis(session: Session, uuid: str) -> DiagnosisRow | None:
    """Returns the scheduler's newest decision about this instance."""
    query = select(DiagnosisRow).join(InstanceDiagnosis).where(InstanceDiagnosis.instance_uuid == uuid)
    return session.scalar(query.order_by(DiagnosisRow.id.desc()).limit(1))
