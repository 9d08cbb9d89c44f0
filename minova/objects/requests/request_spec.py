"""The scheduler's input and output: Nova's RequestSpec, and the Selection, the result for one instance."""

from typing import Any

import msgspec

from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.hosts.numa import InstanceNUMATopology, NUMATopologyLimits
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.resource_request import resource_alternatives


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far the chosen host may fill up; `None` means unlimited. Memory in MB, disk in GB.

    `other`: what third-party filters wrote, under their own names.
    """

    memory_mb: float | None = None
    disk_gb: float | None = None
    vcpu: float | None = None
    numa_topology: NUMATopologyLimits | None = None
    other: dict[str, Any] = {}


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The number of attempts so far, and the (host, node) pairs that were tried."""

    num_attempts: int = 0
    hosts: tuple[tuple[str, str], ...] = ()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """The requested host or cell. Unlike a forced host, it must pass the filters. `cell`: a cell's uuid or name."""

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    allow_cross_cell_move: bool = False


class PlacementFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements on a provider to be a candidate. The scheduler's request filters fill it.

    `member_of`: sets of aggregate uuids; the provider must be in an aggregate of each set.
    `resources`: what one instance takes; None: the first of `resource_alternatives`.
    `segments`: the physical networks whose traits are required, for the texts of reasons (`physical_networks`).
    """

    required_traits: tuple[str, ...] = ()
    forbidden_traits: tuple[str, ...] = ()
    member_of: tuple[tuple[str, ...], ...] = ()
    forbidden_aggregates: tuple[str, ...] = ()
    resources: dict[str, int] | None = None
    segments: tuple[str, ...] = ()


class KeptResources(msgspec.Struct, frozen=True, kw_only=True):
    """What a server has on its node in its old and in its new size. If a resize leaves it there, that counts once. `resources`: of
    Placement; the other fields are those of a compute node.
    """

    host: str
    node: str
    resources: dict[str, int]
    vcpus: int
    memory_mb: int
    disk_gb: int


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One request for `num_instances` identical instances.

    A provider that does not meet `placement` may still meet `fallback`: pinned CPUs on a host that offers no PCPU.
    `config_options`: the content of the scheduler's JSON options file, for filters.
    `instance_uuid`: the server to be moved; None for new ones. `kept`: see KeptResources; None: nothing.

    Filters written for Nova read the sizes and hints under the names of Nova's RequestSpec.
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
    kept: KeptResources | None = None

    @property
    def resources(self) -> dict[str, int]:
        """Returns what one instance takes from Placement, by resource class. Classes with amount 0 are left out."""
        if self.placement.resources is not None:
            return self.placement.resources
        return resource_alternatives(self.flavor, self.numa_topology)[0]

    @property
    def is_rebuild(self) -> bool:
        """A rebuild stays on its host: only filters that check its new image run."""
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
        """Returns the hint. As in Nova, a list of one element is replaced by that element."""
        value = self.scheduler_hints.get(hint_name, default)
        return value[0] if isinstance(value, list) and len(value) == 1 else value


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """One host for one instance. `provider_uuid` is the node's resource provider; `allocation` is claimed there."""

    host: str
    node: str
    provider_uuid: str
    allocation: dict[str, int]
    limits: HostLimits = HostLimits()
