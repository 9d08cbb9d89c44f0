"""The host and its nodes."""

from typing import ClassVar, Protocol

from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.hosts.compute_node import AvailableResources
from minova.objects.hosts.cpu_times import CpuTimes


class HostDriver(Protocol):
    reports_resources: ClassVar[bool]
    """False: claims on its nodes are NopClaims, which hold nothing."""

    def init_host(self, host: str) -> None:
        """Connect and check the settings against the host. Raises InvalidConfiguration if they cannot work here."""
        ...

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        """Treat domains that are marked with these earlier names of the host as ours, too."""
        ...

    def available_nodes(self) -> tuple[str, ...]:
        """Returns the names of the nodes of this service; most drivers have one."""
        ...

    def host_view(self, node: str) -> AvailableResources:
        """Returns the node's current resources and domains (Nova's `get_available_resource`)."""
        ...

    def bridges(self) -> dict[str, str]:
        """Returns the bridges that exist now, by the segment that they carry (`[networks] bridge_mappings`). Called
        each second.
        """
        ...

    def cpu_times(self, node: str) -> CpuTimes | None:
        """Returns CPU times of the node since its start; None if the hypervisor does not report them."""
        ...

    def uptime(self) -> str:
        """Returns the output of `uptime` on this host. Raises HypervisorError if it fails."""
        ...

    def overhead(self, flavor: Flavor) -> Overhead:
        """Returns the resources that the hypervisor itself needs for one such instance."""
        ...

    def close(self) -> None: ...
