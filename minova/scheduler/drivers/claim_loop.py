"""The loop that all drivers share: refresh the table, decide, claim the allocations, and repeat if a claim is refused.

Waiting requests are served as one batch: one refresh, N decisions, one transaction. If a request fails in a batch, it
is decided again alone, so it never makes the others fail.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from minova import errors, metrics
from minova.concurrency.batch_queue import BatchQueue, QueuedRequest
from minova.db.catalogue import server_groups
from minova.db.engine import Database
from minova.objects.requests.diagnosis import LostHost, ScheduleAnswer
from minova.scheduler.decide.decision import Decision
from minova.scheduler.decide.what_if_table import WhatIfTable
from minova.scheduler.drivers import claim_writes
from minova.scheduler.drivers.claim_writes import ClaimsRefused
from minova.scheduler.drivers.request import UNCLAIMED, Request, schedule_answer, unclaimed_answer
from minova.scheduler.hosts.table import HostTable

LOG = logging.getLogger(__name__)

# The most requests in a batch: with more, the first request would wait long for the last.
MAX_BATCH = 64
# The most decisions for one request: after each clash the hosts that another scheduler has just filled are re-read.
ATTEMPTS = 10
# If the database is unavailable for so many requests in a row, the other requests of the batch fail without waiting for
# it.
MAX_UNAVAILABLE = 2

_Queued = QueuedRequest[Request, ScheduleAnswer]
Clashes = tuple[LostHost, ...]
T = TypeVar("T")
Decide = Callable[[HostTable, Request], Decision]


class Source(Protocol):
    """Refreshes the table: for each request (HostSource), or periodically (CachedSource)."""

    table: HostTable

    @property
    def liveness_checked(self) -> bool:
        """Whether the last refresh checked for silent services and for changes that were committed late."""
        ...

    def refresh(self, *, liveness: bool = False) -> HostTable: ...

    def invalidate(self, node_ids: set[int]) -> None: ...


class Conflicts:
    """Counts how often another scheduler claimed first, since the start."""

    def __init__(self) -> None:
        self.claims_refused = 0
        self.decisions_repeated = 0

    def refused(self, claims: int) -> None:
        self.claims_refused += claims
        metrics.CLAIMS_REFUSED.inc(claims)

    def repeated(self, decisions: int) -> None:
        self.decisions_repeated += decisions
        metrics.DECISIONS_REPEATED.inc(decisions)


def _first_deliveries(queued: Sequence[_Queued]) -> list[_Queued]:
    """Leaves out requests for instances that an earlier request of the batch is for: one claim per consumer."""
    first: list[_Queued] = []
    seen_uuids: set[str] = set()
    for entry in queued:
        if seen_uuids.isdisjoint(entry.request.instance_uuids):
            first.append(entry)
            seen_uuids.update(entry.request.instance_uuids)
    return first


class ClaimLoop:
    """`decide` is the driver's part: a pure choice of hosts from the table.

    Callers put their requests into `queue`, which returns the answers.
    """

    def __init__(self, db: Database, source: Source, decide: Decide) -> None:
        self.source = source
        self.conflicts = Conflicts()
        self.queue: BatchQueue[Request, ScheduleAnswer] = BatchQueue(self._serve, MAX_BATCH)
        self._db = db
        self._decide = decide

    def preview(self, request: Request) -> ScheduleAnswer:
        """Returns the answer that a request would get now. Claims nothing; the next refresh undoes its changes of the
        table.
        """
        return self.exclusive(lambda: schedule_answer(request, self._decide_request(request)))

    def what_if_table(self) -> WhatIfTable:
        """Returns a copy of the refreshed table, for work that takes longer than a decision."""
        return self.exclusive(lambda: WhatIfTable(self.source.refresh(liveness=True)))

    def exclusive(self, work: Callable[[], T]) -> T:
        """Runs `work` on the table while no request is decided."""
        return self.queue.run_alone(work)

    def _serve(self, queued: Sequence[_Queued]) -> None:
        clashes: dict[_Queued, Clashes] = {}
        if len(queued) > 1:
            try:
                self._serve_batch(queued, clashes)
            except Exception:
                # The error may concern only one request: the others must not get it.
                LOG.warning("A batch of %d requests failed, each is decided alone", len(queued), exc_info=True)
        unavailable: list[Exception] = []
        for entry in queued:
            if entry.done:
                continue
            if len(unavailable) >= MAX_UNAVAILABLE:
                entry.served(unavailable[-1])
                continue
            try:
                entry.served(self._decide_and_claim(entry.request, clashes.get(entry, ())))
                unavailable = []
            except Exception as error:  # noqa: BLE001  - its caller gets it, whatever it is
                entry.served(error)
                unavailable = [*unavailable, error] if isinstance(error, errors.ServiceUnavailable) else []

    def _serve_batch(
        self,
        queued: Sequence[_Queued],
        clashes: dict[_Queued, Clashes],
    ) -> None:
        """Serves the requests whose first decision can be claimed. The other requests are left to be decided alone.

        Adds to `clashes` the refused claims.
        """
        table = self.source.refresh()
        decided: list[tuple[_Queued, Decision]] = []
        answers: dict[_Queued, ScheduleAnswer] = {}
        for entry in _first_deliveries(queued):
            try:
                decision = self._decide(table, entry.request)
                # Made before the claim: what is claimed can be answered, and need not be decided again.
                answers[entry] = schedule_answer(entry.request, decision)
            except Exception:
                LOG.debug("To be decided again alone", exc_info=True)
                continue
            if decision.error is None:
                decided.append((entry, decision))
        while decided:
            try:
                claim_writes.write(self._db, [(entry.request, decision) for entry, decision in decided])
            except ClaimsRefused as refused:
                self._invalidate(refused, [decision for _, decision in decided])
                of = {entry: claim_writes.clashes(entry.request, decision, refused) for entry, decision in decided}
                clashes.update({entry: lost for entry, lost in of.items() if lost})
                self.conflicts.repeated(sum(map(bool, of.values())))
                decided = [pair for pair in decided if not of[pair[0]]]
            except errors.StaleClaim:
                return
            else:
                for entry, _ in decided:
                    entry.served(answers[entry])
                return

    def _decide_and_claim(self, request: Request, clashes: Clashes) -> ScheduleAnswer:
        """Decides and claims, at most ATTEMPTS times, until a claim succeeds or no host is left. Raises StaleClaim if
        the request has been decided already.

        `clashes`: refused claims of earlier attempts of this request.
        """
        for attempt in range(ATTEMPTS):
            self.conflicts.repeated(1 if attempt else 0)
            decision = self._decide_request(request)
            answer = schedule_answer(request, decision, clashes)
            if decision.error is not None:
                # A second delivery of the request sees the room that the first one has taken: it must not answer "no".
                claim_writes.require_unclaimed(self._db, request)
                return answer
            try:
                claim_writes.write(self._db, [(request, decision)])
            except ClaimsRefused as refused:
                self._invalidate(refused, [decision])
                clashes += claim_writes.clashes(request, decision, refused)
                request = msgspec.structs.replace(self._with_current_group(request), lost_claims=attempt + 1)
            else:
                return answer
        LOG.warning("%s: %s", UNCLAIMED, "; ".join(clash.reason for clash in clashes))
        return unclaimed_answer(request, decision, clashes)

    def _decide_request(self, request: Request) -> Decision:
        decision = self._decide(self.source.refresh(), request)
        if decision.error is not None and not self.source.liveness_checked:
            # Before rejecting the request: a silent service may have come back since, or a late change may have
            # appeared.
            decision = self._decide(self.source.refresh(liveness=True), request)
        return decision

    def _with_current_group(self, request: Request) -> Request:
        """The claim may have been refused because the group has got new members since the request was made."""
        if request.spec.instance_group is None:
            return request
        with self._db.read() as session:
            group = server_groups.of_instance(session, request.instance_uuids[0])
        return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, instance_group=group))

    def _invalidate(self, refused: ClaimsRefused, decisions: Sequence[Decision]) -> None:
        """Another scheduler claimed first: the next refresh re-reads the hosts of these decisions."""
        LOG.info("Claims refused, deciding again: %s", "; ".join(refused.reasons.values()))
        self.conflicts.refused(len(refused.reasons))
        chosen = {selections[0].provider_uuid for decision in decisions for selections in decision.selections}
        self.source.invalidate({record.id for record in self.source.table.records if record.uuid in chosen})
