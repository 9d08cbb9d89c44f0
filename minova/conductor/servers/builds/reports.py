"""Reports of hosts on their builds.

The instance's own row has the attempt, so most reports are one conditional update (`attempt_reports.py`).
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors, metrics
from minova.conductor.servers import evacuations
from minova.conductor.servers.builds.attempt_reports import (
    CLAIM,
    PROGRESS,
    AttemptReport,
    answer_of,
    apply_all,
    claim_report,
    progress_report,
)
from minova.conductor.servers.builds.failed_attempts import FailedAttempts
from minova.conductor.servers.finish import announce_hosts
from minova.conductor.servers.server_images import forget_shelved_image
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.computes.builds import BuildReportsApi
from minova.db.hosts import compute_nodes
from minova.db.models import Instance
from minova.db.servers import actions, chosen_hardware, guest_secrets, instances, request_specs, tasks
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.servers import instance as objects
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.chosen_hardware import ChosenHardware
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import (
    VmState,
    is_being_built,
)
from minova.placement import changes


class BuildReports(BuildReportsApi):
    """`failures`: what becomes of attempts that have failed."""

    def __init__(self, worker: TaskWorker, failures: FailedAttempts) -> None:
        self._failures = failures
        self._worker = worker
        self._claims = GroupCommit(worker, self._claim)
        self._progress = GroupCommit(worker, self._write_progress)

    # -- while a build goes on -------------------------------------------------------------------------------------

    def claim_instance(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> objects.Instance:
        outcome = InstanceClaim(
            ctx=ctx,
            instance_uuid=instance_uuid,
            attempt=attempt,
            numa_topology=numa_topology,
            step=step,
        )
        return self._claims.run(claim_report(outcome, node))

    def claim_instances(
        self, ctx: RequestContext, claims: Sequence[InstanceClaim], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        outcomes = self._claims.run_all([claim_report(claim, node) for claim in claims])
        return tuple(answer_of(outcome) for outcome in outcomes)

    def begin_attempt(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        """Raises BadRequest if there is no such step."""
        outcome = BuildReport(ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, step=step)
        self._progress.run(progress_report(outcome, host))

    def build_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
        rebuilt: bool = False,
        hardware: ChosenHardware | None = None,
    ) -> None:
        """The instance becomes ACTIVE, and its task ends."""
        outcome = BuildReport(
            ctx=ctx,
            instance_uuid=instance_uuid,
            attempt=attempt,
            power_state=power_state,
            rebuilt=rebuilt,
            hardware=hardware,
        )
        count_active(self._progress.run(progress_report(outcome, host, (node,) if node is not None else ())))

    def report_builds(
        self,
        ctx: RequestContext,
        reports: Sequence[BuildReport],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        outcomes = self._progress.run_all([progress_report(report, host, nodes) for report in reports])
        count_active(sum(outcome is True for outcome in outcomes))
        return tuple(answer_of(outcome) for outcome in outcomes)

    def _claim(self, session: Session, reports: Sequence[AttemptReport]) -> list[objects.Instance]:
        at = self._worker.at()
        apply_all(session, CLAIM, reports, at)
        for report in reports:
            require_pinned(report.instance_uuid, report.host, report.values["b_numa_topology"])
        claimed = instances.by_uuids(session, [report.instance_uuid for report in reports])
        source_hosts = evacuations.claimed(session, claimed.values(), at, self._worker.now())
        self._write_nodes(session, reports, at)
        if source_hosts:
            announce_hosts(session, source_hosts, self._worker.now())
        return [claimed[report.instance_uuid] for report in reports]

    def _write_nodes(self, session: Session, reports: Sequence[AttemptReport], at: datetime) -> None:
        """Write the usage that comes with the reports. Of two reports of one node, the later one wins."""
        # A node without an id is not tracked, because its driver reports no resources. Reports that a host sent
        # together share a node.
        nodes = sorted(
            {id(node): node for report in reports for node in report.nodes if node.id}.values(),
            key=attrgetter("id", "write_number"),
        )
        written = [node.id for node in nodes if compute_nodes.write_usage(session, node, at)]
        changes.append(session, written, self._worker.now())

    def _write_progress(self, session: Session, reports: Sequence[AttemptReport]) -> list[bool]:
        """Returns for each report whether it has made its instance ACTIVE."""
        at = self._worker.at()
        try:
            apply_all(session, PROGRESS, reports, at)
        except errors.StaleAttempt:
            (only,) = reports
            if only.step is None and reported_before(session, only.instance_uuid, only.attempt, only.host):
                return [False]
            raise
        succeeded = [report.instance_uuid for report in reports if report.step is None]
        if succeeded:
            ended = tasks.end_builds(session, succeeded)
            shelved_images = {build.instance_uuid: build.image_id for build in ended if build.image_id is not None}
            for uuid, image_id in shelved_images.items():
                forget_shelved_image(session, uuid, image_id, at)
            if shelved_images:
                guest_secrets.remove_tpm_states(session, [*shelved_images])
                request_specs.remove(session, [build.reservation_id for build in ended if build.image_id is not None])
            rebuilt = [report.instance_uuid for report in reports if report.rebuilt]
            chosen = {report.instance_uuid: report.hardware for report in reports if report.hardware is not None}
            chosen_hardware.record(session, chosen, at)
            evacuated = [build for build in ended if build.evacuated]
            evacuations.arrived(session, evacuated, at, self._worker.now(), rebuilt=rebuilt)
            actions.end(session, [build.action_id for build in ended if build.action_id is not None], at)
            self._write_nodes(session, [report for report in reports if report.step is None], at)
        return [report.step is None for report in reports]

    def build_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        kind: str = "",
    ) -> None:
        self._failures.fail_attempt(ctx, instance_uuid, attempt, host, Failure(kind=kind, details=reason), retriable)


def reported_before(session: Session, instance_uuid: str, attempt: int, host: str) -> bool:
    """Returns whether this very attempt has succeeded already, whatever was done to the instance since."""
    model = Instance
    query = select(model.vm_state, model.attempt, model.host)
    row = session.execute(query.where(model.uuid == instance_uuid, model.deleted_at.is_(None))).one_or_none()
    if row is None or is_being_built(VmState(row.vm_state)):
        return False
    return bool((row.attempt, row.host) == (attempt, host))


def require_pinned(instance_uuid: str, host: str, topology: InstanceNUMATopology | None) -> None:
    """Raises ComputeResourcesUnavailable if the host has not pinned all dedicated CPUs of a guest that it claims.

    A host whose driver reports no cells, or no resources at all, claims every guest as requested, as in Nova. The
    scheduler does not choose it for pinned guests, but a host may lose its cells, or go back to an older release, while a
    build is on its way to it.
    """
    if topology is not None and topology.unpinned:
        raise errors.ComputeResourcesUnavailable(
            f"Insufficient compute resources: {host} has no host CPUs for {topology.unpinned} dedicated CPUs of instance"
            f" {instance_uuid}. Its hypervisor may report no NUMA cells."
        )


def count_active(succeeded: int) -> None:
    if succeeded:
        metrics.BUILDS.labels("active").inc(succeeded)
