"""What the scheduler is asked: Nova's RequestSpec, and its answer for one instance, the Selection."""

from typing import Any

import msgspec

from minova.objects.flavor import Flavor
from minova.objects.image import Image


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How far the chosen host may fill up; `None` means unlimited. memory in MB, disk in GB."""

    memory_mb: float | None = None
    disk_gb: float | None = None
    vcpu: float | None = None
    numa_topology: dict[str, Any] | None = None


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts made so far and the (host, node) pairs that were tried."""

    num_attempts: int = 0
    hosts: tuple[tuple[str, str], ...] = ()


class RequestSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One request for `num_instances` like instances."""

    flavor: Flavor
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
    instance_group: dict[str, Any] | None = None
    numa_topology: dict[str, Any] | None = None
    pci_requests: tuple[dict[str, Any], ...] = ()
    requested_destination: dict[str, Any] | None = None

    @property
    def resources(self) -> dict[str, int]:
        """What one instance takes from Placement, by resource class; a class of 0 is left out."""
        wanted = {
            "VCPU": self.flavor.vcpus,
            "MEMORY_MB": self.flavor.memory_mb,
            "DISK_GB": self.flavor.disk_gb,
        }
        return {name: amount for name, amount in wanted.items() if amount}


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """One host for one instance. `provider_uuid` is the node's resource provider; `allocation` is claimed there."""

    host: str
    node: str
    provider_uuid: str
    allocation: dict[str, int]
    limits: HostLimits = HostLimits()
