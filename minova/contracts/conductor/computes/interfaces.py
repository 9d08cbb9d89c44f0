"""Calls of computes about interfaces of instances."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import Count, Line
from minova.objects.network.vif import Vif


@BY_COMPUTES
class HostInterfacesApi(Protocol):
    @call(since="1.7", in_safe_mode=True)
    def interfaces_of_host(self, ctx: RequestContext, *, host: Line) -> dict[str, tuple[Vif, ...]]:
        """Returns the interfaces of the host's instances, by instance, with their present rules."""
        ...


@BY_COMPUTES
class BindInterfacesApi(Protocol):
    @call(since="1.7")
    def bind_interfaces(
        self, ctx: RequestContext, *, instance_uuid: Line, attempt: Count, host: Line
    ) -> tuple[Vif, ...]:
        """Returns the interfaces of an instance on Neutron networks, after binding them to the host that builds it.
        Idempotent.

        Raises StaleAttempt if the attempt is no longer this host's. Raises PortBindingFailed if the host cannot have
        one of the interfaces. Raises the matching error if Neutron refuses a request.
        """
        ...


@BY_COMPUTES
class DetachedInterfacesApi(Protocol):
    @call(since="1.7")
    def interface_detached(self, ctx: RequestContext, *, instance_uuid: Line, mac_address: Line, host: Line) -> None:
        """The guest of an instance of this host does not have this interface, whose port is marked for deletion: the
        port is deleted. Idempotent.
        """
        ...
