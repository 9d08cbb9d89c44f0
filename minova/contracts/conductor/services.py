"""Calls of every service. A service identifies itself by host and binary."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, cast
from minova.objects.hosts.bounds import Line, Reason
from minova.objects.hosts.cloud import CloudState, WitnessRecord
from minova.objects.hosts.service import Service, ServiceInstructions


@called_by(Role.COMPUTE, Role.SCHEDULER, Role.CONDUCTOR, speaks_for_host=True)
class ServicesApi(Protocol):
    @call(in_safe_mode=True)
    def register_service(self, ctx: RequestContext, *, service: Service) -> ServiceInstructions:
        """Insert or refresh the row of (host, binary). Operators alone decide whether it is disabled.

        Raises HostIdentityConflict if the compute is not the one that the host's rows describe. Raises HostInUse if
        another live process serves the host.
        """
        ...

    @call(in_safe_mode=True)
    def heartbeat(
        self, ctx: RequestContext, *, host: Line, binary: Line, down_reason: Reason | None = None
    ) -> ServiceInstructions:
        """The service is alive. `down_reason`: why it still cannot work. Raises NotFound if it is not registered; then
        it should register.
        """
        ...

    @call(since="1.7", in_safe_mode=True)
    def service_has_seen(
        self, ctx: RequestContext, *, host: Line, binary: Line, seen: WitnessRecord
    ) -> CloudState | None:
        """The service has seen something of its cloud that the answer to its heartbeat does not show. Returns the state
        of the cloud for this service; None if the conductor does not know it yet. Idempotent.
        """
        ...

    @cast(since="1.6", in_safe_mode=True)
    def service_stopped(self, ctx: RequestContext, *, host: Line, binary: Line, process: Line) -> None:
        """The process has stopped gracefully, so another process may register for the host at once."""
        ...
