"""Security groups, their rules, and which ports have them: queries and writes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session, aliased

from minova.db import models
from minova.db.networks import address_groups, tags
from minova.db.networks.pages import Page, rows_of
from minova.db.sql import chunked, in_list
from minova.objects.network.group_names import ids_by_text
from minova.objects.network.network import SecurityGroup, SecurityGroupRule

Row, Rule, OfPort, Port = models.SecurityGroup, models.SecurityGroupRule, models.PortSecurityGroup, models.Port
_PLAIN = ("name", "description", "project_id", "revision_number", "created_at", "updated_at")
_PLAIN_OF_RULE = (
    "project_id",
    "description",
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "revision_number",
    "created_at",
    "updated_at",
)

# Built once: every server with interfaces runs them.
_LOCK = select(Row).where(in_list(Row.uuid)).order_by(Row.id).with_for_update()
_LOCK_DEFAULTS = select(Row).where(in_list(Row.default_of)).order_by(Row.id).with_for_update()
_DEFAULTS = select(Row.default_of, Row.uuid).where(in_list(Row.default_of))
_GIVE = insert(OfPort)
_RULES = select(Rule).where(in_list(Rule.group_id)).order_by(Rule.id)
_REMOTE = aliased(Row)
_RULE, _REMOTE_ROW = Rule.__table__.c, Row.__table__.alias()
_RULES_WITH_REMOTES = (
    select(
        # In the order of `RuleWithRemote`.
        _RULE.group_id,
        _RULE.direction,
        _RULE.ethertype,
        _RULE.protocol,
        _RULE.port_range_min,
        _RULE.port_range_max,
        _RULE.remote_ip_prefix,
        _RULE.remote_address_group_id,
        _RULE.remote_group_id,
        _REMOTE_ROW.c.uuid,
        _REMOTE_ROW.c.members_revision,
    )
    .select_from(Rule.__table__)
    .outerjoin(_REMOTE_ROW, _REMOTE_ROW.c.id == _RULE.remote_group_id)
    .where(in_list(_RULE.group_id))
    .order_by(_RULE.id)
)
_OF_INSTANCES = (
    select(Row.uuid)
    .join(OfPort, OfPort.group_id == Row.id)
    .join(Port, Port.id == OfPort.port_id)
    .where(in_list(Port.instance_uuid))
    .distinct()
)
_NAMES_OF_INSTANCES = (
    select(Port.instance_uuid, Row.name)
    .join(OfPort, OfPort.port_id == Port.id)
    .join(Row, Row.id == OfPort.group_id)
    .where(in_list(Port.instance_uuid))
    .distinct()
    .order_by(Row.name)
)
_OF_PORTS = (
    select(OfPort.port_id, Row.id, Row.uuid)
    .join(Row, Row.id == OfPort.group_id)
    .where(in_list(OfPort.port_id))
    .order_by(Row.id)
)


class RuleWithRemote(NamedTuple):
    """Columns of a rule, and of the group that the rule names."""

    group_id: int
    direction: str
    ethertype: str
    protocol: str | None
    port_range_min: int | None
    port_range_max: int | None
    remote_ip_prefix: str | None
    remote_address_group_id: int | None
    remote_group_id: int | None
    remote_uuid: str | None
    remote_revision: int | None


# -- groups --------------------------------------------------------------------------------------------------------------


def find(session: Session, uuid: str) -> SecurityGroup | None:
    row = session.scalar(select(Row).where(Row.uuid == uuid).execution_options(populate_existing=True))
    return None if row is None else _to_objects(session, [row])[0]


def visible(
    session: Session, project_id: str | None, filters: Mapping[str, Sequence[Any]], page: Page
) -> list[SecurityGroup]:
    """Returns the groups of a project; None: all. Raises LookupError if the marker is unknown."""
    query = select(Row)
    if project_id is not None:
        query = query.where(Row.project_id == project_id)
    return _to_objects(session, rows_of(session, query, Row, filters, page))


def ids_of_names(session: Session, project_id: str, names: Collection[str]) -> dict[str, list[str]]:
    """Returns {name or id: ids} of the project's groups that have one of these names or ids. An id wins over a name."""
    query = select(Row.uuid, Row.name).where(
        Row.project_id == project_id, or_(Row.name.in_(names), Row.uuid.in_(names))
    )
    ids_of_texts = ids_by_text((uuid, name) for uuid, name in session.execute(query.order_by(Row.id)))
    return {text: ids for text, ids in ids_of_texts.items() if text in names}


