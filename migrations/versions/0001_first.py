"""Every table of the first version."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
UTC = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
EXACT: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=False),
        sa.Column("vcpus", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("local_gb", sa.Integer(), nullable=False),
        sa.Column("vcpus_used", sa.Integer(), nullable=False),
        sa.Column("memory_mb_used", sa.Integer(), nullable=False),
        sa.Column("local_gb_used", sa.Integer(), nullable=False),
        sa.Column("free_ram_mb", sa.Integer(), nullable=False),
        sa.Column("free_disk_gb", sa.Integer(), nullable=False),
        sa.Column("disk_available_least", sa.Integer(), nullable=True),
        sa.Column("current_workload", sa.Integer(), nullable=False),
        sa.Column("running_vms", sa.Integer(), nullable=False),
        sa.Column("hypervisor_type", sa.String(length=255), nullable=False),
        sa.Column("hypervisor_version", sa.Integer(), nullable=False),
        sa.Column("cpu_info", LONG_TEXT, nullable=False),
        sa.Column("supported_instances", sa.JSON(), nullable=False),
        sa.Column("host_ip", sa.String(length=255), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("stats", sa.JSON(), nullable=False),
        sa.Column("numa_topology", sa.JSON(), nullable=True),
        sa.Column("pci_device_pools", sa.JSON(), nullable=False),
        sa.Column("cpu_allocation_ratio", sa.Double(), nullable=False),
        sa.Column("ram_allocation_ratio", sa.Double(), nullable=False),
        sa.Column("disk_allocation_ratio", sa.Double(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host", "hypervisor_hostname"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_table(
        "consumers",
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("claim_no", sa.Integer(), nullable=False),
        sa.Column("consumer_type", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("uuid"),
        **EXACT,
    )
    op.create_table(
        "create_requests",
        sa.Column("request_uuid", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("body_hash", sa.String(length=64), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("instance_uuids", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("request_uuid", "project_id"),
        **EXACT,
    )
    op.create_index(op.f("ix_create_requests_created_at"), "create_requests", ["created_at"], unique=False)
    op.create_table(
        "diagnoses",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_diagnoses_created_at"), "diagnoses", ["created_at"], unique=False)
    op.create_table(
        "instance_diagnoses",
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("diagnosis_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["diagnosis_id"], ["diagnoses.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("instance_uuid", "diagnosis_id"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_diagnoses_diagnosis_id"), "instance_diagnoses", ["diagnosis_id"], unique=False)
    op.create_table(
        "flavors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("flavorid", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("flavorid"),
        sa.UniqueConstraint("name"),
        **EXACT,
    )
    op.create_table(
        "host_changes",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        **EXACT,
    )
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=30), nullable=False),
        sa.Column("value", LONG_TEXT, nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_images_created_at"), "images", ["created_at"], unique=False)
    op.create_index(op.f("ix_images_name"), "images", ["name"], unique=False)
    op.create_table(
        "instance_actions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=30), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("start_time", UTC, nullable=False),
        sa.Column("finish_time", UTC, nullable=True),
        sa.Column("result", sa.String(length=30), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_actions_instance_uuid"), "instance_actions", ["instance_uuid"], unique=False)
    op.create_index(op.f("ix_instance_actions_request_id"), "instance_actions", ["request_id"], unique=False)
    op.create_table(
        "instance_faults",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("code", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("details", LONG_TEXT, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_faults_instance_uuid"), "instance_faults", ["instance_uuid"], unique=False)
    op.create_table(
        "instances",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255), nullable=False),
        sa.Column("flavor", LONG_TEXT, nullable=False),
        sa.Column("image_ref", sa.String(length=36), nullable=False),
        sa.Column("vm_state", sa.String(length=30), nullable=False),
        sa.Column("task_state", sa.String(length=30), nullable=True),
        sa.Column("power_state", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("launch_index", sa.Integer(), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("system_metadata", sa.JSON(), nullable=False),
        sa.Column("user_data", LONG_TEXT, nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column("config_drive", sa.Boolean(), nullable=False),
        sa.Column("numa_topology", LONG_TEXT, nullable=True),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=True),
        sa.Column("launched_at", UTC, nullable=True),
        sa.Column("terminated_at", UTC, nullable=True),
        sa.Column("deleted_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_index("instances_host_vm_state", "instances", ["host", "vm_state"], unique=False)
    op.create_index("instances_project_id", "instances", ["project_id", "id"], unique=False)
    op.create_index(op.f("ix_instances_deleted_at"), "instances", ["deleted_at"], unique=False)
    op.create_index(op.f("ix_instances_display_name"), "instances", ["display_name"], unique=False)
    op.create_index(op.f("ix_instances_reservation_id"), "instances", ["reservation_id"], unique=False)
    op.create_table(
        "request_specs",
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("spec", LONG_TEXT, nullable=False),
        sa.Column("carried", sa.JSON(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("reservation_id"),
        **EXACT,
    )
    op.create_table(
        "resource_providers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("root_provider_id", sa.Integer(), nullable=True),
        sa.Column("parent_provider_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_index(
        op.f("ix_resource_providers_parent_provider_id"), "resource_providers", ["parent_provider_id"], unique=False
    )
    op.create_index(
        op.f("ix_resource_providers_root_provider_id"), "resource_providers", ["root_provider_id"], unique=False
    )
    op.create_table(
        "services",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("binary", sa.String(length=255), nullable=False),
        sa.Column("topic", sa.String(length=255), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(length=255), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("down_reason", sa.String(length=255), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.Column("updated_at", UTC, nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host", "binary"),
        sa.UniqueConstraint("uuid"),
        **EXACT,
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("instance_uuid", sa.String(length=36), nullable=False),
        sa.Column("reservation_id", sa.String(length=36), nullable=False),
        sa.Column("action_id", sa.Integer(), nullable=True),
        sa.Column("worker_id", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("step", sa.String(length=30), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("claim_no", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("wake_at", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("created_at", UTC, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("instance_uuid"),
        **EXACT,
    )
    op.create_index(op.f("ix_tasks_host"), "tasks", ["host"], unique=False)
    op.create_index("tasks_worker_id_wake_at", "tasks", ["worker_id", "wake_at"], unique=False)
    op.create_table(
        "workers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_workers_lease_until"), "workers", ["lease_until"], unique=False)
    op.create_table(
        "aggregate_hosts",
        sa.Column("aggregate_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["aggregate_id"], ["aggregates.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("aggregate_id", "host"),
        **EXACT,
    )
    op.create_index(op.f("ix_aggregate_hosts_host"), "aggregate_hosts", ["host"], unique=False)
    op.create_table(
        "allocations",
        sa.Column("consumer_uuid", sa.String(length=36), nullable=False),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["consumer_uuid"],
            ["consumers.uuid"],
        ),
        sa.ForeignKeyConstraint(
            ["provider_id"],
            ["resource_providers.id"],
        ),
        sa.PrimaryKeyConstraint("consumer_uuid", "provider_id", "resource_class"),
        **EXACT,
    )
    op.create_index(op.f("ix_allocations_provider_id"), "allocations", ["provider_id"], unique=False)
    op.create_table(
        "heartbeats",
        sa.Column("service_id", sa.Integer(), nullable=False),
        sa.Column("last_seen", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["service_id"], ["services.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("service_id"),
        **EXACT,
    )
    op.create_table(
        "instance_action_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("action_id", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("start_time", UTC, nullable=False),
        sa.Column("finish_time", UTC, nullable=True),
        sa.Column("result", sa.String(length=30), nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["action_id"], ["instance_actions.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        **EXACT,
    )
    op.create_index(op.f("ix_instance_action_events_action_id"), "instance_action_events", ["action_id"], unique=False)
    op.create_table(
        "inventories",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("reserved", sa.Integer(), nullable=False),
        sa.Column("min_unit", sa.Integer(), nullable=False),
        sa.Column("max_unit", sa.Integer(), nullable=False),
        sa.Column("step_size", sa.Integer(), nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["provider_id"], ["resource_providers.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("provider_id", "resource_class"),
        **EXACT,
    )
    op.create_table(
        "resource_provider_aggregates",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("aggregate_uuid", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["provider_id"], ["resource_providers.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_uuid"),
        **EXACT,
    )
    op.create_table(
        "resource_provider_traits",
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(["provider_id"], ["resource_providers.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("provider_id", "trait"),
        **EXACT,
    )
