"""What a hypervisor driver does. The compute knows this interface and nothing behind it."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from minova.objects.compute_node import DomainView, HypervisorView
from minova.objects.cpu_times import CpuTimes
from minova.objects.flavor import Flavor, Overhead
from minova.objects.instance import Instance
from minova.objects.states import PowerState


class RowHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host in an instance's row, as the conductor answered just now. `known` False: the conductor did not answer."""

    host: str | None = None
    known: bool = True


NO_ROW = RowHost()


class Driver(Protocol):
    """Methods raise HypervisorUnavailable when the hypervisor does not answer, DiskFull when the disk is."""

    reports_resources: ClassVar[bool]
    """False switches tracking off: claims become NopClaims."""

    def init_host(self, host: str) -> None:
        """Connect and check the settings against the host. InvalidConfiguration: they cannot work here."""
        ...

    def recognise(self, former_hosts: tuple[str, ...]) -> None:
        """Domains that are marked with these earlier names of the host are ours, too."""
        ...

    def available_nodes(self) -> tuple[str, ...]:
        """Names of the nodes behind this service; most drivers have one."""
        ...

    def host_view(self, node: str) -> HypervisorView:
        """The node's resources and domains now (Nova's `get_available_resource`)."""
        ...

    def domains(self) -> tuple[DomainView, ...]:
        """Every domain on every node."""
        ...

    def needs_image(self) -> bool:
        """Whether `spawn` wants the base image's file."""
        ...

    def prepare(self, instance: Instance, node: str, attempt: int, image_path: Path | None) -> None:
        """Make disks and define the domain, marked with its attempt; nothing runs yet. Repeating it is harmless.

        StaleAttempt: on shared storage a later attempt on another host has made the disks.
        """
        ...

    def power_on(self, instance: Instance) -> PowerState:
        """Run the domain, prepared or stopped; one that runs already is left running. NotFound: there is none."""
        ...

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        """Stop and undefine the domain and remove its files; what is not there is fine.

        On storage that hosts share, files of an instance whose row names another host are that host's, and stay.
        """
        ...

    def shares_disks(self) -> bool:
        """Whether other hosts keep disks in the same folder."""
        ...

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        """Put this host's name to the disks of these instances, whose rows and domains are here."""
        ...

    def power_off(self, instance_uuid: str, timeout: float = 0.0, cancelled: threading.Event | None = None) -> None:
        """Stop the domain and keep its disks; one that is not there, or is not ours, is left alone.

        The guest has `timeout` seconds to shut itself down; 0: none. Once `cancelled` is set, the domain is left as it is.
        """
        ...

    def bases_in_use(self) -> frozenset[str]:
        """File names of cached base images that disks of instances here stand on. UnknownDiskFormat: that cannot be told."""
        ...

    def bound_console_logs(self) -> None:
        """Cut the console logs that have grown beyond the configured size."""
        ...

    def power_state(self, instance_uuid: str) -> PowerState | None:
        """`None`: there is no such domain."""
        ...

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        """NotFound: no such domain. The last `tail_length` lines, or all that is kept."""
        ...

    def cpu_times(self, node: str) -> CpuTimes | None:
        """CPU times of the node since its start; None if the hypervisor does not report them."""
        ...

    def overhead(self, flavor: Flavor) -> Overhead:
        """What the hypervisor itself spends on one such instance."""
        ...

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        """Report lifecycle changes of domains (instance uuid, new state) as they come, from the driver's own thread."""
        ...

    def close(self) -> None: ...
