"""Tags of networks, subnets, subnet pools, ports, security groups and their rules, and address groups: queries and writes. They are removed with their
resources.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, delete, insert, not_, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.sql import chunked, in_list

Tag = models.NetworkTag
# {kind of resource: its table}
TABLES: Mapping[str, Any] = {
    "network": models.Network,
    "subnet": models.Subnet,
    "subnetpool": models.SubnetPool,
    "port": models.Port,
    "security_group": models.SecurityGroup,
    "security_group_rule": models.SecurityGroupRule,
    "address_group": models.AddressGroup,
}
_OF_RESOURCES = select(Tag.resource_id, Tag.tag).where(in_list(Tag.resource_id)).order_by(Tag.tag)


class TagFilter(msgspec.Struct, frozen=True, kw_only=True):
    """`every`: a resource has all of these tags. `some`: at least one of them. `not_every`, `not_some`: the opposites."""

    every: tuple[str, ...] = ()
    some: tuple[str, ...] = ()
    not_every: tuple[str, ...] = ()
    not_some: tuple[str, ...] = ()


def conditions(tag_filter: TagFilter, uuid: Any) -> list[ColumnElement[bool]]:
    """`uuid`: the column with the ids of the resources."""
    tag_conditions: list[ColumnElement[bool]] = [uuid.in_(_having(tag)) for tag in tag_filter.every]
    if tag_filter.some:
        tag_conditions.append(uuid.in_(_having(*tag_filter.some)))
    if tag_filter.not_every:
        # De Morgan: it lacks at least one.
        lacks = [uuid.not_in(_having(tag)) for tag in tag_filter.not_every]
        tag_conditions.append(_any(lacks))
    if tag_filter.not_some:
        tag_conditions.append(not_(uuid.in_(_having(*tag_filter.not_some))))
    return tag_conditions


def _any(several: list[ColumnElement[bool]]) -> ColumnElement[bool]:
    first, *others = several
    for other in others:
        first = first | other
    return first


def _having(*tags: str) -> Select[Any]:
    return select(Tag.resource_id).where(Tag.tag.in_(tags))


def of_resources(session: Session, uuids: Collection[str]) -> dict[str, list[str]]:
    """Returns {resource: its tags in alphabetical order}. Resources without tags are left out."""
    tags_by_resource: dict[str, list[str]] = {}
    for chunk in chunked(sorted(uuids)):
        for uuid, tag in session.execute(_OF_RESOURCES, {"some": chunk}):
            tags_by_resource.setdefault(uuid, []).append(tag)
    return {uuid: sorted(tags) for uuid, tags in tags_by_resource.items()}


def lock(session: Session, kind: str, uuid: str, at: datetime) -> bool:
    """Raises the revision of the resource: until the transaction ends, no other changes its tags or removes it. Returns
    False if there is no such resource.
    """
    table = TABLES[kind]
    statement = update(table).where(table.uuid == uuid)
    values = {"revision_number": table.revision_number + 1, "updated_at": at}
    result: Any = session.connection().execute(statement.values(**values))
    return bool(result.rowcount)


def add(session: Session, tags: Mapping[str, Collection[str]]) -> None:
    """`tags`: {resource: tags that it does not have yet}."""
    rows = [{"resource_id": uuid, "tag": tag} for uuid, some in tags.items() for tag in sorted(some)]
    if rows:
        session.connection().execute(insert(Tag), rows)


def take(session: Session, uuid: str, tags: Iterable[str]) -> None:
    for chunk in chunked(sorted(tags)):
        session.connection().execute(delete(Tag).where(Tag.resource_id == uuid, Tag.tag.in_(chunk)))


def remove(session: Session, resources: Any) -> None:
    """Removes the tags of these resources. `resources`: their ids, or a query of them."""
    session.connection().execute(delete(Tag).where(Tag.resource_id.in_(resources)))
