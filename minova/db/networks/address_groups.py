"""Address groups: queries and writes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, exists, insert, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.networks import tags
from minova.db.networks.pages import Page, rows_of
from minova.db.sql import chunked, in_list
from minova.objects.network.address_groups import AddressGroup

Row, Rule = models.AddressGroup, models.SecurityGroupRule
_PLAIN = ("name", "description", "project_id", "revision_number", "created_at", "updated_at")
_LOCK = select(Row).where(in_list(Row.uuid)).order_by(Row.id).with_for_update()
_IDS = select(Row.id, Row.uuid).where(in_list(Row.id))
_ADDRESSES = select(Row.id, Row.addresses).where(in_list(Row.id))


def find(session: Session, uuid: str) -> AddressGroup | None:
    row = session.scalar(select(Row).where(Row.uuid == uuid).execution_options(populate_existing=True))
    return None if row is None else to_object(row)


def visible(
    session: Session, project_id: str | None, filters: Mapping[str, Sequence[Any]], page: Page
) -> list[AddressGroup]:
    """Returns the groups of a project; None: all. Raises LookupError if the marker is unknown."""
    query = select(Row)
    if project_id is not None:
        query = query.where(Row.project_id == project_id)
    return [to_object(row) for row in rows_of(session, query, Row, filters, page)]


def ids_of(session: Session, row_ids: Collection[Any]) -> dict[int | None, str]:
    """Returns the ids of the groups by their row ids."""
    ids_by_row: dict[int | None, str] = {}
    for chunk in chunked(sorted(row_ids)):
        ids_by_row.update((row_id, uuid) for row_id, uuid in session.execute(_IDS, {"some": chunk}))
    return ids_by_row


def addresses_of(session: Session, row_ids: Collection[Any]) -> dict[int, Sequence[str]]:
    """Returns the ranges of the groups by their row ids."""
    ranges_by_row: dict[int, Sequence[str]] = {}
    for chunk in chunked(sorted(row_ids)):
        ranges_by_row.update((row_id, ranges) for row_id, ranges in session.execute(_ADDRESSES, {"some": chunk}))
    return ranges_by_row


def lock_several(session: Session, uuids: Collection[str]) -> dict[str, models.AddressGroup]:
    """Locks the groups that exist, and returns them by uuid."""
    if not uuids:
        return {}
    options = {"populate_existing": True}
    return {row.uuid: row for row in session.scalars(_LOCK, {"some": sorted(uuids)}, execution_options=options)}


def add(session: Session, group: AddressGroup, at: datetime) -> None:
    values = {name: getattr(group, name) for name in ("name", "description", "project_id")}
    times = {"revision_number": 1, "created_at": at, "updated_at": at}
    statement = insert(Row).values(uuid=group.id, addresses=list(group.addresses), **values, **times)
    session.connection().execute(statement)


def replace(session: Session, group: AddressGroup, at: datetime) -> None:
    """Replaces name, description and addresses. The group must be locked."""
    values = {"name": group.name, "description": group.description, "addresses": list(group.addresses)}
    changed = update(Row).where(Row.uuid == group.id)
    session.connection().execute(changed.values(**values, revision_number=group.revision_number + 1, updated_at=at))


def is_named(session: Session, row_id: int) -> bool:
    """Whether a rule names the group."""
    return bool(session.scalar(select(exists().where(Rule.remote_address_group_id == row_id))))


def groups_with_rules_for(session: Session, row_id: int) -> set[str]:
    """Returns the security groups with rules that name the group."""
    group = models.SecurityGroup
    query = select(group.uuid).join(Rule, Rule.group_id == group.id).where(Rule.remote_address_group_id == row_id)
    return set(session.scalars(query))


def remove(session: Session, row_id: int) -> None:
    tags.remove(session, select(Row.uuid).where(Row.id == row_id))
    session.connection().execute(delete(Row).where(Row.id == row_id))


def to_object(row: models.AddressGroup) -> AddressGroup:
    return AddressGroup(id=row.uuid, addresses=tuple(row.addresses), **{name: getattr(row, name) for name in _PLAIN})
