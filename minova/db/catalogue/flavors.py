"""Flavors as the conductor writes them."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import Flavor, FlavorProject
from minova.objects.catalogue import flavor as objects


def add(session: Session, flavor: objects.Flavor, at: datetime) -> None:
    """Raises IntegrityError if the name or the id is taken."""
    values = {"flavorid": flavor.flavorid, "name": flavor.name, "value": flavor, "created_at": at}
    # A conductor of an older release may have deleted a flavor with this id without deleting its projects.
    session.connection().execute(delete(FlavorProject).where(FlavorProject.flavorid == flavor.flavorid))
    session.connection().execute(insert(Flavor).values(**values))


def locked(session: Session, flavorid: str) -> objects.Flavor | None:
    return session.scalar(select(Flavor.value).where(Flavor.flavorid == flavorid).with_for_update())


def replace(session: Session, flavor: objects.Flavor) -> None:
    """Replaces the flavor's value. Name and id stay."""
    session.connection().execute(update(Flavor).where(Flavor.flavorid == flavor.flavorid).values(value=flavor))


def remove(session: Session, flavorid: str) -> bool:
    """Removes the flavor and its access list. Returns whether there was such a flavor."""
    # Delete the flavor first: this waits for a transaction that is adding a project.
    result: Any = session.connection().execute(delete(Flavor).where(Flavor.flavorid == flavorid))
    session.connection().execute(delete(FlavorProject).where(FlavorProject.flavorid == flavorid))
    return bool(result.rowcount)


def projects(session: Session, flavorid: str) -> tuple[str, ...]:
    """Returns the projects that may use the flavor although it is private."""
    query = select(FlavorProject.project_id).where(FlavorProject.flavorid == flavorid)
    return tuple(session.scalars(query.order_by(FlavorProject.project_id)))


def add_project(session: Session, flavorid: str, project_id: str) -> None:
    session.connection().execute(insert(FlavorProject).values(flavorid=flavorid, project_id=project_id))


def remove_project(session: Session, flavorid: str, project_id: str) -> bool:
    """Returns whether the project had access."""
    access = delete(FlavorProject).where(FlavorProject.flavorid == flavorid, FlavorProject.project_id == project_id)
    result: Any = session.connection().execute(access)
    return bool(result.rowcount)
