"""Tags of servers."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from minova.db.models import InstanceTag
from minova.db.sql import chunked, in_list

_TAGS: Any = InstanceTag.__table__
_ADD = insert(_TAGS)
_OF_INSTANCES = select(_TAGS.c.instance_uuid, _TAGS.c.tag).where(in_list(_TAGS.c.instance_uuid))


def of_instances(session: Session, uuids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Returns {instance uuid: tags in alphabetical order}. Instances without tags are left out."""
    tags: dict[str, list[str]] = {}
    for some in chunked(sorted(uuids)):
        for uuid, tag in session.connection().execute(_OF_INSTANCES, {"some": some}):
            tags.setdefault(uuid, []).append(tag)
    return {uuid: tuple(sorted(instance_tags)) for uuid, instance_tags in tags.items()}


def add(session: Session, uuids: Iterable[str], tags: Collection[str]) -> None:
    """Adds the tags to instances that have none of them."""
    rows = [{"instance_uuid": uuid, "tag": tag} for uuid in uuids for tag in tags]
    if rows:
        session.connection().execute(_ADD, rows)


def replace(session: Session, uuid: str, tags: Collection[str]) -> None:
    """Replaces the tags of an instance that the caller has locked."""
    session.connection().execute(delete(InstanceTag).where(InstanceTag.instance_uuid == uuid))
    add(session, [uuid], tags)
