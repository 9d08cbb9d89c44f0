"""Calls of the API about evacuations."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.evacuation import EvacuationRequest


@BY_API
class EvacuationsApi(Protocol):
    @call(since="1.9")
    def evacuate_server(
        self,
        ctx: RequestContext,
        *,
        instance_uuid: str,
        request: EvacuationRequest,
        override_lock: bool = False,
    ) -> None:
        """Begin to build the server on another host than its own, which is forced down. Returns before it is built.

        Raises NotFound if there is no such server. Raises Conflict if its state does not allow it. Raises BadRequest if
        its host is in use, or is the requested one. Raises PeerTooOld if a compute is of the last release.
        """
        ...

    @call(since="1.9", in_safe_mode=True)
    def preview_evacuation(
        self, ctx: RequestContext, *, instance_uuid: str, request: EvacuationRequest, override_lock: bool = False
    ) -> ScheduleAnswer:
        """Returns where the server would go now, and why; writes nothing. Raises as `evacuate_server`."""
        ...
