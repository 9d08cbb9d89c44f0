"""Flavors."""

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable
from minova.db.models.types import StructType
from minova.objects.catalogue.flavor import Flavor as FlavorObject


class FlavorProject(Base):
    """A project that may use a private flavor."""

    __tablename__ = "flavor_projects"
    flavorid: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(primary_key=True)


class Flavor(Lockable, Base):
    __tablename__ = "flavors"
    id: Mapped[int] = mapped_column(primary_key=True)
    flavorid: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    value: Mapped[FlavorObject] = mapped_column(StructType(FlavorObject))
    created_at: Mapped[datetime]
