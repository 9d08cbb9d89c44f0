"""Flavors as the API reads them."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Flavor
from minova.objects import flavor as objects


def flavor(session: Session, flavorid: str) -> objects.Flavor | None:
    return session.scalar(select(Flavor.value).where(Flavor.flavorid == flavorid))


def flavors(session: Session) -> Sequence[objects.Flavor]:
    """All of them: there are few."""
    return session.scalars(select(Flavor.value)).all()
