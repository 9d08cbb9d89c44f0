"""The tables. Every table has one writing room (section 2 of the design): conductor, or placement.

Times that are compared with each other are Doubles, seconds of the cloud clock (`minova.db.clock`); those for people are UTC
DateTimes, or Doubles called `updated_at`.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.base import Base, Uuid
from minova.db.clock import Clock
from minova.db.diagnosis_models import DiagnosisRow, InstanceDiagnosis
from minova.db.group_models import InstanceGroup, InstanceGroupMember
from minova.db.move_models import Migration, PciDevice
from minova.db.placement_models import (
    Allocation,
    Consumer,
    HostChange,
    Inventory,
    ProviderAggregate,
    ProviderTrait,
    ResourceProvider,
)
from minova.db.task_models import Task, Worker
from minova.db.types import LongText, StructType
from minova.objects.flavor import Flavor as FlavorObject
from minova.objects.image import Image as ImageObject
from minova.objects.node_audit import NodeAudit as NodeAuditObject
from minova.objects.numa import InstanceNUMATopology
from minova.objects.request_spec import RequestSpec

# One place to import tables from, and whoever needs the metadata has all of them.
__all__ = [
    "Aggregate",
    "AggregateHost",
    "Allocation",
    "Base",
    "Clock",
    "ComputeNode",
    "Consumer",
    "CreateRequest",
    "DiagnosisRow",
    "Flavor",
    "Heartbeat",
    "HostChange",
    "Image",
    "Instance",
    "InstanceAction",
    "InstanceActionEvent",
    "InstanceDiagnosis",
    "InstanceFault",
    "InstanceGroup",
    "InstanceGroupMember",
    "Inventory",
    "Migration",
    "NodeAudit",
    "PciDevice",
    "ProviderAggregate",
    "ProviderTrait",
    "PurgedInstance",
    "RequestSpecRow",
    "ResourceProvider",
    "Service",
    "Task",
    "Worker",
]


# -- services ----------------------------------------------------------------------------------------------------------


class Service(Base):
    __tablename__ = "services"
    __table_args__ = (
        UniqueConstraint("host", "binary"),
        Index("services_compute_id", "compute_id", unique=True),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    host: Mapped[str]
    binary: Mapped[str]
    topic: Mapped[str]
    disabled: Mapped[bool] = mapped_column(default=False)
    disabled_reason: Mapped[str | None]
    forced_down: Mapped[bool] = mapped_column(default=False)
    down_reason: Mapped[str | None]  # the service's own word that it cannot work now, such as a lost libvirtd
    version: Mapped[int] = mapped_column(default=0)
    # Of computes only: see objects.service.HostIdentity. `epoch` counts the processes that have registered.
    compute_id: Mapped[str | None] = mapped_column(Uuid)
    process: Mapped[str | None] = mapped_column(Uuid)
    process_lock: Mapped[str | None]
    process_place: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(default=0, server_default="0")
    former_hosts: Mapped[list[Any] | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]


class Heartbeat(Base):
    """Narrow, because it is written once a second for many; by the cloud clock."""

    __tablename__ = "heartbeats"
    service_id: Mapped[int] = mapped_column(ForeignKey("services.id", ondelete="CASCADE"), primary_key=True)
    last_seen: Mapped[float]


class ComputeNode(Base):
    __tablename__ = "compute_nodes"
    __table_args__ = (UniqueConstraint("host", "hypervisor_hostname"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    generation: Mapped[int] = mapped_column(default=0)
    host: Mapped[str]
    hypervisor_hostname: Mapped[str]
    vcpus: Mapped[int] = mapped_column(default=0)
    memory_mb: Mapped[int] = mapped_column(default=0)
    local_gb: Mapped[int] = mapped_column(default=0)
    vcpus_used: Mapped[int] = mapped_column(default=0)
    memory_mb_used: Mapped[int] = mapped_column(default=0)
    local_gb_used: Mapped[int] = mapped_column(default=0)
    free_ram_mb: Mapped[int] = mapped_column(default=0)
    free_disk_gb: Mapped[int] = mapped_column(default=0)
    disk_available_least: Mapped[int | None]
    current_workload: Mapped[int] = mapped_column(default=0)
    running_vms: Mapped[int] = mapped_column(default=0)
    hypervisor_type: Mapped[str] = mapped_column(default="")
    hypervisor_version: Mapped[int] = mapped_column(default=0)
    cpu_info: Mapped[str] = mapped_column(LongText, default="")
    supported_instances: Mapped[list[Any]] = mapped_column(default=list)
    host_ip: Mapped[str | None]
    metrics: Mapped[list[Any]] = mapped_column(default=list)
    stats: Mapped[dict[str, Any]] = mapped_column(default=dict)
    numa_topology: Mapped[dict[str, Any] | None]
    pci_device_pools: Mapped[list[Any]] = mapped_column(default=list)
    cpu_allocation_ratio: Mapped[float] = mapped_column(default=4.0)
    ram_allocation_ratio: Mapped[float] = mapped_column(default=1.0)
    disk_allocation_ratio: Mapped[float] = mapped_column(default=1.0)
    # The last write that was accepted: see objects.compute_node.ComputeNode.
    writer_epoch: Mapped[int | None]
    write_number: Mapped[int | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]


class NodeAudit(Base):
    """Narrow, and written once a second for many, as heartbeats are: most audits change nothing else."""

    __tablename__ = "node_audits"
    node_id: Mapped[int] = mapped_column(ForeignKey("compute_nodes.id", ondelete="CASCADE"), primary_key=True)
    audited_at: Mapped[datetime]
    found: Mapped[NodeAuditObject] = mapped_column(StructType(NodeAuditObject))


# -- catalogue ---------------------------------------------------------------------------------------------------------


class Flavor(Base):
    __tablename__ = "flavors"
    id: Mapped[int] = mapped_column(primary_key=True)
    flavorid: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    value: Mapped[FlavorObject] = mapped_column(StructType(FlavorObject))
    created_at: Mapped[datetime]


class Image(Base):
    """`name` and `status` stand outside `value` too, to be searched and expected."""

    __tablename__ = "images"
    id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    name: Mapped[str | None] = mapped_column(index=True)
    status: Mapped[str] = mapped_column(String(30))
    value: Mapped[ImageObject] = mapped_column(StructType(ImageObject))
    created_at: Mapped[datetime] = mapped_column(index=True)
    updated_at: Mapped[datetime]


class Aggregate(Base):
    __tablename__ = "aggregates"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata", JSON, default=dict)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]


class AggregateHost(Base):
    __tablename__ = "aggregate_hosts"
    aggregate_id: Mapped[int] = mapped_column(ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True, index=True)


# -- instances ---------------------------------------------------------------------------------------------------------


class Instance(Base):
    """`id` orders the listing (keyset paging). A deleted row stays until the purge: `deleted_at` says since when."""

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
    config_drive: Mapped[bool] = mapped_column(default=False)
    numa_topology: Mapped[InstanceNUMATopology | None] = mapped_column(StructType(InstanceNUMATopology))
    progress: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]
    launched_at: Mapped[datetime | None]
    terminated_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None] = mapped_column(index=True)


class InstanceFault(Base):
    __tablename__ = "instance_faults"
    id: Mapped[int] = mapped_column(primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    code: Mapped[int]
    message: Mapped[str] = mapped_column(Text)
    details: Mapped[str] = mapped_column(LongText, default="")
    host: Mapped[str | None]
    created_at: Mapped[datetime]


class InstanceAction(Base):
    """What people asked and what came of it. `result`: None while it goes on, then Success or Error."""

    __tablename__ = "instance_actions"
    id: Mapped[int] = mapped_column(primary_key=True)
    instance_uuid: Mapped[str] = mapped_column(Uuid, index=True)
    action: Mapped[str] = mapped_column(String(30))
    request_id: Mapped[str] = mapped_column(String(64), index=True)
    user_id: Mapped[str]
    project_id: Mapped[str]
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    result: Mapped[str | None] = mapped_column(String(30))
    message: Mapped[str | None] = mapped_column(Text)


class InstanceActionEvent(Base):
    """One attempt or step of an action, such as a build on one host."""

    __tablename__ = "instance_action_events"
    id: Mapped[int] = mapped_column(primary_key=True)
    action_id: Mapped[int] = mapped_column(ForeignKey("instance_actions.id", ondelete="CASCADE"), index=True)
    event: Mapped[str]
    host: Mapped[str | None]
    start_time: Mapped[datetime]
    finish_time: Mapped[datetime | None]
    result: Mapped[str | None] = mapped_column(String(30))
    details: Mapped[str | None] = mapped_column(Text)


class RequestSpecRow(Base):
    """One for all the instances of a request (`reservation_id`): they are scheduled together."""

    __tablename__ = "request_specs"
    reservation_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    spec: Mapped[RequestSpec] = mapped_column(StructType(RequestSpec))
    carried: Mapped[dict[str, Any]]  # networks, groups, mappings, files, password: stored, then carried to the compute
    created_at: Mapped[datetime]


class PurgedInstance(Base):
    """An instance that had been tried on hosts and is purged: the proof that a domain of it may be removed."""

    __tablename__ = "purged_instances"
    uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    purged_at: Mapped[datetime] = mapped_column(index=True)


class CreateRequest(Base):
    """A client's own UUID for a create: asked again, the same servers are answered."""

    __tablename__ = "create_requests"
    request_uuid: Mapped[str] = mapped_column(Uuid, primary_key=True)
    project_id: Mapped[str] = mapped_column(primary_key=True)
    body_hash: Mapped[str] = mapped_column(String(64))
    reservation_id: Mapped[str] = mapped_column(String(36))
    instance_uuids: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(index=True)


# MariaDB would take "web" and "WEB", or "web" and "web ", for the same name.
for _table in Base.metadata.tables.values():
    _table.dialect_options["mysql"].update(charset="utf8mb4", collate="utf8mb4_bin")
