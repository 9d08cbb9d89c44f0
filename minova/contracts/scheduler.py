"""Topic `scheduler`."""

from typing import ClassVar, Protocol

from minova.context import RequestContext
from minova.contracts.base import Role, call, called_by, contract
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec


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
        *,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_number: int,
        alternates: int,
    ) -> ScheduleAnswer:
        """Choose a host for each instance and write its allocation, with up to `alternates` further hosts for each.

        `claim_number` rises with every call. A claim with a lower number than the consumer has already seen raises
        StaleClaim, and so does a second delivery of a call that has been decided already. If no host fits, the answer
        is a Diagnosis, not an error.
        """
        ...

    @call(since="1.1", in_safe_mode=True)
    def preview_destinations(
        self, ctx: RequestContext, *, spec: RequestSpec, instance_uuids: tuple[str, ...]
    ) -> ScheduleAnswer:
        """Returns what `select_destinations` would choose now; writes nothing. `instance_uuids` are placeholders."""
        ...

    @call(since="1.1", in_safe_mode=True)
    def capacity(self, ctx: RequestContext, *, spec: RequestSpec, limit: int) -> Capacity:
        """Returns how many more instances of this request fit, counting at most `limit` on each host; writes
        nothing.
        """
        ...
