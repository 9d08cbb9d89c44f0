"""Writes the allocations of a batch of decisions in one transaction, all or none."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from minova.db.engine import Database
from minova.objects.requests.diagnosis import LostHost
from minova.placement.allocations import claims
from minova.scheduler.decide.decision import Decision
from minova.scheduler.drivers.request import Request

Decided = tuple[Request, Decision]


class ClaimsRefused(Exception):
    """Some claims of a transaction do not fit, so the transaction is rolled back. `reasons`: by consumer uuid."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


def write(db: Database, decided: Sequence[Decided]) -> None:
    """Raises ClaimsRefused if some claims do not fit; then none is written. Raises StaleClaim if a consumer has a claim
    with a higher number, or with this number and another decision.
    """
    new_claims = [
        claims.AllocationClaim(
            consumer_uuid=uuid,
            claim_number=request.claim_number,
            provider_uuid=selections[0].provider_uuid,
            resources=selections[0].allocation,
            project_id=request.spec.project_id,
            user_id=request.spec.user_id,
        )
        for request, decision in decided
        for uuid, selections in zip(request.instance_uuids, decision.selections, strict=True)
    ]

    def work(session: Session) -> None:
        reasons = claims.claim(session, new_claims, db.now(), all_or_none=True)
        if reasons:
            raise ClaimsRefused(reasons)

    db.run(work)


def require_unclaimed(db: Database, request: Request) -> None:
    """Raises StaleClaim if the request, or a later one for one of its instances, has been decided already."""
    with db.read() as session:
        claims.require_unclaimed(session, request.instance_uuids, request.claim_number)


def clashes(request: Request, decision: Decision, refused: ClaimsRefused) -> tuple[LostHost, ...]:
    """Returns the hosts that refused this request's claims, and the reasons."""
    chosen = zip(request.instance_uuids, decision.selections, strict=True)
    return tuple(
        LostHost(host=s[0].host, node=s[0].node, reason=refused.reasons[uuid])
        for uuid, s in chosen
        if uuid in refused.reasons
    )
