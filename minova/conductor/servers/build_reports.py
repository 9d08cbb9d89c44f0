"""Reports of hosts on their builds. The fence is (instance uuid, attempt): a report on any other attempt is stale.

The instance's own row has the attempt, so most reports are one conditional update.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from minova import errors, metrics
from minova.conductor.compute_messages import Build, ComputeClient, build_plan_of, builds_of
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.notifications.instances import CREATE_ERROR, CREATE_START, note
from minova.conductor.servers import evacuations
from minova.conductor.servers.build import event_of, intent, retries
from minova.conductor.servers.finish import BUILDING, EVACUATING, UNSHELVING, announce_hosts, fail_builds
from minova.conductor.servers.server_images import forget_shelved_image
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.contracts.conductor.computes.builds import BuildReportsApi
from minova.db.hosts import compute_nodes
from minova.db.models import Instance, Task
from minova.db.servers import actions, instances, request_specs, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.requests import evacuation
from minova.objects.requests.request_spec import Selection
from minova.objects.servers import instance as objects
from minova.objects.servers.build import BuildReport, InstanceClaim, ReportAnswer
from minova.objects.servers.failures import CAUSED_BY_REQUEST, Failure, attempts_text
from minova.objects.servers.states import (
    BUILD_STEPS,
    EVACUABLE,
    State,
    TaskState,
    VmState,
    build_state,
    is_being_built,
    power_state_of,
)
from minova.placement import changes
from minova.placement.allocations import claims as allocations

LOG = logging.getLogger(__name__)
WAITS = "The host does not answer. The evacuation waits until it is back, or is forced down."
# Seconds between two looks at a host for which an evacuation waits.
AGAIN = 30.0

_MINE = (Instance.attempt == bindparam("b_attempt"), Instance.host == bindparam("b_host"))
_COMMITTED = (
    select(Task.id)
    .where(
        Task.instance_uuid == Instance.uuid,
        Task.step == "build",
        Task.attempt == bindparam("b_attempt"),
        Task.host == bindparam("b_host"),
        Task.node == bindparam("b_node"),
    )
    .exists()
)


# The vm_states of instances that hosts build.
_BUILT = (VmState.BUILDING, VmState.SHELVED_OFFLOADED, *EVACUABLE)
# A rebuild on its own host has the states of an evacuation: there is no build to report on.
_IS_BUILT = or_(
    # Not `in_`: its parameters cannot be used for several rows at once.
    Instance.vm_state == VmState.BUILDING.value,
    Instance.vm_state == VmState.SHELVED_OFFLOADED.value,
    select(Task.id)
    .where(Task.instance_uuid == Instance.uuid, Task.step == "build", Task.attempt == bindparam("b_attempt"))
    .exists(),
)


def _at(step: TaskState) -> dict[VmState, State]:
    """Returns, by the earlier vm_state, the state of an instance whose build is at this step."""
    return {vm_state: build_state(vm_state, step) for vm_state in _BUILT}


# By the step with which the build begins.
_CLAIM: dict[TaskState | None, instances.PreparedTransition] = {
    step: instances.PreparedTransition(
        (*BUILDING, *UNSHELVING, *EVACUATING),
        _at(step),
        Instance.attempt == bindparam("b_attempt"),
        _COMMITTED,
        host=bindparam("b_host"),
        node=bindparam("b_node"),
        numa_topology=bindparam("b_numa_topology"),
        updated_at=bindparam("b_at"),
    )
    for step in BUILD_STEPS
}
# Steps that a host may report.
BEGUN = (TaskState.SCHEDULING, *BUILD_STEPS)
# By the step that a report names; None: the build has succeeded.
_PROGRESS: dict[TaskState | None, instances.PreparedTransition] = {
    step: instances.PreparedTransition(
        (*BUILDING, *UNSHELVING, *EVACUATING), _at(step), *_MINE, _IS_BUILT, updated_at=bindparam("b_at")
    )
    for step in BEGUN
}
_PROGRESS[None] = instances.PreparedTransition(
    (*BUILDING, *UNSHELVING, *EVACUATING),
    dict.fromkeys(_BUILT, (VmState.ACTIVE, None)) | {VmState.STOPPED: (VmState.STOPPED, None)},
    *_MINE,
    _IS_BUILT,
    power_state=bindparam("b_power_state"),
    launched_at=bindparam("b_at"),
    updated_at=bindparam("b_at"),
)


class SomeReportsStale(Exception):
    """Some reports of a transaction are stale, so the whole transaction is rolled back."""

    def __str__(self) -> str:
        return "some of them are stale"


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """A host's report on one attempt. `row` returns the parameters of its transition's statement."""

    ctx: RequestContext
    instance_uuid: str
    attempt: int
    host: str
    step: TaskState | None = None
    nodes: tuple[ComputeNode, ...] = ()
    values: dict[str, Any] = {}
    rebuilt: bool = False

    def row(self, at: datetime) -> dict[str, Any]:
        return {
            "b_uuid": self.instance_uuid,
            "b_attempt": self.attempt,
            "b_host": self.host,
            "b_at": at,
            **self.values,
        }

    def stale(self) -> errors.StaleAttempt:
        return stale(self.instance_uuid, self.attempt, self.host)


class BuildReports(BuildReportsApi):
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        computes: ComputeClient,
        liveness: Liveness,
        hints: InterfaceNotifier,
    ) -> None:
        self._max_attempts = int(conf.scheduler.max_attempts)
        self._build_timeout = float(conf.conductor.build_timeout)
        self._worker = worker
        self._computes = computes
        self._liveness = liveness
        self._hints = hints
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
    ) -> None:
        """The instance becomes ACTIVE, and its task ends."""
        outcome = BuildReport(
            ctx=ctx, instance_uuid=instance_uuid, attempt=attempt, power_state=power_state, rebuilt=rebuilt
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
        apply_all(session, _CLAIM, reports, at)
        for report in reports:
            require_pinned(report.instance_uuid, report.host, report.values["b_numa_topology"])
        claimed = instances.by_uuids(session, [report.instance_uuid for report in reports])
        left = evacuations.claimed(session, claimed.values(), at, self._worker.now())
        self._write_nodes(session, reports, at)
        if left:
            announce_hosts(session, left, self._worker.now())
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
            apply_all(session, _PROGRESS, reports, at)
        except errors.StaleAttempt:
            (only,) = reports
            if only.step is None and reported_before(session, only.instance_uuid, only.attempt, only.host):
                return [False]
            raise
        succeeded = [report.instance_uuid for report in reports if report.step is None]
        if succeeded:
            unshelved = instances.unshelving(session, succeeded)
            for instance in unshelved:
                forget_shelved_image(session, instance.uuid, instance.image_id, at)
            if unshelved:
                request_specs.remove(session, [instance.reservation_id for instance in unshelved])
            rebuilt = [report.instance_uuid for report in reports if report.rebuilt]
            evacuations.arrived(session, succeeded, at, self._worker.now(), rebuilt=rebuilt)
            actions.end(session, tasks.remove(session, succeeded), at)
            self._write_nodes(session, [report for report in reports if report.step is None], at)
        return [report.step is None for report in reports]

    # -- after a build has failed ----------------------------------------------------------------------------------

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
        self.fail_attempt(ctx, instance_uuid, attempt, host, Failure(kind=kind, details=reason), retriable)

    def fail_attempt(
        self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, failure: Failure, retriable: bool
    ) -> None:
        """Start the build on the next alternate, or end it in ERROR. A stale report is ignored. A failure caused by the
        request itself is not retried.

        The host itself has reported the failure: it has nothing of the guest any more.
        """
        retriable = retriable and failure.kind not in CAUSED_BY_REQUEST
        down = self._liveness.down_hosts() if retriable else frozenset()
        builds = self._worker.run(
            lambda session: self._failed(session, instance_uuid, attempt, host, failure, retriable, down)
        )
        self._computes.build(ctx, builds)

    def give_up(
        self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, failure: Failure, retriable: bool
    ) -> None:
        """End the attempt of a host that is lost or slow, as `fail_attempt` does. An evacuation that this host has claimed
        waits for it until it is fenced: the guest may run there, and would run twice.
        """
        hosts = self._liveness.hosts()

        def work(session: Session) -> list[Build]:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
            may_run = (
                locked is not None
                and locked.evacuating
                and task is not None
                and (task.step, task.attempt, task.host) == ("build", attempt, host)
                and locked.host == host in hosts.known - hosts.fenced
            )
            if task is not None and may_run:
                return self._wait(session, task, is_present=host in hosts.present)
            return self._failed(session, instance_uuid, attempt, host, failure, retriable, hosts.down)

        self._computes.build(ctx, self._worker.run(work))

    def _wait(self, session: Session, task: Task, *, is_present: bool) -> list[Build]:
        """A host that is present is asked again. The record of the action says once that it waits for one that is not."""
        plan, down = build_plan_of(task), Failure(kind="HostDown", details=f"Host {task.host} is down", text=WAITS)
        waits, pause = ("", self._build_timeout) if is_present else (down.kind, AGAIN)
        if waits != plan.waits and task.action_id is not None:
            actions.explain_wait(session, task.action_id, None if is_present else down)
        changed = {"payload": msgspec.to_builtins(msgspec.structs.replace(plan, waits=waits))}
        tasks.change(session, [(task, changed)], pause, self._worker.now())
        return builds_of(session, [task]) if is_present else []

    def _failed(
        self,
        session: Session,
        instance_uuid: str,
        attempt: int,
        host: str,
        failure: Failure,
        retriable: bool,
        down: frozenset[str],
    ) -> list[Build]:
        reason = failure.details
        locked_instances = instances.lock(session, [instance_uuid])
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if task is not None and follows(task, locked_instances[instance_uuid], attempt, host):
            return builds_of(session, [task])
        if task is None or (task.step, task.attempt, task.host) != ("build", attempt, host):
            LOG.info("Attempt %d of instance %s on %s is not open: %s", attempt, instance_uuid, host, reason)
            return []
        LOG.warning("Attempt %d of instance %s on %s failed: %s", attempt, instance_uuid, host, reason)
        if event_of(locked_instances[instance_uuid]) == actions.BUILD_EVENT:
            note(session, CREATE_ERROR, [instance_uuid], host, "RescheduledException", reason)
        at, now = self._worker.at(), self._worker.now()
        if task.action_id is not None:
            actions.end_events(session, [task.action_id], at, error=failure)
            if build_plan_of(task).waits:
                actions.explain_wait(session, task.action_id, None)
        if retriable and tries_of(task) < self._max_attempts:
            builds = self._next(session, locked_instances[instance_uuid], task, down)
            if builds:
                return builds
        verdict = self._verdict(session, task, failure, retriable)
        fail_builds(session, locked_instances, [task], verdict, at, now, self._hints)
        return []

    def _next(self, session: Session, locked: LockedInstance, task: Task, down: frozenset[str]) -> list[Build]:
        """Move allocation and intent to the first alternate that is alive and has room. Returns [] if there is none."""
        plan = build_plan_of(task)
        left = [alternate for alternate in plan.alternates if alternate.host not in down]
        claim_number = task.claim_number + 1
        while left and not self._claimed(session, locked, left[0], claim_number):
            left.pop(0)
        if not left:
            return []
        at, now = self._worker.at(), self._worker.now()
        tried = (*plan.tried, (task.host or "", task.node or ""))
        wanted = intent(left, task.attempt + 1, tried)
        # The conductor that writes the intent becomes the task's owner.
        own = {"claim_number": claim_number, "worker_id": self._worker.id, "epoch": task.epoch + 1}
        announce_hosts(session, [locked.host], now)
        tasks.change(session, [(task, wanted | own)], self._build_timeout, now)
        event = event_of(locked)
        place: dict[str, Any] = {"host": None, "node": None}
        if event == actions.BUILD_EVENT:
            note(session, CREATE_START, [locked.uuid], left[0].host)
        elif event == evacuation.EVENT:
            source = evacuations.back_to_source(session, locked, at, now).source
            place = {"host": source.host, "node": source.node}
            evacuations.chosen(session, {locked.uuid: left[0]}, {locked.uuid: task.attempt}, at, now)
        instances.transition(
            session,
            [locked.uuid],
            [locked.state],
            build_state(locked.state[0], TaskState.SCHEDULING),
            attempt=task.attempt,
            updated_at=at,
            **place,
        )
        if task.action_id is not None:
            begun = {"action_id": task.action_id, "host": task.host, "start_time": at}
            actions.begin_events(session, [begun], event=event)
        return builds_of(session, [task])

    def _claimed(self, session: Session, locked: LockedInstance, where: Selection, claim_number: int) -> bool:
        wanted = allocations.Claim(
            consumer_uuid=locked.uuid,
            claim_number=claim_number,
            provider_uuid=where.provider_uuid,
            resources=where.allocation,
            project_id=locked.project_id,
            user_id=locked.user_id,
        )
        refused = allocations.claim(session, [wanted], self._worker.now())
        if refused:
            LOG.info("Alternate %s of instance %s is full: %s", where.host, locked.uuid, refused[locked.uuid])
        return not refused

    def _verdict(self, session: Session, task: Task, failure: Failure, retriable: bool) -> Failure:
        """Returns the final failure, which distinguishes too many attempts, no host left, and a build that is not
        retried.
        """
        tried = actions.failed_attempts(session, task.action_id) if task.action_id is not None else []
        history = "; ".join(f"{one.host}: {one.reason}" for one in tried) or f"{task.host}: {failure.details}"
        reasons = attempts_text([one.kind for one in tried] or [failure.kind])
        if not retriable:
            return Failure(kind="BuildAbortException", details=history, text=reasons)
        spec, _ = request_specs.load(session, [task.reservation_id])[task.reservation_id]
        if not retries(spec, self._max_attempts):
            # No limit was exceeded, because only one attempt was allowed.
            return Failure(kind="RescheduledException", details=history, text=reasons)
        tries = tries_of(task)
        count = f"Build failed in {tries} attempt{'' if tries == 1 else 's'}"
        kind, verdict = "NoValidHost", f"No valid host was found. {count}, and no alternate is left."
        if tries >= self._max_attempts:
            kind, verdict = "MaxRetriesExceeded", f"Exceeded maximum number of retries. {count}."
        return Failure(kind=kind, details=f"{verdict} {history}", text=f"{verdict} {reasons}")


def tries_of(task: Task) -> int:
    """Returns how many hosts have tried this request. `attempt` is no such number, because it counts through the
    instance's life.
    """
    return len(build_plan_of(task).tried) + 1


def follows(task: Task, locked: LockedInstance, attempt: int, host: str) -> bool:
    """Returns whether this failure was already handled and the host of the next attempt has not claimed it. If the
    connection broke at the commit, that host got no message.
    """
    if (task.step, task.attempt) != ("build", attempt + 1) or locked.host == task.host:
        return False
    tried = build_plan_of(task).tried
    return bool(tried) and tried[-1][0] == host


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


def claim_report(claim: InstanceClaim, node: ComputeNode) -> AttemptReport:
    """Raises BadRequest if there is no such step."""
    step = step_of("claim_instance", claim.step or TaskState.BLOCK_DEVICE_MAPPING, BUILD_STEPS)
    return AttemptReport(
        # A host names no message of others, which would count as executed.
        ctx=msgspec.structs.replace(claim.ctx, message=None),
        instance_uuid=claim.instance_uuid,
        attempt=claim.attempt,
        host=node.host,
        step=step,
        nodes=(node,),
        values={"b_node": node.hypervisor_hostname, "b_numa_topology": claim.numa_topology},
    )


def progress_report(report: BuildReport, host: str, nodes: tuple[ComputeNode, ...] = ()) -> AttemptReport:
    """Raises BadRequest if there is no such step."""
    step = step_of("begin_attempt", report.step, BEGUN) if report.step is not None else None
    values = {"b_power_state": int(power_state_of(report.power_state))} if step is None else {}
    return AttemptReport(
        ctx=msgspec.structs.replace(report.ctx, message=None),
        instance_uuid=report.instance_uuid,
        attempt=report.attempt,
        host=host,
        step=step,
        nodes=nodes if step is None else (),
        values=values,
        rebuilt=report.rebuilt,
    )


def count_active(succeeded: int) -> None:
    if succeeded:
        metrics.BUILDS.labels("active").inc(succeeded)


def answer_of(outcome: object) -> ReportAnswer:
    """Returns the answer to a host for one of several reports."""
    if isinstance(outcome, objects.Instance):
        return ReportAnswer(instance=outcome)
    if isinstance(outcome, errors.StaleAttempt):
        return ReportAnswer(stale=str(outcome))
    if isinstance(outcome, errors.ComputeResourcesUnavailable):
        return ReportAnswer(misfit=str(outcome))
    if isinstance(outcome, Exception):
        if not isinstance(outcome, errors.MinovaError):
            LOG.error("A report could not be written", exc_info=outcome)
        return ReportAnswer(error=str(outcome) or type(outcome).__name__)
    return ReportAnswer()


def step_of(method: str, step: str, known: Collection[TaskState]) -> TaskState:
    """Raises BadRequest if `step` is not in `known`."""
    build_step = next((candidate for candidate in known if candidate.value == step), None)
    if build_step is None:
        raise errors.BadRequest(f"{method}: there is no step {step!r}")
    return build_step


def apply_all(
    session: Session,
    transitions: Mapping[Any, instances.PreparedTransition],
    reports: Sequence[AttemptReport],
    at: datetime,
) -> None:
    """Apply each report's transition, by its step. Raises StaleAttempt if the only report is stale, SomeReportsStale if one of
    several is.
    """
    by_step: dict[Any, list[AttemptReport]] = defaultdict(list)
    for report in sorted(reports, key=lambda one: one.instance_uuid):
        by_step[report.step].append(report)
    moved = sum(transitions[step].apply(session, [report.row(at) for report in some]) for step, some in by_step.items())
    if moved != len(reports):
        raise reports[0].stale() if len(reports) == 1 else SomeReportsStale


def stale(instance_uuid: str, attempt: int, host: str) -> errors.StaleAttempt:
    return errors.StaleAttempt(f"Attempt {attempt} of instance {instance_uuid} is not of host {host} any more")
