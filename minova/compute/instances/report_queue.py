"""Reports of builds about their steps and their success. Reports that wait while a message is sent go together in the
next.

Reports of success carry the usage of their nodes.
"""

import logging
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.tracker.node_writes import NodeWrite
from minova.compute.tracker.resource_tracker import ResourceTracker
from minova.concurrency.batch_queue import BatchQueue, QueuedRequest, serve_together
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.servers.build import BuildReport, refusal
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.states import PowerState, TaskState

LOG = logging.getLogger(__name__)

# The largest number of reports in one message.
MAX_TOGETHER = 64


class QueuedReport(msgspec.Struct, frozen=True, eq=False):
    """One report. A report of success has the `tracker` of the instance's node."""

    report: BuildReport
    tracker: ResourceTracker | None = None


class ReportQueue:
    """The reports of one host. `begin` and `succeed` raise StaleAttempt if the attempt no longer belongs to this host,
    ServiceUnavailable if no conductor answers.
    """

    def __init__(self, host: str, conductor: ConductorApi, repeat: ConductorRetry | None = None) -> None:
        self._repeat = repeat or ConductorRetry()
        self._host = host
        self._conductor = conductor
        self._queue: BatchQueue[QueuedReport, None] = BatchQueue(self.send, MAX_TOGETHER)

    def begin(self, ctx: RequestContext, instance_uuid: str, attempt: int, step: TaskState) -> None:
        """Report that the build begins a step."""
        self._queue.ask(QueuedReport(BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, step=step)))

    def succeed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        power_state: PowerState,
        tracker: ResourceTracker,
        *,
        rebuilt: bool = False,
        hardware: ChosenHardware | None = None,
    ) -> None:
        """Report that the domain runs. Afterwards the instance is active in the tracker. `rebuilt`, `hardware`: see `BuildReport`."""
        report = BuildReport(
            ctx=ctx,
            instance_uuid=instance_uuid,
            attempt=attempt,
            power_state=int(power_state),
            rebuilt=rebuilt,
            hardware=hardware,
        )
        self._queue.ask(QueuedReport(report, tracker))

    def send(self, queued: Sequence[QueuedRequest[QueuedReport, None]]) -> None:
        """Serve every request, in one message if there are several."""
        serve_together(queued, self._send_together, self._send_alone)

    def _send_together(self, queued: Sequence[QueuedRequest[QueuedReport, None]]) -> None:
        active: dict[ResourceTracker, dict[str, PowerState]] = defaultdict(dict)
        for entry in queued:
            if entry.request.tracker is not None:
                report = entry.request.report
                active[entry.request.tracker][report.instance_uuid] = PowerState(report.power_state)
        writes = {tracker: tracker.node_write(states) for tracker, states in active.items()}
        nodes = tuple(write.sent for write in writes.values() if write is not None)
        try:
            refusals = self._report_builds([entry.request.report for entry in queued], nodes)
        except errors.PeerTooOld as error:
            LOG.debug("Builds are reported one by one: %s", error)
            return
        refused = {
            entry.request.report.instance_uuid
            for entry, refused_with in zip(queued, refusals, strict=True)
            if refused_with is not None
        }
        for tracker, states in active.items():
            done = {uuid: state for uuid, state in states.items() if uuid not in refused}
            tracker.succeeded(done, writes[tracker], written=len(done) == len(states))
        for entry, refused_with in zip(queued, refusals, strict=True):
            entry.served(refused_with)

    def _report_builds(self, reports: Sequence[BuildReport], nodes: tuple[ComputeNode, ...]) -> list[Exception | None]:
        """Returns for each report the reason why it was not written, or None."""
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

    def _send_alone(self, request: QueuedReport) -> None:
        report, tracker = request.report, request.tracker
        if report.step is not None:
            step = report.step
            self._repeat(
                "begin_attempt",
                lambda: self._conductor.begin_attempt(
                    report.ctx,
                    instance_uuid=report.instance_uuid,
                    attempt=report.attempt,
                    host=self._host,
                    step=step,
                ),
            )
            return
        assert tracker is not None
        active = {report.instance_uuid: PowerState(report.power_state)}
        write = tracker.node_write(active)
        try:
            written = self._report_success(report, write)
        except Exception:
            tracker.succeeded({}, write, written=False)
            raise
        tracker.succeeded(active, write, written=written)

    def _report_success(self, report: BuildReport, write: NodeWrite | None) -> bool:
        """Report a success and return whether the node was sent with it: an older conductor accepts none, or no hardware."""

        def send(node: ComputeNode | None, hardware: ChosenHardware | None = None) -> None:
            self._repeat(
                "build_succeeded",
                lambda: self._conductor.build_succeeded(
                    report.ctx,
                    instance_uuid=report.instance_uuid,
                    attempt=report.attempt,
                    host=self._host,
                    power_state=report.power_state,
                    node=node,
                    rebuilt=report.rebuilt,
                    hardware=hardware,
                ),
            )

        node = None if write is None else write.sent
        for hardware in dict.fromkeys((report.hardware, None)):
            try:
                send(node, hardware)
            except errors.PeerTooOld as error:
                LOG.debug("Success is reported with less: %s", error)
            else:
                return node is not None
        send(None)
        return False
