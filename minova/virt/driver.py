"""The interface of hypervisor drivers. The compute knows this interface and nothing behind it."""

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from minova.objects.catalogue.flavor import Flavor, Overhead
from minova.objects.catalogue.image import Image
from minova.objects.hosts.compute_node import DomainView, HypervisorView
from minova.objects.hosts.cpu_times import CpuTimes
from minova.objects.network.vif import GroupMembers, Vif
from minova.objects.servers.console import ConsoleAddress, ConsoleType
from minova.objects.servers.diagnostics import GuestDiagnostics
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState


class RowHost(msgspec.Struct, frozen=True, kw_only=True):
    """The host in an instance's row, as the conductor has just answered. `known` is False if the conductor did not
    answer.
    """

    host: str | None = None
    known: bool = True


NO_ROW = RowHost()


class LeftDisks(msgspec.Struct, frozen=True, kw_only=True):
    """Disks of an instance on this host. `attempt` made them; `disk_gb`: the space that they use, rounded up."""

    uuid: str
    attempt: int
    disk_gb: int


class GuestData(msgspec.Struct, frozen=True, kw_only=True):
    """Data for a guest besides its instance. Each of `files` has a `path`, and `contents` in base64."""

    availability_zone: str = ""
    admin_password: str | None = None
    files: tuple[dict[str, str], ...] = ()


NO_DATA = GuestData()


def last_lines(text: str, length: int | None) -> str:
    """Returns the last `length` lines, or the whole text if it is None. The last line has no newline, so that a client
    that splits the text at newlines gets as many lines as it requested.
    """
    if length is None:
        return text
    return "\n".join(text.removesuffix("\n").split("\n")[-length:]) if length > 0 else ""


