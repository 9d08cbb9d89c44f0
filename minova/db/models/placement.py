"""The tables that placement alone writes.

`updated_at` is the time of the last change, or else of the creation, by the database's clock in seconds since the
epoch. Rows that older services wrote have none.
"""

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid

# The largest number that a column of amounts can store on every engine.
MAX_INT = 2**31 - 1


class ResourceProvider(Lockable, Base):
    """`root_provider_id`: the root of its tree: its own id if it has no parent. None means its own id too (older
    services).

    `of_node`: whether it was created for a compute node and has the node's uuid. Providers that users create over HTTP
    have False.
    """

    __tablename__ = "resource_providers"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    generation: Mapped[int] = mapped_column(default=0)
    root_provider_id: Mapped[int | None] = mapped_column(index=True)
    parent_provider_id: Mapped[int | None] = mapped_column(index=True)
    of_node: Mapped[bool | None]
    updated_at: Mapped[float | None]


class Inventory(Lockable, Base):
    """`capacity` = floor((total - reserved) * allocation_ratio); a claim is `used + n <= capacity`, conditionally."""

    __tablename__ = "inventories"
    provider_id: Mapped[int] = mapped_column(ForeignKey("resource_providers.id", ondelete="CASCADE"), primary_key=True)
    resource_class: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[int]
    reserved: Mapped[int] = mapped_column(default=0)
    min_unit: Mapped[int] = mapped_column(default=1)
    max_unit: Mapped[int]
    step_size: Mapped[int] = mapped_column(default=1)
    allocation_ratio: Mapped[float] = mapped_column(default=1.0)
    capacity: Mapped[int]
    used: Mapped[int] = mapped_column(default=0)
    updated_at: Mapped[float | None]


class ResourceClass(Lockable, Base):
    """A custom resource class. The standard ones come from os-resource-classes."""

    __tablename__ = "resource_classes"
    name: Mapped[str] = mapped_column(primary_key=True)
    updated_at: Mapped[float]


class Trait(Lockable, Base):
    """A custom trait. The standard ones come from os-traits."""

    __tablename__ = "traits"
    name: Mapped[str] = mapped_column(primary_key=True)
    updated_at: Mapped[float]


class Consumer(Lockable, Base):
    """`claim_number`: the highest claim number seen, so that a late claim cannot undo a newer one. The row is kept
    after release.

    `generation` counts the changes of its allocations. `consumer_type`: Placement's term; `unknown` if none was given.
    """

    __tablename__ = "consumers"
    uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    generation: Mapped[int] = mapped_column(default=0)
    claim_number: Mapped[int] = mapped_column("claim_no", key="claim_number", default=0)
    consumer_type: Mapped[str] = mapped_column(default="INSTANCE")
    project_id: Mapped[str] = mapped_column(default="", index=True)
    user_id: Mapped[str] = mapped_column(default="")


class Allocation(Base):
    __tablename__ = "allocations"
    consumer_uuid: Mapped[str] = mapped_column(ForeignKey("consumers.uuid"), primary_key=True)
    provider_id: Mapped[int] = mapped_column(ForeignKey("resource_providers.id"), primary_key=True, index=True)
    resource_class: Mapped[str] = mapped_column(primary_key=True)
    used: Mapped[int]
    updated_at: Mapped[float | None]


class ProviderTrait(Base):
    __tablename__ = "resource_provider_traits"
    provider_id: Mapped[int] = mapped_column(ForeignKey("resource_providers.id", ondelete="CASCADE"), primary_key=True)
    trait: Mapped[str] = mapped_column(primary_key=True, index=True)


class ProviderAggregate(Base):
    __tablename__ = "resource_provider_aggregates"
    provider_id: Mapped[int] = mapped_column(ForeignKey("resource_providers.id", ondelete="CASCADE"), primary_key=True)
    aggregate_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True, index=True)


class HostChange(Base):
    """The change feed from which host tables refresh. Every transaction that changes what a host table shows appends to
    it.

    `node_id` 0 stands for all nodes. There is no foreign key: the last change of a deleted node must outlive the node.
    """

    __tablename__ = "host_changes"
    seq: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int]
    at: Mapped[float]
