"""Compute nodes and their last audits."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ForeignKey,
    UniqueConstraint,
)
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid
from minova.db.models.types import EncodedJson, LongText, StructType
from minova.objects.hosts.node_audit import NodeAudit as NodeAuditObject


class ComputeNode(Lockable, Base):
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
    supported_instances: Mapped[list[Any]] = mapped_column(EncodedJson, default=list)
    host_ip: Mapped[str | None]
    metrics: Mapped[list[Any]] = mapped_column(EncodedJson, default=list)
    stats: Mapped[dict[str, Any]] = mapped_column(EncodedJson, default=dict)
    numa_topology: Mapped[dict[str, Any] | None] = mapped_column(EncodedJson)
    pci_device_pools: Mapped[list[Any]] = mapped_column(EncodedJson, default=list)
    cpu_allocation_ratio: Mapped[float] = mapped_column(default=4.0)
    ram_allocation_ratio: Mapped[float] = mapped_column(default=1.0)
    disk_allocation_ratio: Mapped[float] = mapped_column(default=1.0)
    # The last write that was accepted: see objects.compute_node.ComputeNode.
    writer_epoch: Mapped[int | None]
    write_number: Mapped[int | None]
    # None: the host runs a release that does not report bridges.
    bridges: Mapped[dict[str, Any] | None] = mapped_column(EncodedJson)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime | None]


class NodeAudit(Base):
    """A narrow table, written once a second for many nodes, as heartbeats are: most audits change nothing else."""

    __tablename__ = "node_audits"
    node_id: Mapped[int] = mapped_column(ForeignKey("compute_nodes.id", ondelete="CASCADE"), primary_key=True)
    audited_at: Mapped[datetime]
    found: Mapped[NodeAuditObject] = mapped_column(StructType(NodeAuditObject))
