"""Instances, their faults, and the proof that an instance was purged."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Index,
    String,
    Text,
    false,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid
from minova.db.models.types import LongText, StructType
from minova.objects.catalogue.flavor import Flavor as FlavorObject
from minova.objects.catalogue.image import Image as ImageObject
from minova.objects.hosts.numa import InstanceNUMATopology


class Instance(Lockable, Base):
    """`id` orders the listing (keyset paging). A deleted row stays until the purge; `deleted_at` is the time of its
    deletion.
    """

    __tablename__ = "instances"
    __table_args__ = (
        Index("instances_host_vm_state", "host", "vm_state"),
        Index("instances_project_id", "project_id", "id"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    display_name: Mapped[str] = mapped_column(index=True)
    hostname: Mapped[str]
    description: Mapped[str | None]
    project_id: Mapped[str]
    user_id: Mapped[str]
    flavor: Mapped[FlavorObject] = mapped_column(StructType(FlavorObject))
    image_ref: Mapped[str] = mapped_column(Uuid)
    # The image of a rebuilt server; None: the image of its request.
    image: Mapped[ImageObject | None] = mapped_column(StructType(ImageObject))
    # The boot files of the image that it has now; empty: none.
    kernel_id: Mapped[str] = mapped_column(default="", server_default="")
    ramdisk_id: Mapped[str] = mapped_column(default="", server_default="")
    vm_state: Mapped[str] = mapped_column(String(30))
    task_state: Mapped[str | None] = mapped_column(String(30))
    power_state: Mapped[int] = mapped_column(default=0)
    host: Mapped[str | None]
    node: Mapped[str | None]
    availability_zone: Mapped[str | None]
    attempt: Mapped[int] = mapped_column(default=0)
    launch_index: Mapped[int] = mapped_column(default=0)
    reservation_id: Mapped[str] = mapped_column(String(36), index=True)
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", JSON, default=dict)
    system_metadata: Mapped[dict[str, Any]] = mapped_column(default=dict)
    user_data: Mapped[str | None] = mapped_column(LongText)
    key_name: Mapped[str | None]
    key_data: Mapped[str | None] = mapped_column(LongText)
    key_type: Mapped[str | None] = mapped_column(String(30))
    config_drive: Mapped[bool] = mapped_column(default=False)
    numa_topology: Mapped[InstanceNUMATopology | None] = mapped_column(StructType(InstanceNUMATopology))
    # The image to unshelve a shelved server from, and the time of the shelving.
    shelved_image_id: Mapped[str | None] = mapped_column(Uuid)
    shelved_at: Mapped[datetime | None]
    progress: Mapped[int] = mapped_column(default=0)
    # Whether its newest fault is shown though its status is neither ERROR nor DELETED.
    has_fault: Mapped[bool] = mapped_column(default=False, server_default=false())
    locked_by: Mapped[str | None] = mapped_column(String(16))
    locked_reason: Mapped[str | None]
    access_ip_v4: Mapped[str | None] = mapped_column(String(39))
    access_ip_v6: Mapped[str | None] = mapped_column(String(39))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]
    launched_at: Mapped[datetime | None]
    terminated_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None] = mapped_column(index=True)
    # As `shelved_at`, `terminated_at` of a soft-deleted server, and `deleted_at`, but by the cloud clock: for what is removed after
    # some time. None in rows of a release before these columns.
    shelved_since: Mapped[float | None]
    soft_deleted_since: Mapped[float | None]
    deleted_since: Mapped[float | None] = mapped_column(index=True)


class InstanceTag(Base):
    __tablename__ = "instance_tags"
    __table_args__ = (Index("instance_tags_tag", "tag"),)
    instance_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    tag: Mapped[str] = mapped_column(String(60), primary_key=True)


class InstanceFault(Base):
    """`message` is for users, `details` for administrators. `kind` None: an older release has written the details into
    both.
    """

    __tablename__ = "instance_faults"
    id: Mapped[int] = mapped_column(primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    code: Mapped[int]
    message: Mapped[str] = mapped_column(Text)
    details: Mapped[str] = mapped_column(LongText, default="")
    host: Mapped[str | None]
    created_at: Mapped[datetime]
    kind: Mapped[str | None] = mapped_column(String(64))


class PurgedInstance(Base):
    """A purged instance that had been tried on hosts. The row proves that a leftover domain of it may be removed.

    `host`: where an operator has had a guest without a row removed; the row proves nothing on other hosts, and goes with the host's
    service. None: on all hosts.
    """

    __tablename__ = "purged_instances"
    uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    purged_at: Mapped[datetime] = mapped_column(index=True)
    host: Mapped[str | None]
