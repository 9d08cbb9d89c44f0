"""Calls of computes about servers that were evacuated from them."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_COMPUTES
from minova.objects.hosts.bounds import Line


@BY_COMPUTES
class EvacuationReportsApi(Protocol):
    @call(since="1.9")
    def evacuation_cleaned(self, ctx: RequestContext, *, instance_uuid: Line, host: Line) -> None:
        """The host has neither domain nor disks any more of a server that was evacuated from it. Idempotent."""
        ...
