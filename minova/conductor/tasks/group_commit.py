"""One transaction for reports that arrive at the same time: a commit and its statements cost as much for fifty as for one."""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from sqlalchemy.orm import Session

from minova import errors
from minova.batch_queue import BatchQueue, Ticket
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.log import bound_request

LOG = logging.getLogger(__name__)


class Report(Protocol):
    """What a host says. `ctx` is of the request that it belongs to."""

    @property
    def ctx(self) -> RequestContext: ...


R = TypeVar("R", bound=Report)
A = TypeVar("A")

# More in one transaction would make the first wait for the last.
MOST_TOGETHER = 64


class GroupCommit(Generic[R, A]):
    """`write` gets one or more reports and answers one value for each, in their order.

    It raises if it cannot write any one of them. Each is then written in a transaction of its own, so that a report
    never fails its neighbours.
    """

    def __init__(self, worker: Worker, write: Callable[[Session, Sequence[R]], Sequence[A]]) -> None:
        self._worker = worker
        self._write = write
        # A notification carries the id of its report's request, so notified reports are written one by one.
        self._together = not worker.observed
        self._queue: BatchQueue[R, A] = BatchQueue(self._serve, MOST_TOGETHER if self._together else 1)

    def run(self, report: R) -> A:
        """Raises what `write` raises for this report alone. ServiceUnavailable: the database is away."""
        return self._queue.ask(report)

    def run_all(self, reports: Sequence[R]) -> list[A | Exception]:
        """Answer or error of each report of one caller, in their order. ServiceUnavailable: the database is away."""
        outcomes = self._queue.ask_all(reports)
        for outcome in outcomes:
            if isinstance(outcome, errors.ServiceUnavailable):
                raise outcome
        return outcomes

    def _serve(self, tickets: Sequence[Ticket[R, A]]) -> None:
        if len(tickets) > 1 and self._together and self._serve_together(tickets):
            return
        for ticket in tickets:
            try:
                with bound_request(ticket.asked.ctx):
                    (answer,) = self._answers([ticket])
                ticket.served(answer)
            except errors.ServiceUnavailable:
                raise
            except Exception as error:  # noqa: BLE001  - its caller gets it
                ticket.served(error)

    def _serve_together(self, tickets: Sequence[Ticket[R, A]]) -> bool:
        """Whether all have their answer now."""
        try:
            answers = self._answers(tickets)
        except errors.ServiceUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  - the one report that caused it meets it again alone
            LOG.info("%d reports are written one by one: %s: %s", len(tickets), type(error).__name__, error)
            return False
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.served(answer)
        return True

    def _answers(self, tickets: Sequence[Ticket[R, A]]) -> Sequence[A]:
        reports = [ticket.asked for ticket in tickets]
        return self._worker.run(lambda session: self._write(session, reports))
