"""What builds report of their steps and their success. Reports that wait behind a message go together in the next."""

import logging
from collections.abc import Sequence
from typing import Any

from minova import errors
from minova.batch_queue import BatchQueue, Ticket
from minova.compute.conductor_retry import ConductorRetry
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.build import BuildReport, refusal
from minova.objects.states import PowerState, TaskState

LOG = logging.getLogger(__name__)

# Reports in one message.
MOST_TOGETHER = 64


class ReportQueue:
    """Of one host. Each method raises StaleAttempt if the attempt is no longer this host's, ServiceUnavailable if no
    conductor answers.
    """

    def __init__(self, host: str, conductor: ConductorApi, repeat: ConductorRetry | None = None) -> None:
        self._repeat = repeat or ConductorRetry()
        self._host = host
        self._conductor = conductor
        self._queue: BatchQueue[BuildReport, None] = BatchQueue(self.send, MOST_TOGETHER)

    def begin(self, ctx: RequestContext, instance_uuid: str, attempt: int, step: TaskState) -> None:
        """The build begins a step."""
        self._queue.ask(BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, step=step))

    def succeed(self, ctx: RequestContext, instance_uuid: str, attempt: int, power_state: PowerState) -> None:
        """The domain runs."""
        self._queue.ask(
            BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, power_state=int(power_state))
        )

    def send(self, tickets: Sequence[Ticket[BuildReport, None]]) -> None:
        """Serve every ticket, in one message if there are several."""
        try:
            if len(tickets) > 1:
                self._send_together(tickets)
                return
        except errors.PeerTooOld as error:
            LOG.debug("Builds are reported one by one: %s", error)
        for ticket in tickets:
            try:
                self._send_alone(ticket.asked)
                ticket.served(None)
            except Exception as error:  # noqa: BLE001  - its caller gets it
                ticket.served(error)

    def _send_together(self, tickets: Sequence[Ticket[BuildReport, None]]) -> None:
        reports = tuple(ticket.asked for ticket in tickets)
        answers = self._repeat(
            "report_builds",
            lambda: self._conductor.report_builds(reports[0].ctx, reports=reports, host=self._host),
        )
        for ticket, answer in zip(tickets, answers, strict=True):
            ticket.served(refusal(answer))

    def _send_alone(self, one: BuildReport) -> None:
        which: dict[str, Any] = {"instance_uuid": one.instance_uuid, "attempt": one.attempt, "host": self._host}
        step, power_state = one.step, one.power_state
        if step is not None:
            self._repeat("begin_attempt", lambda: self._conductor.begin_attempt(one.ctx, **which, step=step))
        else:
            self._repeat(
                "build_succeeded",
                lambda: self._conductor.build_succeeded(one.ctx, **which, power_state=power_state),
            )