def default_of(session: Session, project_id: str) -> str | None:
    """Returns the id of the project's default group."""
    return session.scalar(select(Row.uuid).where(Row.default_of == project_id))


def defaults_of(session: Session, project_ids: Collection[str]) -> dict[str, str]:
    """Returns the ids of the default groups, by project."""
    if not project_ids:
        return {}
    return {str(project_id): uuid for project_id, uuid in session.execute(_DEFAULTS, {"some": sorted(project_ids)})}


def without_default(session: Session, project_ids: Collection[str]) -> list[str]:
    return sorted(set(project_ids) - defaults_of(session, project_ids).keys())


def add(session: Session, group: SecurityGroup, at: datetime) -> int:
    """Adds the group without its rules. Returns the row id. Raises IntegrityError if the project already has a default
    group.
    """
    values: dict[str, Any] = {"name": group.name, "description": group.description, "project_id": group.project_id}
    values |= {"default_of": group.project_id if group.is_default else None}
    times = {"revision_number": 1, "created_at": at, "updated_at": at}
    result: Any = session.connection().execute(insert(Row).values(uuid=group.id, **values, **times))
    return int(result.inserted_primary_key[0])


def replace(session: Session, group: SecurityGroup, at: datetime) -> bool:
    """Replaces name and description. Returns False if the group's revision is no longer `group.revision_number`."""
    statement = update(Row).where(Row.uuid == group.id, Row.revision_number == group.revision_number)
    changed = statement.values(
        name=group.name, description=group.description, revision_number=group.revision_number + 1, updated_at=at
    )
    result: Any = session.connection().execute(changed)
    return bool(result.rowcount)


def lock_several(session: Session, uuids: Collection[str]) -> dict[str, models.SecurityGroup]:
    """Locks the groups that exist, and returns them by uuid. Until the transaction ends, the groups and their rules
    stay.
    """
    if not uuids:
        return {}
    options = {"populate_existing": True}
    return {row.uuid: row for row in session.scalars(_LOCK, {"some": sorted(uuids)}, execution_options=options)}


def lock_defaults(session: Session, project_ids: Collection[str]) -> dict[str, models.SecurityGroup]:
    """As `lock_several`, for the default groups of these projects."""
    if not project_ids:
        return {}
    values, options = {"some": sorted(project_ids)}, {"populate_existing": True}
    return {row.uuid: row for row in session.scalars(_LOCK_DEFAULTS, values, execution_options=options)}


def is_used(session: Session, group_id: int) -> bool:
    """Whether a port has the group."""
    return bool(session.scalar(select(exists().where(OfPort.group_id == group_id))))


def groups_with_rules_for(session: Session, uuid: str) -> set[str]:
    """Returns the other groups that have rules that name the group."""
    remote_group = aliased(Row)
    query = (
        select(Row.uuid).join(Rule, Rule.group_id == Row.id).join(remote_group, Rule.remote_group_id == remote_group.id)
    )
    return set(session.scalars(query.where(remote_group.uuid == uuid, Row.uuid != uuid)))


def remove(session: Session, group_id: int) -> dict[str, int]:
    """Removes the group, its rules, and rules of other groups that name it. Returns {project: number of its removed
    rules}.
    """
    goes = or_(Rule.group_id == group_id, Rule.remote_group_id == group_id)
    count = select(Rule.project_id, func.count(Rule.id)).where(goes).group_by(Rule.project_id)
    freed_quota = {project_id: int(number) for project_id, number in session.execute(count)}
    rule_ids = session.scalars(select(Rule.uuid).where(goes)).all()
    session.connection().execute(delete(Rule).where(goes))
    _remove_tags_of_rules(session, rule_ids)
    tags.remove(session, select(Row.uuid).where(Row.id == group_id))
    session.connection().execute(delete(Row).where(Row.id == group_id))
    return freed_quota


# -- rules ---------------------------------------------------------------------------------------------------------------


def find_rule(session: Session, uuid: str) -> SecurityGroupRule | None:
    row = session.scalar(select(Rule).where(Rule.uuid == uuid).execution_options(populate_existing=True))
    return None if row is None else _rules_to_objects(session, [row])[0]


