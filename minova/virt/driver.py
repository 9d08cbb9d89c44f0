"""What a hypervisor driver does. The compute knows this interface and nothing behind it."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from minova.objects.compute_node import DomainView, HypervisorView
from minova.objects.console import ConsoleAddress, ConsoleType
from minova.objects.cpu_times import CpuTimes
from minova.objects.diagnostics import GuestDiagnostics
from minova.objects.flavor import Flavor, Overhead
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.states import PowerState
from minova.objects.vif import GroupMembers, Vif


class RowHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host in an instance's row, as the conductor answered just now. `known` False: the conductor did not answer."""

    host: str | None = None
    known: bool = True


NO_ROW = RowHost()


class GuestData(msgspec.Struct, frozen=True, kw_only=True):
    """What a guest is given besides what its instance says. `files`: `path`, and `contents` in base64."""

    availability_zone: str = ""
    admin_password: str | None = None
    files: tuple[dict[str, str], ...] = ()


NO_DATA = GuestData()


def last_lines(text: str, length: int | None) -> str:
    """None: all of it. Without the newline after the last one: clients that split the text there count as many lines as they asked for."""
    if length is None:
        return text
    return "\n".join(text.removesuffix("\n").split("\n")[-length:]) if length > 0 else ""


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

    def bridges(self) -> dict[str, str]:
        """The bridges that are there now, by what they carry (`[networks] bridge_mappings`). It is asked each second."""
        ...

    def domains(self) -> tuple[DomainView, ...]:
        """Every domain on every node."""
        ...

    def needs_image(self) -> bool:
        """Whether `spawn` wants the base image's file."""
        ...

    def prepare(
        self, instance: Instance, node: str, attempt: int, image_path: Path | None, data: GuestData = NO_DATA
    ) -> None:
        """Make disks and define the domain, marked with its attempt; nothing runs yet. Repeating it is harmless.

        StaleAttempt: on shared storage a later attempt on another host has made the disks.
        """
        ...

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        """Run the domain, prepared or stopped; one that runs already is left running. NotFound: there is none.

        `paused`: its CPUs are held until `unpause`.
        """
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

    def power_off(self, instance_uuid: str) -> None:
        """Stop the domain at once and keep its disks; one that is not there, or is not ours, is left alone."""
        ...

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Ask the guest to shut itself down. Whether it is off within `timeout` seconds; True also once `cancelled` is set."""
        ...

    def hard_reboot(self, instance: Instance) -> PowerState:
        """Destroy the domain, its saved memory and its rescue disk, define it anew and run it; its disks stay. It need not be there.

        StaleAttempt: another host has made its disks since.
        """
        ...

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Through the agent in the guest, which runs. NotFound: there is no domain.

        GuestAgentNotEnabled, GuestAgentUnresponsive: why it cannot be. No text of an error has the password.
        """
        ...

    def pause(self, instance_uuid: str) -> PowerState:
        """Hold the guest's CPUs; one that is paused stays so. NotFound: there is no domain."""
        ...

    def unpause(self, instance_uuid: str) -> PowerState:
        """Let the guest's CPUs run on; one that runs is left running. NotFound: there is no domain."""
        ...

    def suspend(self, instance_uuid: str) -> PowerState:
        """Save the guest's memory on the host and end the domain; one that is saved stays so. NotFound: there is no domain."""
        ...

    def resume(self, instance: Instance) -> PowerState:
        """Run the guest on from its saved memory, or as `power_on` does where none is saved. NotFound: there is no domain."""
        ...

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        """Make the disk of this image that `rescue` boots from; the guest is left as it is. ImageUnacceptable, DiskFull."""
        ...

    def rescue(self, instance: Instance) -> PowerState:
        """Run the guest from the disk of `prepare_rescue`; its root disk is the second one. `hard_reboot` undoes it."""
        ...

    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        """Write the root disk as it is now into this file, as a qcow2 image that stands on nothing. The guest goes on.

        The guest's file systems are held still where its agent answers; QuiesceFailed: it does not, and the image requires it.
        `check` is called several times a second meanwhile; what it raises ends the work. NotFound: there is no domain.
        """
        ...

    def open_snapshots(self) -> tuple[str, ...]:
        """Instances of this host whose last writes are kept beside their disks: by a snapshot in progress, or one that was
        interrupted.
        """
        ...

    def end_snapshot(self, instance_uuid: str) -> None:
        """Give them back to the disk. What cannot be done is logged, and left to the next call; the guest goes on meanwhile."""
        ...

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        """What these instances' interfaces let through is as this says, by instance, and their addresses and links; guests that
        run feel it at once. Answers the instances whose domains have more or fewer interfaces.

        Idempotent. An instance that is not here is left out.
        """
        ...

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        """These are the members of security groups now, unless newer ones are known: rules of interfaces that name the groups let
        them in, of those that are here and of those that come. Guests that run feel it at once. Idempotent.

        Interfaces that were here before the driver began are left to `refresh_interfaces`.
        """
        ...

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        """Those that the guest has, or would have at its next start: their ports, MAC addresses and networks alone.

        NotFound: there is no domain.
        """
        ...

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        """The domain has this interface from now on, at once if it runs; one that has it keeps it. Whether it has it after a failure
        `interfaces` says.

        NotFound: there is no domain. HardwareNotOffered: this host does not have the network. InterfaceAttachFailed: the guest
        cannot take it.
        """
        ...

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        """The domain has this interface no more; one that has not got it, or is not there, is left as it is.

        A guest that runs has to let go of it, and is asked several times. `check` is called several times a second meanwhile;
        what it raises ends the wait. InterfaceDetachFailed: it has not let go, and keeps it.
        """
        ...

    def rebuild(self, instance: Instance, image_path: Path | None, data: GuestData = NO_DATA) -> None:
        """Make the disks of a domain anew from the instance's image and define it anew; it is off then. Repeating it is harmless.

        StaleAttempt: another host has made its disks since. ImageUnacceptable, DiskFull: why a disk cannot be made.
        """
        ...

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        """Interrupt the guest's kernel. NotFound: there is no domain."""
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

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        """Where a proxy reaches it. NotFound: no such domain. Conflict: it does not run. ConsoleTypeUnavailable: it has none."""
        ...

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """What the guest uses, which runs. NotFound: no such domain."""
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
