"""One transaction for reports that arrive at the same time: commit and statements cost as much for fifty reports as for
one.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from sqlalchemy.orm import Session

from minova import errors
from minova.concurrency.batch_queue import BatchQueue, QueuedRequest, serve_together
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.log import bound_request

LOG = logging.getLogger(__name__)


class Report(Protocol):
    """A report to write. `ctx` belongs to the report's request."""

    @property
    def ctx(self) -> RequestContext: ...


R = TypeVar("R", bound=Report)
A = TypeVar("A")

# With more in one transaction, the first would wait too long for the last.
MAX_TOGETHER = 64


class GroupCommit(Generic[R, A]):
    """`write` gets one or more reports and returns one value for each, in their order.

    It raises if it cannot write any one of them. Each is then written in a transaction of its own, so that a report
    never fails the others.
    """

    def __init__(self, worker: TaskWorker, write: Callable[[Session, Sequence[R]], Sequence[A]]) -> None:
        self._worker = worker
        self._write = write
        # A notification carries the id of its report's request, so notified reports are written one by one.
        limit = 1 if worker.observed else MAX_TOGETHER
        self._queue: BatchQueue[R, A] = BatchQueue(self._serve, limit)

    def run(self, report: R) -> A:
        """Raises what `write` raises for this report alone. Raises ServiceUnavailable if the database is away."""
        return self._queue.ask(report)

    def run_all(self, reports: Sequence[R]) -> list[A | Exception]:
        """Returns the answer or error of each report of one caller, in their order. Raises ServiceUnavailable if the
        database is away.
        """
        outcomes = self._queue.ask_all(reports)
        for outcome in outcomes:
            if isinstance(outcome, errors.ServiceUnavailable):
                raise outcome
        return outcomes

    def _serve(self, queued: Sequence[QueuedRequest[R, A]]) -> None:
        serve_together(queued, self._write_together, self._write_alone, stop_at=(errors.ServiceUnavailable,))

    def _write_together(self, queued: Sequence[QueuedRequest[R, A]]) -> None:
        try:
            answers = self._answers([entry.request for entry in queued])
        except errors.ServiceUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  - the one report that caused it meets it again alone
            LOG.info("%d reports are written one by one: %s: %s", len(queued), type(error).__name__, error)
            return
        for entry, answer in zip(queued, answers, strict=True):
            entry.served(answer)

    def _write_alone(self, report: R) -> A:
        with bound_request(report.ctx):
            (answer,) = self._answers([report])
        return answer

    def _answers(self, reports: Sequence[R]) -> Sequence[A]:
        return self._worker.run(lambda session: self._write(session, reports))
