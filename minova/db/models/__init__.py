"""The tables, one file per noun. Only one package writes each table: conductor or placement (section 2 of the design).

Importing this package completes the metadata. Times that are compared with each other are Doubles, seconds of the cloud
clock (`minova.db.clock`); times for users are UTC DateTimes, or Doubles called `updated_at`.
"""

from minova.db.models.actions import InstanceAction, InstanceActionEvent
from minova.db.models.aggregates import Aggregate, AggregateHost
from minova.db.models.base import Base
from minova.db.models.clock import Clock
from minova.db.models.cloud import ChangeCounter, Cloud, CloudHistory, WitnessReport
from minova.db.models.compute_nodes import ComputeNode, NodeAudit
from minova.db.models.console_tokens import ConsoleToken
from minova.db.models.diagnoses import DiagnosisRow, InstanceDiagnosis
from minova.db.models.executed_messages import ExecutedMessage
from minova.db.models.flavors import Flavor, FlavorProject
from minova.db.models.guest_secrets import GuestSecret
from minova.db.models.image_token_keys import ImageTokenKey
from minova.db.models.images import DeletedImage, Image, ImageMember
from minova.db.models.instances import Instance, InstanceFault, InstanceTag, PurgedInstance
from minova.db.models.key_pairs import KeyPair
from minova.db.models.migrations import Migration
from minova.db.models.networks import IpAllocation, Network, NetworkTag, Port, Subnet, SubnetPool
from minova.db.models.neutron_ports import NeutronPort
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
from minova.db.models.requests import CreateRequest, RequestSecrets, RequestSpecRow
from minova.db.models.security_groups import AddressGroup, PortSecurityGroup, SecurityGroup, SecurityGroupRule
from minova.db.models.server_groups import InstanceGroup, InstanceGroupMember
from minova.db.models.services import Heartbeat, Service
from minova.db.models.tasks import Task, TaskStep, Worker
from minova.db.models.unexpected import UnexpectedGuest, UnexpectedImage

__all__ = [
    "AddressGroup",
    "Aggregate",
    "AggregateHost",
    "Allocation",
    "Base",
    "ChangeCounter",
    "Clock",
    "Cloud",
    "CloudHistory",
    "ComputeNode",
    "ConsoleToken",
    "Consumer",
    "CreateRequest",
    "DeletedImage",
    "DiagnosisRow",
    "ExecutedMessage",
    "Flavor",
    "FlavorProject",
    "GuestSecret",
    "Heartbeat",
    "HostChange",
    "Image",
    "ImageMember",
    "ImageTokenKey",
    "Instance",
    "InstanceAction",
    "InstanceActionEvent",
    "InstanceDiagnosis",
    "InstanceFault",
    "InstanceGroup",
    "InstanceGroupMember",
    "InstanceTag",
    "Inventory",
    "IpAllocation",
    "KeyPair",
    "Migration",
    "Network",
    "NetworkTag",
    "NeutronPort",
    "NodeAudit",
    "PciDevice",
    "Port",
    "PortSecurityGroup",
    "ProviderAggregate",
    "ProviderTrait",
    "PurgedInstance",
    "Quota",
    "QuotaClass",
    "QuotaUsage",
    "RequestSecrets",
    "RequestSpecRow",
    "ResourceClass",
    "ResourceProvider",
    "SecurityGroup",
    "SecurityGroupRule",
    "Service",
    "Subnet",
    "SubnetPool",
    "Task",
    "TaskStep",
    "Trait",
    "UnexpectedGuest",
    "UnexpectedImage",
    "WitnessReport",
    "Worker",
]
