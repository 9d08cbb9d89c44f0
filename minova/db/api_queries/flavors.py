"""Flavors as the API reads them."""

from collections.abc import Sequence

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from minova.db.models import Flavor, FlavorProject
from minova.objects.catalogue import flavor as objects

# Built once: every creation of a server runs it.
_ONE = select(Flavor.value).where(Flavor.flavorid == bindparam("b_flavorid"))


def flavor(session: Session, flavorid: str) -> objects.Flavor | None:
    return session.connection().scalar(_ONE, {"b_flavorid": flavorid})


def flavors(session: Session) -> Sequence[objects.Flavor]:
    """Returns all flavors, the oldest first. There are few."""
    return session.scalars(select(Flavor.value).order_by(Flavor.id)).all()


def accessible(session: Session, project_id: str) -> frozenset[str]:
    """Returns the ids of the private flavors that the project may use."""
    return frozenset(session.scalars(select(FlavorProject.flavorid).where(FlavorProject.project_id == project_id)))
