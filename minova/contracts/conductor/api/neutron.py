"""Calls of the API about interfaces in Neutron."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call, cast
from minova.contracts.conductor.audiences import BY_API


@BY_API
class NeutronEventsApi(Protocol):
    @cast(since="1.7")
    def network_changed(self, ctx: RequestContext, *, instance_uuid: str, host: str) -> None:
        """Neutron has reported a change of the instance's interfaces. They are read again, and its host gets a message.
        Idempotent.
        """
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def expect_port(self, ctx: RequestContext, *, instance_uuid: str, network_id: str) -> None:
        """The API is about to make a port in Neutron for an interface of this instance. If no interface has that port
        some minutes later, it is deleted. May be repeated. Raises NotFound if there is no such instance.
        """
        ...
