"""What the scheduler is asked: Nova's RequestSpec, and its answer for one instance, the Selection."""

from typing import Any

import msgspec

from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance_group import InstanceGroup
from minova.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from minova.objects.pci import InstancePCIRequest
from minova.objects.resource_request import resource_alternatives


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far the chosen host may fill up; `None` means unlimited. memory in MB, disk in GB.

    `other` has what filters of others wrote, under names of their own.
    """

    memory_mb: float | None = None
    disk_gb: float | None = None
    vcpu: float | None = None
    numa_topology: NUMATopologyLimits | None = None
    other: dict[str, Any] = {}


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts made so far and the (host, node) pairs that were tried."""

    num_attempts: int = 0
    hosts: tuple[tuple[str, str], ...] = ()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request must go. Unlike a forced host, it still passes the filters. `cell` is a cell's uuid or name."""

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    allow_cross_cell_move: bool = False


class PlacementFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider must be like to be a candidate; the scheduler's request filters fill it.

    Each of `member_of` is a set of aggregate uuids of which the provider must be in one. `resources` is what one instance
    takes; None: the first of `resource_alternatives`. `segments`: the physical networks whose traits are required, for the
    reasons (`physical_networks`).
    """

    required_traits: tuple[str, ...] = ()
    forbidden_traits: tuple[str, ...] = ()
    member_of: tuple[tuple[str, ...], ...] = ()
    forbidden_aggregates: tuple[str, ...] = ()
    resources: dict[str, int] | None = None
    segments: tuple[str, ...] = ()


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One request for `num_instances` like instances.

    A provider that is not as `placement` says may yet be as `fallback` says: pinned CPUs on a host that offers no PCPU.
    `config_options` is the content of the scheduler's JSON options file, for filters. `instance_uuid` is the server that
    is to move, None for new ones. Filters written for Nova read the sizes and hints under the names of its RequestSpec.
    """

    flavor: Flavor
    instance_uuid: str | None = None
    image: Image | None = None
    project_id: str = ""
    user_id: str = ""
    num_instances: int = 1
    availability_zone: str | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    retry: Retry = Retry()
    scheduler_hints: dict[str, Any] = {}
    instance_group: InstanceGroup | None = None
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: tuple[InstancePCIRequest, ...] = ()
    requested_destination: Destination | None = None
    placement: PlacementFilter = PlacementFilter()
    fallback: PlacementFilter | None = None
    config_options: dict[str, Any] = {}

    @property
    def resources(self) -> dict[str, int]:
        """What one instance takes from Placement, by resource class; a class of 0 is left out."""
        if self.placement.resources is not None:
            return self.placement.resources
        return resource_alternatives(self.flavor, self.numa_topology)[0]

    @property
    def is_rebuild(self) -> bool:
        """A rebuild stays where it is: only filters that look at its new image are asked."""
        return bool(self.get_scheduler_hint("_nova_check_type") == "rebuild")

    @property
    def vcpus(self) -> int:
        return self.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        return self.flavor.memory_mb

    @property
    def root_gb(self) -> int:
        return self.flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        return self.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        return self.flavor.swap

    def get_scheduler_hint(self, hint_name: str, default: Any = None) -> Any:
        """As in Nova: a list of one is that one."""
        value = self.scheduler_hints.get(hint_name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """One host for one instance. `provider_uuid` is the node's resource provider; `allocation` is claimed there."""

    host: str
    node: str
    provider_uuid: str
    allocation: dict[str, int]
    limits: HostLimits = HostLimits()
