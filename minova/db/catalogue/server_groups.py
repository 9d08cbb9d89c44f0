"""Server groups and their members."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db import models
from minova.db.sql import chunked
from minova.objects.catalogue.instance_group import InstanceGroup

Row, Member, Instance = models.InstanceGroup, models.InstanceGroupMember, models.Instance


def add(session: Session, group: InstanceGroup, at: datetime) -> None:
    values = {name: getattr(group, name) for name in ("uuid", "name", "policy", "project_id", "user_id")}
    session.connection().execute(insert(Row).values(**values, rules=group.rules, created_at=at))


def remove(session: Session, uuid: str) -> str | None:
    """Returns the project that owned the group; None if there was no such group. Its members are then in no group."""
    project_id = session.scalar(select(Row.project_id).where(Row.uuid == uuid))
    result: Any = session.connection().execute(delete(Row).where(Row.uuid == uuid))
    return project_id if result.rowcount else None


def join(session: Session, uuid: str, instance_uuids: Collection[str], most: int = -1) -> bool:
    """Makes these instances members of the group. Returns False if there is no such group.

    Raises Forbidden if the group would have more than `most` living members. With such a limit, the lock makes servers
    join one after the other, so that each one sees the members before it.
    """
    group_id = session.scalar(select(Row.id).where(Row.uuid == uuid).with_for_update(read=most < 0, key_share=most < 0))
    if group_id is None:
        return False
    if most >= 0 and _size(session, group_id) + len(instance_uuids) > most:
        raise errors.Forbidden("Quota exceeded, too many servers in group")
    rows = [{"instance_uuid": instance_uuid, "group_id": group_id} for instance_uuid in instance_uuids]
    session.connection().execute(insert(Member), rows)
    return True


def _size(session: Session, group_id: int) -> int:
    living = select(func.count()).select_from(Member).join(Instance, Instance.uuid == Member.instance_uuid)
    return int(session.scalar(living.where(Member.group_id == group_id, Instance.deleted_at.is_(None))) or 0)


def of_instance(session: Session, instance_uuid: str) -> InstanceGroup | None:
    """Returns the instance's group, with its members that are not deleted and the hosts of these members. A host counts
    if a member is on it or holds a claim on it.
    """
    query = select(Row).join(Member, Member.group_id == Row.id).where(Member.instance_uuid == instance_uuid)
    row = session.scalar(query)
    return None if row is None else _with_hosts(session, row)


def uuids_of_instances(session: Session, instance_uuids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Returns {instance uuid: uuids of its groups}, at most one each. Instances without a group are left out."""
    query = select(Member.instance_uuid, Row.uuid).join(Row, Row.id == Member.group_id)
    group_uuids: dict[str, tuple[str, ...]] = {}
    for some in chunked(sorted(instance_uuids)):
        group_uuids.update(
            {uuid: (group,) for uuid, group in session.execute(query.where(Member.instance_uuid.in_(some)))}
        )
    return group_uuids


def as_it_is(session: Session, uuid: str) -> InstanceGroup | None:
    """As `of_instance`, by the group's own uuid."""
    row = session.scalar(select(Row).where(Row.uuid == uuid))
    return None if row is None else _with_hosts(session, row)


def _with_hosts(session: Session, row: models.InstanceGroup) -> InstanceGroup:
    members = select(Instance.uuid, Instance.host).join(Member, Member.instance_uuid == Instance.uuid)
    living = session.execute(members.where(Member.group_id == row.id, Instance.deleted_at.is_(None))).all()
    hosts = {host for _, host in living if host is not None} | {*session.scalars(_claimed(row.id))}
    return to_object(row, members=tuple(sorted(uuid for uuid, _ in living)), hosts=tuple(sorted(hosts)))


def find(session: Session, uuid: str) -> InstanceGroup | None:
    """Returns the group with its members that are not deleted."""
    row = session.scalar(select(Row).where(Row.uuid == uuid))
    return None if row is None else _with_members(session, [row])[0]


def all_of(session: Session, project_id: str | None, offset: int, limit: int) -> list[InstanceGroup]:
    """Returns a page of a project's groups (None: of all groups) in the order of creation, with their members that are
    not deleted.
    """
    query = select(Row).order_by(Row.id).offset(offset).limit(limit)
    if project_id is not None:
        query = query.where(Row.project_id == project_id)
    return _with_members(session, session.scalars(query).all())


def to_object(row: models.InstanceGroup, **more: Any) -> InstanceGroup:
    names = ("uuid", "name", "policy", "project_id", "user_id")
    return InstanceGroup(
        **{name: getattr(row, name) for name in names},
        max_server_per_host=row.rules.get("max_server_per_host"),
        **more,
    )


def _claimed(group_id: int) -> Select[Any]:
    """The hosts on which a member holds resources, also hosts that have not received the member yet."""
    allocation, provider, node = models.Allocation, models.ResourceProvider, models.ComputeNode
    return (
        select(func.coalesce(node.host, provider.name))
        .select_from(Member)
        .join(allocation, allocation.consumer_uuid == Member.instance_uuid)
        .join(provider, provider.id == allocation.provider_id)
        .outerjoin(node, node.uuid == provider.uuid)
        .where(Member.group_id == group_id)
        .distinct()
    )


def _with_members(session: Session, rows: Iterable[models.InstanceGroup]) -> list[InstanceGroup]:
    groups = list(rows)
    members: dict[int, list[str]] = {}
    for chunk in chunked([row.id for row in groups]):
        query = select(Member.group_id, Instance.uuid).join(Instance, Instance.uuid == Member.instance_uuid)
        living = query.where(Member.group_id.in_(chunk), Instance.deleted_at.is_(None)).order_by(Instance.id)
        for group_id, uuid in session.execute(living):
            members.setdefault(group_id, []).append(uuid)
    return [to_object(row, members=tuple(members.get(row.id, ()))) for row in groups]
