"""Topic `scheduler`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, contract
from minova.objects.capacity import Capacity
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.request_spec import RequestSpec


@contract
@called_by(Role.CONDUCTOR)
class SchedulerApi(Protocol):
    TOPIC: ClassVar[str] = "scheduler"
    VERSION: ClassVar[str] = "1.2"
    HISTORY: ClassVar[dict[str, str]] = {
        "1.0": "first",
        "1.1": "previews and capacity, which change nothing",
        "1.2": "no new call: it claims of providers below a node's own",
    }

    @call(encoded={"claim_number": "claim_no"})
    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_number: int,
        alternates: int,
    ) -> ScheduleAnswer:
        """Choose a host for each instance and write its allocation; up to `alternates` further hosts for each.

        `claim_number` rises with every call: a claim below what the consumer has seen is refused (StaleClaim).
        "No" is an answer with a Diagnosis, not an error.
        """
        ...

    @call(since="1.1")
    def preview_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        """What `select_destinations` would choose now; nothing is written. `instance_uuids` are placeholders."""
        ...

    @call(since="1.1")
    def capacity(self, ctx: RequestContext, spec: RequestSpec, limit: int) -> Capacity:
        """How many more of it fit, `limit` on each host at most; nothing is written."""
        ...