class Driver(Protocol):
    """Methods raise HypervisorUnavailable if the hypervisor does not answer, GuestBusy if a job of it occupies the guest,
    DiskFull if the disk is full, and HypervisorError if the hypervisor could not do it for another reason.
    """

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

    def host_view(self, node: str) -> HypervisorView:
        """Returns the node's current resources and domains (Nova's `get_available_resource`)."""
        ...

    def bridges(self) -> dict[str, str]:
        """Returns the bridges that exist now, by the segment that they carry (`[networks] bridge_mappings`). Called
        each second.
        """
        ...

    def domains(self) -> tuple[DomainView, ...]:
        """Returns every domain on every node."""
        ...

    def needs_image(self) -> bool:
        """Whether `prepare` needs the base image's file."""
        ...

    def prepare(
        self, instance: Instance, node: str, attempt: int, image_path: Path | None, data: GuestData = NO_DATA
    ) -> None:
        """Make disks and define the domain, marked with its attempt; nothing runs yet. Idempotent.

        Raises StaleAttempt if a later attempt on another host has made the disks on shared storage. Raises GuestIsNewer
        if a later attempt has made the domain; then nothing is changed.
        """
        ...

    def power_on(self, instance: Instance, *, paused: bool = False) -> PowerState:
        """Run a prepared or stopped domain; one that runs already is left running. Raises NotFound if there is no
        domain.

        `paused`: start the domain with its CPUs paused until `unpause`.
        """
        ...

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        """Stop and undefine the domain and remove its files. Idempotent.

        On shared storage, files of an instance whose row names another host belong to that host and stay.
        """
        ...

    def shares_disks(self) -> bool:
        """Whether other hosts store disks in the same folder."""
        ...

    def left_disks(self, with_domain: Container[str]) -> tuple[LeftDisks, ...]:
        """Returns the disks that this host owns of instances that are not in `with_domain`."""
        ...

    def own_disks(self, instance_uuids: Iterable[str]) -> None:
        """Record this host as owner of the disks of these instances, whose rows and domains are here."""
        ...

    def power_off(self, instance_uuid: str) -> None:
        """Stop the domain at once and keep its disks. Does nothing if there is no domain, or if it is not ours. Raises
        GuestBusy while its memory is being saved.
        """
        ...

    def shut_down(self, instance_uuid: str, timeout: float, cancelled: threading.Event) -> bool:
        """Signal the guest to shut itself down. Returns whether it is off within `timeout` seconds; returns True also
        once `cancelled` is set.
        """
        ...

    def start(self, instance: Instance) -> PowerState:
        """Run the guest of a stopped instance. One that runs is left running, the CPUs of a paused one go on, and one whose
        memory is saved goes on from it. Any other is defined anew and boots, as by `hard_reboot`.

        Raises StaleAttempt if another host has made its disks since.
        """
        ...

    def hard_reboot(self, instance: Instance) -> PowerState:
        """Destroy the domain, its saved memory and its rescue disk, define it anew and run it; its disks stay. The
        domain need not exist.

        Raises StaleAttempt if another host has made its disks since.
        """
        ...

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Set the password through the agent in the running guest. Raises NotFound if there is no domain.

        Raises GuestAgentNotEnabled or GuestAgentUnresponsive if the agent cannot do it. No error text contains the
        password.
        """
        ...

    def pause(self, instance_uuid: str) -> PowerState:
        """Pause the guest's CPUs; a paused guest stays paused. Raises NotFound if there is no domain."""
        ...

    def unpause(self, instance_uuid: str) -> PowerState:
        """Resume the guest's CPUs; a running guest is left running. Raises NotFound if there is no domain."""
        ...

    def suspend(self, instance_uuid: str) -> PowerState:
        """Save the guest's memory on the host and end the domain; a saved guest stays saved. Raises NotFound if there
        is no domain.
        """
        ...

    def resume(self, instance: Instance) -> PowerState:
        """Resume the guest from its saved memory, or start it as `power_on` does if none is saved. Raises NotFound if
        there is no domain.
        """
        ...

    def prepare_rescue(self, instance: Instance, image: Image, image_path: Path | None) -> None:
        """Make the disk of this image from which `rescue` boots; the guest is left as it is. Raises ImageUnacceptable
        or DiskFull, and SavedMemoryKept if the guest's memory is saved.
        """
        ...

    def rescue(self, instance: Instance) -> PowerState:
        """Run the guest from the disk of `prepare_rescue`; its root disk is the second one. `hard_reboot` undoes it."""
        ...

    def snapshot(self, instance: Instance, path: Path, check: Callable[[], None]) -> None:
        """Write the current root disk into this file, as a qcow2 image without a backing file. The guest continues to
        run.

        The guest's file systems are quiesced if its agent answers. Raises QuiesceFailed if the agent does not answer
        and the image requires it, NotFound if there is no domain. Raises SavedMemoryKept if the guest's memory is saved
        together with an overlay, which has its last writes. Meanwhile `check` is called several times a second; an
        exception of it ends the work.
        """
        ...

    def has_saved_memory(self, instance_uuid: str) -> bool:
        """Whether the guest is off and its memory is saved on this host."""
        ...

    def has_open_snapshot(self, instance_uuid: str) -> bool:
        """Whether an overlay beside the instance's disk may have its last writes, with or without a domain."""
        ...

    def open_snapshots(self) -> tuple[str, ...]:
        """Returns instances of this host whose last writes are in an overlay beside their disks, because of a snapshot
        in progress or an interrupted one.
        """
        ...

    def end_snapshot(self, instance_uuid: str) -> None:
        """Commit the last writes to the disk. A failure is logged and left to the next call. The guest continues to run
        meanwhile.
        """
        ...

    def refresh_interfaces(self, vifs: Mapping[str, Sequence[Vif]]) -> tuple[str, ...]:
        """Apply filters, addresses and links of these interfaces, given by instance. Running guests are affected at
        once. Returns the instances whose domains have more or fewer interfaces.

        Idempotent. Skips instances that are not on this host.
        """
        ...

    def refresh_members(self, members: Sequence[GroupMembers]) -> None:
        """Apply these members of security groups, unless newer ones are known. Rules that refer to the groups then
        allow traffic from the members, for interfaces that are here and for those that come later. Running guests are
        affected at once. Idempotent.

        Interfaces that existed before the driver started are left to `refresh_interfaces`.
        """
        ...

    def interfaces(self, instance_uuid: str) -> tuple[Vif, ...]:
        """Returns the interfaces that the guest has, or would have at its next start: only their ports, MAC addresses
        and networks.

        Raises NotFound if there is no domain.
        """
        ...

    def attach_interface(self, instance: Instance, vif: Vif) -> PowerState:
        """Attach this interface to the domain, at once if it runs. Idempotent. After a failure, call `interfaces` to
        see whether the domain has it.

        Raises NotFound if there is no domain. Raises HardwareNotOffered if this host does not have the network,
        InterfaceAttachFailed if the guest cannot take it.
        """
        ...

    def detach_interface(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> PowerState:
        """Detach this interface from the domain. Does nothing if the domain lacks the interface, or does not exist.

        A running guest has to release the interface, and is asked several times. Meanwhile `check` is called several
        times a second; an exception of it ends the wait. Raises InterfaceDetachFailed if the guest has not released the
        interface and keeps it.
        """
        ...

    def rebuild(self, instance: Instance, image_path: Path | None, data: GuestData = NO_DATA) -> None:
        """Make the disks of a domain anew from the instance's image and define it anew; it is off then, and its saved
        memory is removed. Idempotent.

        Raises StaleAttempt if another host has made its disks since. Raises ImageUnacceptable or DiskFull if a disk
        cannot be made.
        """
        ...

    def inject_nmi(self, instance_uuid: str) -> PowerState:
        """Send a non-maskable interrupt to the guest's kernel. Raises NotFound if there is no domain."""
        ...

    def lost_base(self, instance_uuid: str) -> Path | None:
        """Returns the base image of the instance's root disk if that file is gone, so that the disk cannot be opened.
        None if it is there, or if the disk has none.
        """
        ...

    def bases_in_use(self) -> frozenset[str]:
        """Returns file names of cached base images on which disks of instances here are based. Raises UnknownDiskFormat
        if that cannot be determined.
        """
        ...

    def bound_console_logs(self) -> None:
        """Truncate the console logs that have grown beyond the configured size."""
        ...

    def power_state(self, instance_uuid: str) -> PowerState | None:
        """Returns the power state, or None if there is no such domain."""
        ...

    def console_output(self, instance_uuid: str, tail_length: int | None) -> str:
        """Returns the last `tail_length` lines, or all that is kept. Raises NotFound if there is no such domain."""
        ...

    def console(self, instance_uuid: str, console_type: ConsoleType) -> ConsoleAddress:
        """Returns the address where a proxy reaches the console. Raises NotFound if there is no such domain, Conflict
        if it does not run, ConsoleTypeUnavailable if it has no such console.
        """
        ...

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """Returns what the running guest uses. Raises NotFound if there is no such domain."""
        ...

    def cpu_times(self, node: str) -> CpuTimes | None:
        """Returns CPU times of the node since its start; None if the hypervisor does not report them."""
        ...

    def overhead(self, flavor: Flavor) -> Overhead:
        """Returns the resources that the hypervisor itself needs for one such instance."""
        ...

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        """Report lifecycle changes of domains (instance uuid, new state) as they come, from the driver's own thread."""
        ...

    def close(self) -> None: ...