def visible_rules(
    session: Session, project_id: str | None, filters: Mapping[str, Sequence[Any]], page: Page
) -> list[SecurityGroupRule]:
    """Returns the rules of a project; None: all. Raises LookupError if the marker is unknown."""
    query = select(Rule)
    if project_id is not None:
        query = query.where(Rule.project_id == project_id)
    values = dict(filters)
    for name, column, table in (
        ("security_group_id", "group_id", Row),
        ("remote_group_id", "remote_group_id", Row),
        ("remote_address_group_id", "remote_address_group_id", models.AddressGroup),
    ):
        if name in values:
            values[column] = session.scalars(select(table.id).where(table.uuid.in_(values.pop(name)))).all()
    return _rules_to_objects(session, rows_of(session, query, Rule, values, page))


def add_rules(
    session: Session,
    group_id: int,
    rules: Iterable[SecurityGroupRule],
    remotes: Mapping[str, int],
    at: datetime,
    address_groups: Mapping[str, int] | None = None,
) -> None:
    """`remotes`, `address_groups`: row ids of the security groups and address groups that the rules name."""
    ranges = address_groups or {}
    times = {"revision_number": 0, "created_at": at, "updated_at": at}
    rows = [
        {name: getattr(rule, name) for name in _PLAIN_OF_RULE}
        | {"uuid": rule.id, "group_id": group_id, "remote_group_id": remotes.get(rule.remote_group_id or "")}
        | {"remote_address_group_id": ranges.get(rule.remote_address_group_id or "")}
        | times
        for rule in rules
    ]
    session.connection().execute(insert(Rule), rows)


def rules_of(session: Session, group_ids: Collection[int]) -> list[models.SecurityGroupRule]:
    rows: list[models.SecurityGroupRule] = []
    for chunk in chunked(sorted(group_ids)):
        rows += session.scalars(_RULES, {"some": chunk})
    return rows


def rules_with_remotes(session: Session, group_ids: Collection[int]) -> list[RuleWithRemote]:
    """Returns the rules of these groups, each with the id of the group that it names and that group's
    `members_revision`.
    """
    rows: list[RuleWithRemote] = []
    for chunk in chunked(sorted(group_ids)):
        rows += (RuleWithRemote._make(row) for row in session.execute(_RULES_WITH_REMOTES, {"some": chunk}))
    return rows


def remove_rule(session: Session, uuid: str, revision: int | None = None) -> bool:
    """Returns whether there was such a rule of this revision; None: of any. A tag of the rule raises it, and does not lock the group."""
    statement = delete(Rule).where(Rule.uuid == uuid)
    if revision is not None:
        statement = statement.where(Rule.revision_number == revision)
    result: Any = session.connection().execute(statement)
    if not result.rowcount:
        return False
    _remove_tags_of_rules(session, [uuid])
    return True


def _remove_tags_of_rules(session: Session, uuids: Sequence[str]) -> None:
    """The rules must be removed already: adding a tag locks the row of its rule."""
    for chunk in chunked(sorted(uuids)):
        tags.remove(session, chunk)


# -- ports ---------------------------------------------------------------------------------------------------------------


def give_to_ports(session: Session, groups: Mapping[int, Iterable[int]]) -> None:
    """Adds these groups to the ports, besides the groups that they already have."""
    rows = [{"port_id": port_id, "group_id": group_id} for port_id, of_port in groups.items() for group_id in of_port]
    if rows:
        session.connection().execute(_GIVE, rows)


def take_from_ports(session: Session, port_ids: Collection[int]) -> None:
    session.connection().execute(delete(OfPort).where(OfPort.port_id.in_(port_ids)))


def of_ports(session: Session, port_ids: Collection[int]) -> dict[int, list[tuple[int, str]]]:
    """Returns (row id, id) of each group of each port."""
    groups_by_port: dict[int, list[tuple[int, str]]] = {}
    for chunk in chunked(sorted(port_ids)):
        for port_id, row_id, uuid in session.execute(_OF_PORTS, {"some": chunk}):
            groups_by_port.setdefault(port_id, []).append((row_id, uuid))
    return groups_by_port


def of_instances(session: Session, instance_uuids: Collection[str]) -> set[str]:
    """Returns the ids of the groups of these servers' ports."""
    group_ids: set[str] = set()
    for chunk in chunked(sorted(instance_uuids)):
        group_ids |= set(session.scalars(_OF_INSTANCES, {"some": chunk}))
    return group_ids


