"""What builds report of their steps and their success. Reports that wait behind a message go together in the next.

The reports of success bring the usage of their nodes with them.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minova import errors
from minova.batch_queue import BatchQueue, Ticket
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.node_writes import NodeWrite
from minova.compute.tracker.resource_tracker import ResourceTracker
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.build import BuildReport, refusal
from minova.objects.states import PowerState, TaskState

LOG = logging.getLogger(__name__)

# Reports in one message.
MOST_TOGETHER = 64

Writes = Mapping[ResourceTracker, NodeWrite | None]


class Report(msgspec.Struct, frozen=True, eq=False):
    """`tracker`: of the instance's node, of a success."""

    report: BuildReport
    tracker: ResourceTracker | None = None


class ReportQueue:
    """Of one host. Each method raises StaleAttempt if the attempt is no longer this host's, ServiceUnavailable if no
    conductor answers.
    """

    def __init__(self, host: str, conductor: ConductorApi, repeat: ConductorRetry | None = None) -> None:
        self._repeat = repeat or ConductorRetry()
        self._host = host
        self._conductor = conductor
        self._queue: BatchQueue[Report, None] = BatchQueue(self.send, MOST_TOGETHER)

    def begin(self, ctx: RequestContext, instance_uuid: str, attempt: int, step: TaskState) -> None:
        """The build begins a step."""
        self._queue.ask(Report(BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, step=step)))

    def succeed(
        self, ctx: RequestContext, instance_uuid: str, attempt: int, power_state: PowerState, tracker: ResourceTracker
    ) -> None:
        """The domain runs. Afterwards the tracker has it as active."""
        report = BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, power_state=int(power_state))
        self._queue.ask(Report(report, tracker))

    def send(self, tickets: Sequence[Ticket[Report, None]]) -> None:
        """Serve every ticket, in one message if there are several."""
        asked = [ticket.asked for ticket in tickets]
        active: dict[ResourceTracker, dict[str, PowerState]] = defaultdict(dict)
        for one in asked:
            if one.tracker is not None:
                active[one.tracker][one.report.instance_uuid] = PowerState(one.report.power_state)
        writes = {tracker: tracker.node_write(states) for tracker, states in active.items()}
        sent, refusals = self._sent(asked, writes)
        refused = {one.report.instance_uuid for one, error in zip(asked, refusals, strict=True) if error is not None}
        for tracker, states in active.items():
            done = {uuid: state for uuid, state in states.items() if uuid not in refused}
            tracker.succeeded(done, writes[tracker], written=sent and len(done) == len(states))
        for ticket, error in zip(tickets, refusals, strict=True):
            ticket.served(error)

    def _sent(self, asked: Sequence[Report], writes: Writes) -> tuple[bool, list[Exception | None]]:
        """Whether the nodes went with the reports, and for each report why it was not written, if it was not."""
        nodes = tuple(write.sent for write in writes.values() if write is not None)
        try:
            if len(asked) > 1:
                return True, self._together([one.report for one in asked], nodes)
            if nodes:
                return True, [self._alone(asked[0].report, nodes[0])]
        except errors.PeerTooOld as error:
            LOG.debug("Builds are reported one by one, without their nodes: %s", error)
        return False, [self._alone(one.report) for one in asked]

    def _together(self, reports: Sequence[BuildReport], nodes: tuple[Any, ...]) -> list[Exception | None]:
        try:
            answers = self._repeat(
                "report_builds",
                lambda: self._conductor.report_builds(
                    reports[0].ctx, reports=tuple(reports), host=self._host, nodes=nodes
                ),
            )
        except errors.PeerTooOld:
            raise
        except Exception as error:  # noqa: BLE001  - their callers get it
            return [error] * len(reports)
        return [refusal(answer) for answer in answers]

    def _alone(self, one: BuildReport, node: Any = None) -> Exception | None:
        which: dict[str, Any] = {"instance_uuid": one.instance_uuid, "attempt": one.attempt, "host": self._host}
        step, power_state = one.step, one.power_state
        try:
            if step is not None:
                self._repeat("begin_attempt", lambda: self._conductor.begin_attempt(one.ctx, **which, step=step))
            else:
                self._repeat(
                    "build_succeeded",
                    lambda: self._conductor.build_succeeded(one.ctx, **which, power_state=power_state, node=node),
                )
        except errors.PeerTooOld:
            raise
        except Exception as error:  # noqa: BLE001  - its caller gets it
            return error
        return None
