"""FilterScheduler: the default driver. Refresh the table, decide, write the allocations, and again where they clash.

What waits is decided together: one refresh, N decisions, one transaction. A member that fails is decided again alone
and never fails its neighbours.
"""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.context import RequestContext
from minova.db.engine import Database
from minova.objects.diagnosis import Diagnosis, FilterStep, LostHost, ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.placement.allocations import Claim, claim
from minova.scheduler.decision import Decision, Rules, decide
from minova.scheduler.extensions import load_filters, load_weighers
from minova.scheduler.host_source import HostSource
from minova.scheduler.line import Line, Ticket

LOG = logging.getLogger(__name__)

# Requests decided together: more would make the first wait for the last.
MOST_TOGETHER = 64
# Decisions for one request: each clash tells of hosts that another scheduler has just filled, and those are re-read.
ATTEMPTS = 10


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of select_destinations."""

    request_id: str
    spec: RequestSpec
    instance_uuids: tuple[str, ...]
    claim_no: int
    alternates: int


Asked = Ticket[Request, ScheduleAnswer]


class Refused(Exception):
    """Some claims of a transaction do not fit: nothing of it is kept. `reasons` by consumer uuid."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(str(reasons))
        self.reasons = reasons


class FilterScheduler:
    """`rng` draws among equals; its seed makes a run repeatable. InvalidConfiguration: an unknown filter or weigher."""

    def __init__(
        self,
        conf: Any,
        db: Database,
        *,
        clock: Callable[[], float],
        rng: random.Random | None = None,
    ) -> None:
        self._db = db
        self.source = HostSource(db, service_down_time=conf.service_down_time, clock=clock)
        self._rules = Rules(
            filters=load_filters(conf),
            weighers=load_weighers(conf),
            host_subset_size=conf.filter_scheduler.host_subset_size,
            shuffle_best_same_weighed_hosts=conf.filter_scheduler.shuffle_best_same_weighed_hosts,
            max_placement_results=conf.scheduler.max_placement_results,
            draw=(rng or random.Random()).randrange,
        )
        self._line: Line[Request, ScheduleAnswer] = Line(self._serve, MOST_TOGETHER)

    def select_destinations(
        self,
        ctx: RequestContext,
        spec: RequestSpec,
        instance_uuids: tuple[str, ...],
        claim_no: int,
        alternates: int,
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._line.ask(
            Request(
                request_id=ctx.request_id,
                spec=spec,
                instance_uuids=instance_uuids,
                claim_no=claim_no,
                alternates=alternates,
            )
        )

    # -- a batch ----------------------------------------------------------------------------------------------------

    def _serve(self, tickets: Sequence[Asked]) -> None:
        if len(tickets) > 1:
            self._together(tickets)
        for ticket in tickets:
            if not ticket.done:
                self._alone(ticket)

    def _together(self, tickets: Sequence[Asked]) -> None:
        """Serve those whose first decision stands; the others are left to be decided alone."""
        self.source.refresh()
        decided: list[tuple[Asked, Decision]] = []
        for ticket in tickets:
            try:
                decision = self._decide(ticket.asked)
            except Exception:
                LOG.debug("To be decided again alone", exc_info=True)
                continue
            if decision.error is None:
                decided.append((ticket, decision))
        while decided:
            try:
                self._claim([(ticket.asked, decision) for ticket, decision in decided])
            except Refused as refused:
                self._doubt(refused, [decision for _, decision in decided])
                decided = [pair for pair in decided if not refused.reasons.keys() & {*pair[0].asked.instance_uuids}]
            except errors.StaleClaim:
                return
            else:
                for ticket, decision in decided:
                    ticket.served(_answer(ticket.asked, decision))
                return

    def _alone(self, ticket: Asked) -> None:
        try:
            ticket.served(self._settle(ticket.asked))
        except Exception as error:  # noqa: BLE001  - whatever it is, its caller gets it
            ticket.served(error)

    def _settle(self, request: Request) -> ScheduleAnswer:
        """Decide and claim until the claim stands or no host is left, bounded."""
        clashes: dict[tuple[str, str], str] = {}
        for _ in range(ATTEMPTS):
            self.source.refresh()
            decision = self._decide(request)
            if decision.error is not None and not self.source.heard:
                # Before a "no": has a silent service come back since?
                self.source.refresh(liveness=True)
                decision = self._decide(request)
            if decision.error is not None:
                return _answer(request, decision)
            try:
                self._claim([(request, decision)])
            except Refused as refused:
                self._doubt(refused, [decision])
                clashes.update(_clashes(request, decision, refused))
            else:
                return _answer(request, decision)
        LOG.warning("Unable to successfully claim against any host: %s", "; ".join(clashes.values()))
        return _unclaimed(request, decision, clashes)

    def _decide(self, request: Request) -> Decision:
        rules = self._rules._replace(trace=LOG.debug) if LOG.isEnabledFor(logging.DEBUG) else self._rules
        return decide(self.source.table, request.spec, len(request.instance_uuids), request.alternates, rules)

    def _claim(self, decided: Sequence[tuple[Request, Decision]]) -> None:
        """Write all allocations in one transaction. Refused: some do not fit, and none is written."""
        claims = [
            Claim(
                consumer_uuid=uuid,
                claim_no=request.claim_no,
                provider_uuid=selections[0].provider_uuid,
                resources=selections[0].allocation,
                project_id=request.spec.project_id,
                user_id=request.spec.user_id,
            )
            for request, decision in decided
            for uuid, selections in zip(request.instance_uuids, decision.selections, strict=True)
        ]

        def work(session: Session) -> None:
            reasons = claim(session, claims, self._db.now())
            if reasons:
                raise Refused(reasons)

        self._db.run(work)

    def _doubt(self, refused: Refused, decisions: Sequence[Decision]) -> None:
        """Another scheduler was faster: the rows of these hosts are read again, those of the refused at least."""
        LOG.info("Claims refused, deciding again: %s", "; ".join(refused.reasons.values()))
        chosen = {selections[0].provider_uuid for decision in decisions for selections in decision.selections}
        self.source.suspect({record.id for record in self.source.table.records if record.uuid in chosen})


def _clashes(request: Request, decision: Decision, refused: Refused) -> dict[tuple[str, str], str]:
    """{(host, node): reason} of the claims refused."""
    chosen = zip(request.instance_uuids, decision.selections, strict=True)
    return {(s[0].host, s[0].node): refused.reasons[uuid] for uuid, s in chosen if uuid in refused.reasons}


def _answer(request: Request, decision: Decision) -> ScheduleAnswer:
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
        ),
    )


def _unclaimed(request: Request, decision: Decision, clashes: dict[tuple[str, str], str]) -> ScheduleAnswer:
    """Hosts were found again and again, and each time another scheduler filled them first."""
    lost = tuple(LostHost(host=host, node=node, reason=reason) for (host, node), reason in clashes.items())
    step = FilterStep(name="claim", before=len(lost), after=0, lost=lost)
    error = "Unable to successfully claim against any host."
    refused = msgspec.structs.replace(decision, steps=(*decision.steps, step), error=error)
    return _answer(request, refused)