def names_of_instances(session: Session, instance_uuids: Collection[str]) -> dict[str, list[str]]:
    """Returns the names of the groups of each server's ports, without duplicates."""
    names_by_instance: dict[str, list[str]] = {}
    for chunk in chunked(sorted(instance_uuids)):
        for uuid, name in session.execute(_NAMES_OF_INSTANCES, {"some": chunk}):
            names_by_instance.setdefault(str(uuid), []).append(name)
    return names_by_instance


def hosts_of(session: Session, uuids: Collection[str]) -> set[str]:
    """Returns the hosts with ports that have these groups, or have groups whose rules name these groups."""
    hosts = set(hosts_naming(session, uuids))
    for chunk in chunked(sorted(uuids)):
        hosts |= set(session.scalars(_HOSTS_HAVING, {"some": chunk}))
    return {host for host in hosts if host}


def hosts_naming(session: Session, uuids: Collection[str]) -> dict[str, set[str]]:
    """Returns {host: those of these groups that rules of the groups of its ports name}.

    Includes hosts that are to build servers with such ports: their claims may be in progress.
    """
    groups_by_host: dict[str, set[str]] = {}
    for chunk in chunked(sorted(uuids)):
        for query in (_HOSTS_NAMING, _BUILDS_NAMING):
            for host, uuid in session.execute(query, {"some": chunk}):
                groups_by_host.setdefault(host, set()).add(uuid)
    return groups_by_host


def _with_ports(server: type[models.Instance] | type[models.Task], uuid: Any, *columns: Any) -> Select[Any]:
    """Selects the hosts of instances or tasks whose servers have ports, with the security groups of these ports."""
    query = select(server.host, *columns).select_from(server).join(Port, Port.instance_uuid == uuid)
    return query.join(OfPort, OfPort.port_id == Port.id).where(server.host.is_not(None)).distinct()


def _naming(server: type[models.Instance] | type[models.Task], uuid: Any) -> Select[Any]:
    """Extends `_with_ports` by the groups that rules of these groups name."""
    query = _with_ports(server, uuid, _REMOTE.uuid).join(Rule, Rule.group_id == OfPort.group_id)
    return query.join(_REMOTE, _REMOTE.id == Rule.remote_group_id).where(in_list(_REMOTE.uuid))


_HOSTS_HAVING = (
    _with_ports(models.Instance, models.Instance.uuid).join(Row, Row.id == OfPort.group_id).where(in_list(Row.uuid))
)
_HOSTS_NAMING = _naming(models.Instance, models.Instance.uuid)
_BUILDS_NAMING = _naming(models.Task, models.Task.instance_uuid)


# -- objects -------------------------------------------------------------------------------------------------------------


def _to_objects(session: Session, rows: Sequence[models.SecurityGroup]) -> list[SecurityGroup]:
    rules: dict[str, list[SecurityGroupRule]] = {}
    for rule in _rules_to_objects(session, rules_of(session, {row.id for row in rows})):
        rules.setdefault(rule.security_group_id, []).append(rule)
    return [
        SecurityGroup(
            id=row.uuid,
            is_default=row.default_of is not None,
            rules=tuple(rules.get(row.uuid, ())),
            **{name: getattr(row, name) for name in _PLAIN},
        )
        for row in rows
    ]


def _rules_to_objects(session: Session, rows: Sequence[models.SecurityGroupRule]) -> list[SecurityGroupRule]:
    ids = {row.group_id for row in rows} | {row.remote_group_id for row in rows if row.remote_group_id is not None}
    uuids: dict[int | None, str | None] = {None: None}
    for chunk in chunked(sorted(ids)):
        uuids.update(
            (row_id, uuid) for row_id, uuid in session.execute(select(Row.id, Row.uuid).where(Row.id.in_(chunk)))
        )
    ranges = address_groups.ids_of(session, {row.remote_address_group_id for row in rows} - {None})
    return [
        SecurityGroupRule(
            id=row.uuid,
            security_group_id=str(uuids[row.group_id]),
            remote_group_id=uuids[row.remote_group_id],
            remote_address_group_id=ranges.get(row.remote_address_group_id),
            **{name: getattr(row, name) for name in _PLAIN_OF_RULE},
        )
        for row in rows
    ]
