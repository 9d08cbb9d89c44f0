"""Topic `compute`, one server per host: `compute.<host>`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.catalogue.image_caching import WantedImage
from minova.objects.guests.console import ConsoleAddress
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.bounds import Line
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.network.vif import GroupMembers
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.moves import MoveMessage


@called_by(Role.CONDUCTOR)
class ForConductor(Protocol):
    """Calls of a conductor, which has written a row first."""

    @cast
    def build_and_run_instance(self, ctx: RequestContext, *, build: BuildMessage) -> None:
        """Idempotent by (instance uuid, attempt)."""
        ...

    @cast(since="1.2")
    def build_and_run_instances(self, ctx: RequestContext, *, builds: tuple[BuildMessage, ...]) -> None:
        """`build_and_run_instance` for several builds of one request."""
        ...

    @cast
    def terminate_instance(self, ctx: RequestContext, *, instance_uuid: str, node: str | None) -> None:
        """Idempotent: an instance that is not there counts as terminated and is reported so."""
        ...

    @cast(since="1.3")
    def run_action(
        self, ctx: RequestContext, *, instance: Instance, action_id: int, kind: str, arguments: HostArguments
    ) -> None:
        """Run a server action of this kind, an entry of `objects/actions/table.py`. Idempotent.

        The host first calls the conductor's `begin_action`, and reports the end. It reports the failure of a kind that
        it does not know.
        """
        ...

    @cast(since="1.3")
    def refresh_interfaces(self, ctx: RequestContext) -> None:
        """What interfaces on this host let through has changed. The host calls `interfaces_of_host`. Idempotent."""
        ...

    @cast(since="1.3")
    def refresh_members(self, ctx: RequestContext, *, members: tuple[GroupMembers, ...]) -> None:
        """Sends all members of these groups, to which rules of interfaces on this host refer. Members with a
        number that is not higher than the one already received for their group are outdated. Idempotent.
        """
        ...

    @cast(since="1.3")
    def network_changed(self, ctx: RequestContext, *, instance_uuid: str) -> None:
        """Neutron has reported a change of the instance's interfaces. A host that waits for them asks again.
        Idempotent.
        """
        ...

    @cast(since="1.3")
    def cancel_action(self, ctx: RequestContext, *, instance_uuid: str, action_id: int) -> None:
        """The time of this action is over. If it has not begun here, it never begins, and the host reports that it failed
        (`action_failed`, untouched). If it is in progress, the host reports that it continues (`action_progressed`). If it
        has ended, the host reports its result again. Idempotent.
        """
        ...

    @cast(since="1.4")
    def run_move(self, ctx: RequestContext, *, move: MoveMessage) -> None:
        """Do this host's part of one phase of a move. Idempotent.

        The host first calls the conductor's `begin_phase`, and reports the end by `phase_ended`.
        """
        ...

    @call(since="1.4")
    def cache_images(self, ctx: RequestContext, *, images: tuple[WantedImage, ...]) -> tuple[str, ...]:
        """Begin to fetch those of these images that are not in the cache of the host. Returns the present `CacheStatus` of
        each; the conductor asks again while one is `fetching`. Idempotent.
        """
        ...


@called_by(Role.API)
class ForApi(Protocol):
    """Calls of the API to a host, for answers that are in no row."""

    @call(in_safe_mode=True)
    def get_console_output(self, ctx: RequestContext, *, instance_uuid: str, tail_length: int | None) -> str:
        """Returns the log of the serial console: its last `tail_length` lines, or all. Raises NotFound if there is no
        such domain here.
        """
        ...

    @call(since="1.3", in_safe_mode=True)
    def get_diagnostics(self, ctx: RequestContext, *, instance_uuid: str) -> GuestDiagnostics:
        """Returns what the guest uses now. Raises NotFound if there is no such domain here, Conflict if the guest does
        not run.
        """
        ...

    @call(since="1.4", in_safe_mode=True)
    def get_host_uptime(self, ctx: RequestContext) -> Line:
        """Returns the output of `uptime` on this host: its time, how long it has been up, users and load."""
        ...

    @call(since="1.1")
    def audit_node(self, ctx: RequestContext, *, node: str) -> NodeAudit:
        """Audit the node now and make the needed corrections.

        Raises NotFound if there is no such node here, Conflict if no resources are tracked.
        """
        ...


@called_by(Role.API, Role.CONSOLEPROXY)
class ForConsoles(Protocol):
    """Calls of the API and of the console proxies."""

    @call(since="1.3", in_safe_mode=True)
    def get_console(self, ctx: RequestContext, *, instance_uuid: str, console_type: str) -> ConsoleAddress:
        """Returns the address at which a proxy reaches the console now. It may differ when the guest runs the next
        time.

        Raises NotFound if there is no such domain here, Conflict if the guest does not run, BadRequest if this host
        serves no such console.
        """
        ...


@contract
class ComputeApi(ForConductor, ForApi, ForConsoles, Protocol):
    TOPIC: ClassVar[str] = "compute"
    VERSION: ClassVar[str] = "1.4"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "audit_node",
        "1.2": "several builds at once",
        "1.3": "server actions; consoles; config drives; changes of interfaces; diagnostics",
        "1.4": "moves; a namespace for each local network, so that ranges may overlap; the uptime of the host; images that are cached in advance",
    }
