"""Topic `compute`, one server per host: `compute.<host>`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.build import BuildMessage
from minova.objects.console import ConsoleAddress
from minova.objects.diagnostics import GuestDiagnostics
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.node_audit import NodeAudit
from minova.objects.vif import GroupMembers


@called_by(Role.CONDUCTOR)
class ForConductor(Protocol):
    """What a conductor asks: it has written a row first."""

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
        """Idempotent: what is not there counts as terminated and is reported so."""
        ...

    @cast(since="1.3")
    def stop_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Shut the guest down; after `shutdown_timeout` its domain is destroyed. Idempotent.

        Every server action is such a method: the host calls the conductor's `begin_action` first, and reports the end.
        """
        ...

    @cast(since="1.3")
    def start_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the domain of a stopped instance. Idempotent."""
        ...

    @cast(since="1.3")
    def reboot_instance(self, ctx: RequestContext, instance: Instance, action_id: int, reboot_type: str) -> None:
        """SOFT: the guest shuts itself down and is started; one that does not is rebooted HARD. HARD: its domain is destroyed, defined
        anew and started; what the host still does for an earlier action of the instance ends.
        """
        ...

    @cast(since="1.3")
    def pause_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Hold the guest's CPUs; its memory stays. Idempotent."""
        ...

    @cast(since="1.3")
    def unpause_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Let the guest's CPUs run on. Idempotent."""
        ...

    @cast(since="1.3")
    def suspend_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Write the guest's memory to the host's disk and end its domain. Idempotent."""
        ...

    @cast(since="1.3")
    def resume_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run a suspended guest on from its memory. Idempotent."""
        ...

    @cast(since="1.3")
    def rescue_instance(
        self, ctx: RequestContext, instance: Instance, action_id: int, rescue_image: Image | None = None
    ) -> None:
        """Shut the guest down and run it from a fresh disk of this image, or of its own; its root disk is the second one. Idempotent."""
        ...

    @cast(since="1.3")
    def unrescue_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest from its root disk again, and remove the rescue disk. Idempotent."""
        ...

    @cast(since="1.3")
    def refresh_interfaces(self, ctx: RequestContext) -> None:
        """What interfaces of this host let through has changed: the host asks `interfaces_of_host`. Idempotent."""
        ...

    @cast(since="1.3")
    def refresh_members(self, ctx: RequestContext, members: tuple[GroupMembers, ...]) -> None:
        """All members of these groups, which rules of interfaces of this host name. Those with a number that is not higher than
        another one of their group are older. Idempotent.
        """
        ...

    @cast(since="1.3")
    def network_changed(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Neutron has told of a change of the instance's interfaces: a host that waits for them asks again. Idempotent."""
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
        """Make the guest's disks and config drive anew, from the image that the instance has now, and run it. Idempotent.

        Before the disks are touched, and when the guest is off, the host asks `begin_action` again. A stopped instance stays stopped.
        """
        ...

    @cast(since="1.3")
    def trigger_crash_dump(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Interrupt the guest's kernel (NMI), once: it writes a dump if it is set up so."""
        ...

    @cast(since="1.3")
    def change_password(self, ctx: RequestContext, instance: Instance, action_id: int, admin_password: str) -> None:
        """Give the guest's administrator this password, through the agent in the guest. Idempotent."""
        ...

    @cast(since="1.3")
    def attach_interface(self, ctx: RequestContext, instance: Instance, action_id: int, port_id: str) -> None:
        """Give the guest the interface of this port, which stands in `network_info`. Idempotent."""
        ...

    @cast(since="1.3")
    def detach_interface(self, ctx: RequestContext, instance: Instance, action_id: int, port_id: str) -> None:
        """Take the interface of this port from the guest, which must let go of it. Idempotent."""
        ...

    @cast(since="1.3")
    def snapshot_instance(self, ctx: RequestContext, instance: Instance, action_id: int, image: Image) -> None:
        """Write the root disk into this image, which is queued. The guest runs on. Idempotent: an active image is left as it is."""
        ...

    @cast(since="1.3")
    def backup_instance(
        self, ctx: RequestContext, instance: Instance, action_id: int, image: Image, rotation: int
    ) -> None:
        """As `snapshot_instance`. The conductor removes the older ones beyond `rotation` when this one is done."""
        ...

    @cast(since="1.3")
    def shelve_instance(self, ctx: RequestContext, instance: Instance, action_id: int, image: Image) -> None:
        """Stop the guest, and write its root disk into this image, which is queued. Idempotent: an active image is left as it is."""
        ...

    @cast(since="1.3")
    def shelve_offload_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Remove the guest of a shelved instance and its disks: it runs again from its image, wherever that is. Idempotent."""
        ...

    @cast(since="1.3")
    def unshelve_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest of a shelved instance that still has its disks. One that was offloaded is built. Idempotent."""
        ...

    @cast(since="1.3")
    def soft_delete_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """As `stop_instance`: its disks stay until it is reclaimed. Idempotent."""
        ...

    @cast(since="1.3")
    def restore_instance(self, ctx: RequestContext, instance: Instance, action_id: int) -> None:
        """Run the guest of an instance that was soft-deleted. Idempotent."""
        ...


@called_by(Role.API)
class ForApi(Protocol):
    """What the API asks a host itself, for an answer that stands in no row."""

    @call
    def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
        """The serial console's log, its last `tail_length` lines or all. NotFound: no such domain here."""
        ...

    @call(since="1.3")
    def get_diagnostics(self, ctx: RequestContext, instance_uuid: str) -> GuestDiagnostics:
        """What the guest uses now. NotFound: no such domain here. Conflict: the guest does not run."""
        ...

    @call(since="1.1")
    def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
        """Audit it now, and do what that finds to be done. NotFound: no such node here. Conflict: nothing is tracked."""
        ...


@called_by(Role.API, Role.CONSOLEPROXY)
class ForConsoles(Protocol):
    """What the API and console proxies ask."""

    @call(since="1.3")
    def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
        """Where a proxy reaches the console now. It may be elsewhere when the guest runs the next time.

        NotFound: no such domain here. Conflict: the guest does not run. BadRequest: this host serves no such console.
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
