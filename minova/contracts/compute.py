"""Topic `compute`, one server per host: `compute.<host>`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.catalogue.image import Image
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.network.vif import GroupMembers
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.console import ConsoleAddress
from minova.objects.servers.diagnostics import GuestDiagnostics
from minova.objects.servers.instance import Instance


@called_by(Role.CONDUCTOR)
class ForConductor(Protocol):
    """Calls of a conductor, which has written a row first."""

    @cast
    def build_and_run_instance(self, ctx: RequestContext, build: BuildMessage) -> None:
        """Idempotent by (instance uuid, attempt)."""
        ...

    @cast(since="1.2")
    def build_and_run_instances(self, ctx: RequestContext, builds: tuple[BuildMessage, ...]) -> None:
        """`build_and_run_instance` for several builds of one request."""
        ...

    @cast
    def terminate_instance(self, ctx: RequestContext, instance_uuid: str, node: str | None) -> None:
        """Idempotent: an instance that is not there counts as terminated and is reported so."""
        ...

    @cast(since="1.3")
    def stop_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Shut the guest down; after `shutdown_timeout` its domain is destroyed. Idempotent.

        All server actions work alike: the host first calls the conductor's `begin_action`, and reports the end.
        """
        ...

    @cast(since="1.3")
    def start_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the domain of a stopped instance. Idempotent."""
        ...

    @cast(since="1.3")
    def reboot_instance(self, ctx: RequestContext, instance: Instance, action_id: int, reboot_type: str) -> None:
        """SOFT: the guest shuts itself down and is started again. If it does not shut down, it is rebooted HARD. HARD:
        its domain is destroyed, redefined and started. Work that the host still does for an earlier action of the
        instance ends.
        """
        ...

    @cast(since="1.3")
    def pause_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Pause the guest's CPUs; its memory stays. Idempotent."""
        ...

    @cast(since="1.3")
    def unpause_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Resume the guest's CPUs. Idempotent."""
        ...

    @cast(since="1.3")
    def suspend_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Write the guest's memory to the host's disk and end its domain. Idempotent."""
        ...

    @cast(since="1.3")
    def resume_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Resume a suspended guest from its saved memory. Idempotent."""
        ...

    @cast(since="1.3")
    def rescue_instance(
        self, ctx: RequestContext, instance: Instance, action_id: int, rescue_image: Image | None = None
    ) -> None:
        """Shut the guest down and run it from a fresh disk, made from this image or from its own image. Its root disk
        becomes the second disk. Idempotent.
        """
        ...

    @cast(since="1.3")
    def unrescue_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest from its root disk again, and remove the rescue disk. Idempotent."""
        ...

    @cast(since="1.3")
    def refresh_interfaces(self, ctx: RequestContext) -> None:
        """What interfaces on this host let through has changed. The host calls `interfaces_of_host`. Idempotent."""
        ...

    @cast(since="1.3")
    def refresh_members(self, ctx: RequestContext, members: tuple[GroupMembers, ...]) -> None:
        """Sends all members of these groups, to which rules of interfaces on this host refer. Members with a
        number that is not higher than the one already received for their group are outdated. Idempotent.
        """
        ...

    @cast(since="1.3")
    def network_changed(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Neutron has reported a change of the instance's interfaces. A host that waits for them asks again.
        Idempotent.
        """
        ...

    @cast(since="1.3")
    def rebuild_instance(
        self,
        ctx: RequestContext,
        instance: Instance,
        action_id: int,
        admin_password: str | None = None,
        injected_files: tuple[dict[str, str], ...] = (),
        availability_zone: str = "",
    ) -> None:
        """Make the guest's disks and config drive anew, from the instance's present image, and run the guest.
        Idempotent.

        Once the guest is off and before it changes the disks, the host calls `begin_action` again. A stopped instance
        stays stopped.
        """
        ...

    @cast(since="1.3")
    def trigger_crash_dump(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Send one NMI to the guest's kernel. The kernel writes a dump if it is configured to."""
        ...

    @cast(since="1.3")
    def change_password(self, ctx: RequestContext, instance: Instance, action_id: int, admin_password: str) -> None:
        """Set this password for the guest's administrator, through the agent in the guest. Idempotent."""
        ...

    @cast(since="1.3")
    def attach_interface(self, ctx: RequestContext, instance: Instance, action_id: int, port_id: str) -> None:
        """Attach the interface of this port, which is in `network_info`, to the guest. Idempotent."""
        ...

    @cast(since="1.3")
    def detach_interface(self, ctx: RequestContext, instance: Instance, action_id: int, port_id: str) -> None:
        """Detach the interface of this port from the guest, which must release it. Idempotent."""
        ...

    @cast(since="1.3")
    def snapshot_instance(self, ctx: RequestContext, instance: Instance, action_id: int, image: Image) -> None:
        """Write the root disk into this queued image. The guest keeps running. Idempotent: an active image stays
        unchanged.
        """
        ...

    @cast(since="1.3")
    def backup_instance(
        self, ctx: RequestContext, instance: Instance, action_id: int, image: Image, rotation: int
    ) -> None:
        """Same as `snapshot_instance`. When the backup is done, the conductor removes the older ones beyond
        `rotation`.
        """
        ...

    @cast(since="1.3")
    def shelve_instance(self, ctx: RequestContext, instance: Instance, action_id: int, image: Image) -> None:
        """Stop the guest, and write its root disk into this queued image. Idempotent: an active image stays
        unchanged.
        """
        ...

    @cast(since="1.3")
    def shelve_offload_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Remove the guest of a shelved instance and its disks. Unshelving builds it again from its image, on any host.
        Idempotent.
        """
        ...

    @cast(since="1.3")
    def unshelve_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest of a shelved instance that still has its disks. An offloaded instance is built instead.
        Idempotent.
        """
        ...

    @cast(since="1.3")
    def soft_delete_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Same as `stop_instance`: its disks stay until the instance is reclaimed. Idempotent."""
        ...

    @cast(since="1.3")
    def restore_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest of a soft-deleted instance. Idempotent."""
        ...

    @cast(since="1.3")
    def cancel_action(self, ctx: RequestContext, instance_uuid: str, action_id: int) -> None:
        """The time of this action is over. If it has not begun here, it never begins, and the host reports that it failed
        (`action_failed`, untouched). If it is in progress, the host reports that it continues (`action_progressed`). If it
        has ended, the host reports its result again. Idempotent.
        """
        ...


@called_by(Role.API)
class ForApi(Protocol):
    """Calls of the API to a host, for answers that are in no row."""

    @call(in_safe_mode=True)
    def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
        """Returns the log of the serial console: its last `tail_length` lines, or all. Raises NotFound if there is no
        such domain here.
        """
        ...

    @call(since="1.3", in_safe_mode=True)
    def get_diagnostics(self, ctx: RequestContext, instance_uuid: str) -> GuestDiagnostics:
        """Returns what the guest uses now. Raises NotFound if there is no such domain here, Conflict if the guest does
        not run.
        """
        ...

    @call(since="1.1")
    def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
        """Audit the node now and make the needed corrections.

        Raises NotFound if there is no such node here, Conflict if no resources are tracked.
        """
        ...


@called_by(Role.API, Role.CONSOLEPROXY)
class ForConsoles(Protocol):
    """Calls of the API and of the console proxies."""

    @call(since="1.3", in_safe_mode=True)
    def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
        """Returns the address at which a proxy reaches the console now. It may differ when the guest runs the next
        time.

        Raises NotFound if there is no such domain here, Conflict if the guest does not run, BadRequest if this host
        serves no such console.
        """
        ...


@contract
class ComputeApi(ForConductor, ForApi, ForConsoles, Protocol):
    TOPIC: ClassVar[str] = "compute"
    VERSION: ClassVar[str] = "1.3"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "audit_node",
        "1.2": "several builds at once",
        "1.3": "server actions; consoles; config drives; changes of interfaces; diagnostics",
    }
