"""One transaction for reports that arrive at the same time: a commit and its statements cost as much for fifty as for one."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

from minova import errors
from minova.batch_queue import BatchQueue, Ticket
from minova.conductor.worker import Worker

R = TypeVar("R")
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
        # A notification carries the request id of its own report, which only that report's thread knows.
        self._queue: BatchQueue[R, A] = BatchQueue(self._serve, 1 if worker.observed else MOST_TOGETHER)

    def run(self, report: R) -> A:
        """Raises what `write` raises for this report alone. ServiceUnavailable: the database is away."""
        return self._queue.ask(report)

    def _serve(self, tickets: Sequence[Ticket[R, A]]) -> None:
        if len(tickets) > 1 and self._serve_together(tickets):
            return
        for ticket in tickets:
            try:
                ticket.served(self._answers([ticket])[0])
            except Exception as error:  # noqa: BLE001  - its caller gets it
                ticket.served(error)

    def _serve_together(self, tickets: Sequence[Ticket[R, A]]) -> bool:
        """Whether all have their answer now."""
        try:
            answers = self._answers(tickets)
        except errors.ServiceUnavailable:
            raise
        except Exception:  # noqa: BLE001  - the one report that caused it meets it again alone
            return False
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.served(answer)
        return True

    def _answers(self, tickets: Sequence[Ticket[R, A]]) -> Sequence[A]:
        reports = [ticket.asked for ticket in tickets]
        return self._worker.run(lambda session: self._write(session, reports))
