"""Topic `compute`, one server per host: `compute.<host>`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast, contract
from minova.objects.build import BuildMessage
from minova.objects.instance import Instance
from minova.objects.node_audit import NodeAudit


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


@called_by(Role.API)
class ForApi(Protocol):
    """What the API asks a host itself, for an answer that stands in no row."""

    @call
    def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
        """The serial console's log, its last `tail_length` lines or all. NotFound: no such domain here."""
        ...

    @call(since="1.1")
    def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
        """Audit it now, and do what that finds to be done. NotFound: no such node here. Conflict: nothing is tracked."""
        ...


@contract
class ComputeApi(ForConductor, ForApi, Protocol):
    TOPIC: ClassVar[str] = "compute"
    VERSION: ClassVar[str] = "1.3"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "audit_node",
        "1.2": "several builds at once",
        "1.3": "server actions: stop and start",
    }
