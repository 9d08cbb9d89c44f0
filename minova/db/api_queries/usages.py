"""The instances that ran in a period."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.api_queries import keyset
from minova.db.models import Instance

# Nova's order. The last column is unique.
_ORDER: keyset.Columns = ((Instance.project_id, False), (Instance.uuid, False))


def instances_of_period(
    session: Session, start: datetime, end: datetime, project_id: str | None, marker: str | None, limit: int
) -> Sequence[Instance]:
    """Returns the instances that ran in the period, also deleted ones, by project and UUID. `project_id` None: of every
    project.

    Raises BadRequest if the marker is no instance.
    """
    query = select(Instance).where(
        Instance.launched_at < end, or_(Instance.terminated_at.is_(None), Instance.terminated_at > start)
    )
    if project_id is not None:
        query = query.where(Instance.project_id == project_id)
    if marker is not None:
        last = session.execute(select(Instance.project_id, Instance.uuid).where(Instance.uuid == marker)).first()
        # A server of another project is treated as if it did not exist.
        if last is None or project_id not in (None, last.project_id):
            raise errors.BadRequest(f"Marker {marker[:64]} could not be found.")
        query = query.where(keyset.after(tuple(last), _ORDER))
    return session.scalars(keyset.ordered(query, _ORDER).limit(limit)).all()
