"""The Request to a scheduler driver, and the ScheduleAnswers that are made from a Decision."""

import msgspec

from minova.objects.requests.diagnosis import Diagnosis, FilterStep, LostHost, ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec
from minova.scheduler.decide.decision import Decision

UNCLAIMED = "Unable to successfully claim against any host"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call of select_destinations, or of preview_destinations, which claims nothing.

    `lost_claims`: earlier decisions for it whose claim another scheduler made impossible.
    """

    request_id: str
    spec: RequestSpec
    instance_uuids: tuple[str, ...]
    claim_number: int = 0
    alternates: int = 0
    lost_claims: int = 0


def schedule_answer(request: Request, decision: Decision, clashes: tuple[LostHost, ...] = ()) -> ScheduleAnswer:
    """All selections or none, and always the Diagnosis. `clashes`: refused claims of earlier
    attempts of this request.
    """
    succeeded = decision.error is None
    return ScheduleAnswer(
        selections=decision.selections if succeeded else (),
        diagnosis=Diagnosis(
            request_id=request.request_id,
            instance_uuids=request.instance_uuids,
            hosts=decision.hosts,
            found=decision.found,
            steps=decision.steps,
            weighed=decision.weighed,
            selected=tuple((s[0].host, s[0].node) for s in decision.selections) if succeeded else (),
            error=decision.error,
            conflicts=clashes,
        ),
    )


def unclaimed_answer(request: Request, decision: Decision, clashes: tuple[LostHost, ...]) -> ScheduleAnswer:
    """Every attempt found hosts, but each time another scheduler filled them first."""
    lost = tuple({(clash.host, clash.node): clash for clash in clashes}.values())
    step = FilterStep(name="claim", before=len(lost), after=0, lost=lost)
    unclaimed = msgspec.structs.replace(decision, steps=(*decision.steps, step), error=f"{UNCLAIMED}.")
    return schedule_answer(request, unclaimed, clashes)


def refused_answer(request_id: str, instance_uuids: tuple[str, ...], reason: str) -> ScheduleAnswer:
    """The request itself cannot be fulfilled: no host was considered."""
    return ScheduleAnswer(
        diagnosis=Diagnosis(request_id=request_id, instance_uuids=instance_uuids, hosts=0, error=reason)
    )
