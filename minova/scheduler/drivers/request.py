"""What a scheduler driver is asked, and the two ends of the answer: a decision that stands, and one that was never claimed."""

import msgspec

from minova.objects.diagnosis import Diagnosis, FilterStep, LostHost, ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.decision import Decision
from minova.scheduler.decide.diagnosis import Told

UNCLAIMED = "Unable to successfully claim against any host"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of select_destinations."""

    request_id: str
    spec: RequestSpec
    instance_uuids: tuple[str, ...]
    claim_no: int
    alternates: int


def schedule_answer(request: Request, decision: Decision, clashes: tuple[LostHost, ...] = ()) -> ScheduleAnswer:
    """As the contract has it: all or nothing, and the Diagnosis always. `clashes`: of its claims refused before."""
    found = decision.error is None
    return ScheduleAnswer(
        selections=decision.selections if found else (),
        diagnosis=Diagnosis(
            request_id=request.request_id,
            instance_uuids=request.instance_uuids,
            hosts=decision.hosts,
            found=decision.found,
            steps=decision.steps,
            weighed=decision.weighed,
            selected=tuple((s[0].host, s[0].node) for s in decision.selections) if found else (),
            error=decision.error,
            conflicts=clashes,
        ),
    )


def unclaimed_answer(request: Request, decision: Decision, clashes: tuple[LostHost, ...]) -> ScheduleAnswer:
    """Hosts were found again and again, and each time another scheduler filled them first."""
    lost = tuple({(clash.host, clash.node): clash for clash in clashes}.values())
    step = FilterStep(name="claim", before=len(lost), after=0, lost=lost)
    told = Told(lambda: (*decision.steps, step), lambda: decision.weighed)
    return schedule_answer(request, msgspec.structs.replace(decision, told=told, error=f"{UNCLAIMED}."), clashes)


def refused_answer(request_id: str, instance_uuids: tuple[str, ...], reason: str) -> ScheduleAnswer:
    """No host was looked at: the request itself cannot be met."""
    return ScheduleAnswer(
        diagnosis=Diagnosis(request_id=request_id, instance_uuids=instance_uuids, hosts=0, error=reason)
    )
