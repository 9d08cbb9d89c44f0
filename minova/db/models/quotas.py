"""Limits and usages of quotas. Written by the conductor."""

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable


class QuotaUsage(Lockable, Base):
    """`used` changes in the transaction that creates or removes the counted records. There is no row before the first
    use.
    """

    __tablename__ = "quota_usages"
    project_id: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    used: Mapped[int] = mapped_column(BigInteger)


class Quota(Base):
    """A limit of one project. -1: none."""

    __tablename__ = "quotas"
    project_id: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]


class QuotaClass(Base):
    """Limits of the class `default` replace the options; other classes have no effect, as in Nova."""

    __tablename__ = "quota_classes"
    class_name: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]
