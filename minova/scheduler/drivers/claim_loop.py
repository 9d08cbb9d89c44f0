"""What all drivers do alike: refresh the table, decide, write the allocations, and again where they clash.

What waits is decided together: one refresh, N decisions, one transaction. A member that fails is decided again alone
and never fails its neighbours.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from minova import errors, metrics
from minova.batch_queue import BatchQueue, Ticket
from minova.context import RequestContext
from minova.db.catalogue import server_groups
from minova.db.engine import Database
from minova.objects.diagnosis import LostHost, ScheduleAnswer
from minova.objects.request_spec import RequestSpec
from minova.scheduler.decide.decision import Decision
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.drivers import claim_writes
from minova.scheduler.drivers.claim_writes import ClaimsRefused
from minova.scheduler.drivers.request import UNCLAIMED, Request, schedule_answer, unclaimed_answer
from minova.scheduler.hosts.table import HostTable

LOG = logging.getLogger(__name__)

# Requests decided together: more would make the first wait for the last.
MAX_BATCH = 64
# Decisions for one request: each clash tells of hosts that another scheduler has just filled, and those are re-read.
ATTEMPTS = 10
# Members of a failed batch, one after the other, that find the database away: then it is, and each other one would wait for it
# as long.
AWAY_AFTER = 2

Asked = Ticket[Request, ScheduleAnswer]
Clashes = tuple[LostHost, ...]
T = TypeVar("T")
Decide = Callable[[HostTable, Request], Decision]


class Source(Protocol):
    """Where the table comes from: read for each request (HostSource), or from time to time (CachedSource)."""

    table: HostTable

    @property
    def liveness_checked(self) -> bool:
        """Whether the last refresh looked for silent services and for changes that were committed late."""
        ...

    def refresh(self, *, liveness: bool = False) -> HostTable: ...

    def invalidate(self, node_ids: set[int]) -> None: ...


class Conflicts:
    """How often another scheduler was faster, since the start."""

    def __init__(self) -> None:
        self.claims_refused = 0
        self.decisions_repeated = 0

    def refused(self, claims: int) -> None:
        self.claims_refused += claims
        metrics.CLAIMS_REFUSED.inc(claims)

    def repeated(self, decisions: int) -> None:
        self.decisions_repeated += decisions
        metrics.DECISIONS_REPEATED.inc(decisions)


class ClaimLoop:
    """`decide` is the driver's own part: a pure choice of hosts from the table."""

    def __init__(self, db: Database, source: Source, decide: Decide) -> None:
        self._db = db
        self.source = source
        self.conflicts = Conflicts()
        self._decide = decide
        self._queue: BatchQueue[Request, ScheduleAnswer] = BatchQueue(self._serve, MAX_BATCH)

    def select_destinations(
        self, ctx: RequestContext, spec: RequestSpec, instance_uuids: tuple[str, ...], claim_no: int, alternates: int
    ) -> ScheduleAnswer:
        """See SchedulerApi."""
        return self._queue.ask(
            Request(
                request_id=ctx.request_id,
                spec=spec,
                instance_uuids=instance_uuids,
                claim_no=claim_no,
                alternates=alternates,
            )
        )

    def preview(self, request: Request) -> ScheduleAnswer:
        """What the answer would be now. Nothing is claimed, and the table forgets it at the next refresh."""
        return self.exclusive(lambda: schedule_answer(request, self._decided(request)))

    def what_if_table(self) -> WhatIfTable:
        """All that is known of the hosts now, for whoever needs longer than a decision takes."""
        return self.exclusive(lambda: WhatIfTable(self.source.refresh(liveness=True)))

    def exclusive(self, work: Callable[[], T]) -> T:
        """Do something with the table while nobody decides."""
        return self._queue.alone(work)

    def _serve(self, tickets: Sequence[Asked]) -> None:
        clashes: dict[Asked, Clashes] = {}
        if len(tickets) > 1:
            try:
                self._together(tickets, clashes)
            except Exception:
                # Whatever it is, it may be the error of one member: the others must not get it.
                LOG.warning("A batch of %d requests failed, each is decided alone", len(tickets), exc_info=True)
        self._each_alone([ticket for ticket in tickets if not ticket.done], clashes)

    def _each_alone(self, tickets: Sequence[Asked], clashes: Mapping[Asked, Clashes]) -> None:
        away: list[BaseException] = []
        for ticket in tickets:
            if len(away) >= AWAY_AFTER:
                ticket.served(away[-1])
                continue
            self._alone(ticket, clashes.get(ticket, ()))
            away = [*away, ticket.error] if isinstance(ticket.error, errors.ServiceUnavailable) else []

    def _together(self, tickets: Sequence[Asked], clashes: dict[Asked, Clashes]) -> None:
        """Serve those whose first decision stands; the others are left to be decided alone. Notes in `clashes` whose claims
        were refused, and where.
        """
        self.source.refresh()
        decided: list[tuple[Asked, Decision]] = []
        for ticket in tickets:
            try:
                decision = self._decide(self.source.table, ticket.asked)
            except Exception:
                LOG.debug("To be decided again alone", exc_info=True)
                continue
            if decision.error is None:
                decided.append((ticket, decision))
        while decided:
            try:
                claim_writes.write(self._db, [(ticket.asked, decision) for ticket, decision in decided])
            except ClaimsRefused as refused:
                self._invalidate(refused, [decision for _, decision in decided])
                of = {ticket: claim_writes.clashes(ticket.asked, decision, refused) for ticket, decision in decided}
                clashes.update({ticket: lost for ticket, lost in of.items() if lost})
                self.conflicts.repeated(sum(map(bool, of.values())))
                decided = [pair for pair in decided if not of[pair[0]]]
            except errors.StaleClaim:
                return
            else:
                for ticket, decision in decided:
                    ticket.served(schedule_answer(ticket.asked, decision))
                return

    def _alone(self, ticket: Asked, clashes: Clashes) -> None:
        try:
            ticket.served(self._decide_and_claim(ticket.asked, clashes))
        except Exception as error:  # noqa: BLE001  - whatever it is, its caller gets it
            ticket.served(error)

    def _decide_and_claim(self, request: Request, clashes: Clashes) -> ScheduleAnswer:
        """Decide and claim until the claim stands or no host is left, bounded. `clashes`: of claims refused before."""
        for attempt in range(ATTEMPTS):
            self.conflicts.repeated(1 if attempt else 0)
            decision = self._decided(request)
            if decision.error is not None:
                return schedule_answer(request, decision, clashes)
            try:
                claim_writes.write(self._db, [(request, decision)])
            except ClaimsRefused as refused:
                self._invalidate(refused, [decision])
                clashes += claim_writes.clashes(request, decision, refused)
                request = self._with_group_as_it_is(request)
            else:
                return schedule_answer(request, decision, clashes)
        LOG.warning("%s: %s", UNCLAIMED, "; ".join(clash.reason for clash in clashes))
        return unclaimed_answer(request, decision, clashes)

    def _decided(self, request: Request) -> Decision:
        decision = self._decide(self.source.refresh(), request)
        if decision.error is not None and not self.source.liveness_checked:
            # Before a "no": has a silent service come back since, or a change appeared late?
            decision = self._decide(self.source.refresh(liveness=True), request)
        return decision

    def _with_group_as_it_is(self, request: Request) -> Request:
        """Its group may have got members on hosts since the request was made: that may be why it was refused."""
        if request.spec.instance_group is None:
            return request
        with self._db.read() as session:
            group = server_groups.of_instance(session, request.instance_uuids[0])
        return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, instance_group=group))

    def _invalidate(self, refused: ClaimsRefused, decisions: Sequence[Decision]) -> None:
        """Another scheduler was faster: the rows of these hosts are read again, those of the refused at least."""
        LOG.info("Claims refused, deciding again: %s", "; ".join(refused.reasons.values()))
        self.conflicts.refused(len(refused.reasons))
        chosen = {selections[0].provider_uuid for decision in decisions for selections in decision.selections}
        self.source.invalidate({record.id for record in self.source.table.records if record.uuid in chosen})
