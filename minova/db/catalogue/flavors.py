"""Flavors as the conductor writes them."""

from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova.db.models import Flavor
from minova.objects import flavor as objects


def add(session: Session, flavor: objects.Flavor, at: datetime) -> None:
    """IntegrityError: its name or id is taken."""
    values = {"flavorid": flavor.flavorid, "name": flavor.name, "value": flavor, "created_at": at}
    session.connection().execute(insert(Flavor).values(**values))


def locked(session: Session, flavorid: str) -> objects.Flavor | None:
    return session.scalar(select(Flavor.value).where(Flavor.flavorid == flavorid).with_for_update())


def replace(session: Session, flavor: objects.Flavor) -> None:
    """Its value; name and id stay."""
    session.connection().execute(update(Flavor).where(Flavor.flavorid == flavor.flavorid).values(value=flavor))


def remove(session: Session, flavorid: str) -> bool:
    """Whether there was one."""
    result: Any = session.connection().execute(delete(Flavor).where(Flavor.flavorid == flavorid))
    return bool(result.rowcount)
