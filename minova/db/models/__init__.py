"""The tables, one file per noun. Every table has one writing room (section 2 of the design): conductor, or placement.

Importing this package makes the metadata complete. Times that are compared with each other are Doubles, seconds of the cloud
clock (`minova.db.clock`); times for people are UTC DateTimes, or Doubles called `updated_at`.
"""

from minova.db.models.actions import InstanceAction, InstanceActionEvent
from minova.db.models.aggregates import Aggregate, AggregateHost
from minova.db.models.base import Base
from minova.db.models.clock import Clock
from minova.db.models.compute_nodes import ComputeNode, NodeAudit
from minova.db.models.diagnoses import DiagnosisRow, InstanceDiagnosis
from minova.db.models.flavors import Flavor
from minova.db.models.images import DeletedImage, Image
from minova.db.models.instances import Instance, InstanceFault, PurgedInstance
from minova.db.models.migrations import Migration
from minova.db.models.pci_devices import PciDevice
from minova.db.models.placement import (
    Allocation,
    Consumer,
    HostChange,
    Inventory,
    ProviderAggregate,
    ProviderTrait,
    ResourceClass,
    ResourceProvider,
    Trait,
)
from minova.db.models.quotas import Quota, QuotaClass, QuotaUsage
from minova.db.models.requests import CreateRequest, RequestSpecRow
from minova.db.models.server_groups import InstanceGroup, InstanceGroupMember
from minova.db.models.services import Heartbeat, Service
from minova.db.models.tasks import Task, TaskStep, Worker

__all__ = [
    "Aggregate",
    "AggregateHost",
    "Allocation",
    "Base",
    "Clock",
    "ComputeNode",
    "Consumer",
    "CreateRequest",
    "DeletedImage",
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
    "Quota",
    "QuotaClass",
    "QuotaUsage",
    "RequestSpecRow",
    "ResourceClass",
    "ResourceProvider",
    "Service",
    "Task",
    "TaskStep",
    "Trait",
    "Worker",
]
