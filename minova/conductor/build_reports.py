"""What hosts report of their builds. The fence is (instance uuid, attempt): a report of any other is stale.

The instance's own row carries the attempt, so most reports are one conditional update.
"""

import logging

from oslo_config import cfg
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors, metrics
from minova.conductor.build_instances import intent, retries
from minova.conductor.casts import Build, Casts, builds_of, choice_of
from minova.conductor.endings import BUILDING, announce_hosts, fail_builds
from minova.conductor.liveness import Liveness
from minova.conductor.notifications import CREATE_ERROR, CREATE_START, note
from minova.conductor.worker import Worker
from minova.context import RequestContext
from minova.db import actions, compute_nodes, instances, request_specs, tasks
from minova.db.instances import Standing
from minova.db.models import Instance, Task
from minova.objects import instance as objects
from minova.objects.compute_node import ComputeNode
from minova.objects.numa import InstanceNUMATopology
from minova.objects.request_spec import Selection
from minova.objects.states import PowerState, TaskState, VmState
from minova.placement import allocations, changes

LOG = logging.getLogger(__name__)


class BuildReports:
    def __init__(self, conf: cfg.ConfigOpts, worker: Worker, casts: Casts, liveness: Liveness) -> None:
        self._max_attempts = int(conf.scheduler.max_attempts)
        self._build_timeout = float(conf.conductor.build_timeout)
        self._worker = worker
        self._casts = casts
        self._liveness = liveness

    # -- while it goes on ------------------------------------------------------------------------------------------

    def claim_instance(
        self, instance_uuid: str, attempt: int, node: ComputeNode, numa_topology: InstanceNUMATopology | None
    ) -> objects.Instance:
        """Place and topology to the instance, usage to the node's row, at once. StaleAttempt: see the contract."""

        def work(session: Session) -> objects.Instance:
            at = self._worker.at()
            committed = select(Task.id).where(
                Task.instance_uuid == instance_uuid,
                Task.step == "build",
                Task.attempt == attempt,
                Task.host == node.host,
                Task.node == node.hypervisor_hostname,
            )
            moved = instances.move(
                session,
                [instance_uuid],
                BUILDING,
                (VmState.BUILDING, TaskState.BLOCK_DEVICE_MAPPING),
                Instance.attempt == attempt,
                committed.exists(),
                host=node.host,
                node=node.hypervisor_hostname,
                numa_topology=numa_topology,
                updated_at=at,
            )
            if not moved:
                raise stale(instance_uuid, attempt, node.host)
            # Without an id the node is not tracked: its driver reports no resources.
            if node.id and compute_nodes.write_usage(session, node, at):
                changes.append(session, [node.id], self._worker.now())
            (claimed,) = instances.load(session, Instance.uuid == instance_uuid)
            return claimed

        return self._worker.run(work)

    def begin_attempt(self, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        """Note the step. StaleAttempt: the attempt is no longer that host's. BadRequest: there is no such step."""
        try:
            state = (VmState.BUILDING, TaskState(step))
        except ValueError:
            raise errors.BadRequest(f"begin_attempt: there is no step {step!r}") from None

        def work(session: Session) -> int:
            mine = (Instance.attempt == attempt, Instance.host == host)
            at = self._worker.at()
            return instances.move(session, [instance_uuid], BUILDING, state, *mine, updated_at=at)

        if state not in BUILDING:
            raise errors.BadRequest(f"begin_attempt: {step!r} is no step of a build")
        if not self._worker.run(work):
            raise stale(instance_uuid, attempt, host)

    def build_succeeded(self, instance_uuid: str, attempt: int, host: str, power_state: int) -> None:
        """ACTIVE, and the task has ended. Said twice, it is heard once."""

        def work(session: Session) -> bool:
            at = self._worker.at()
            moved = instances.move(
                session,
                [instance_uuid],
                BUILDING,
                (VmState.ACTIVE, None),
                Instance.attempt == attempt,
                Instance.host == host,
                power_state=int(PowerState(power_state)),
                launched_at=at,
                updated_at=at,
            )
            if not moved:
                if heard_before(session, instance_uuid, attempt, host):
                    return False
                raise stale(instance_uuid, attempt, host)
            actions.end(session, actions.of_task(instance_uuid), at)
            tasks.remove(session, [instance_uuid])
            return True

        if self._worker.run(work):
            metrics.BUILDS.labels("active").inc()

    # -- when it has failed ----------------------------------------------------------------------------------------

    def build_failed(
        self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, reason: str, retriable: bool
    ) -> None:
        """To the next alternate, or to ERROR. A stale report is ignored.

        Reports of hosts and what the conductor itself notices of a dead or slow host come here alike.
        """
        down = self._liveness.down_hosts() if retriable else frozenset()
        builds = self._worker.run(
            lambda session: self._failed(session, instance_uuid, attempt, host, reason, retriable, down)
        )
        self._casts.build(ctx, builds)

    def _failed(
        self,
        session: Session,
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        down: frozenset[str],
    ) -> list[Build]:
        standings = instances.lock(session, [instance_uuid])
        task = tasks.lock(session, [instance_uuid]).get(instance_uuid)
        if task is None or (task.step, task.attempt, task.host) != ("build", attempt, host):
            LOG.info("Attempt %d of instance %s on %s is not open: %s", attempt, instance_uuid, host, reason)
            return []
        LOG.warning("Attempt %d of instance %s on %s failed: %s", attempt, instance_uuid, host, reason)
        note(session, CREATE_ERROR, [instance_uuid], host, "RescheduledException", reason)
        at, now = self._worker.at(), self._worker.now()
        if task.action_id is not None:
            actions.end_events(session, [task.action_id], at, error=reason)
        if retriable and attempt < self._max_attempts:
            builds = self._next(session, standings[instance_uuid], task, down)
            if builds:
                return builds
        kind, message = self._verdict(session, task, reason, retriable)
        fail_builds(session, standings, [task], kind, message, at, now)
        return []

    def _next(self, session: Session, standing: Standing, task: Task, down: frozenset[str]) -> list[Build]:
        """Move allocation and intent to the first alternate that is alive and has room; none: []."""
        choice = choice_of(task)
        left = [one for one in choice.alternates if one.host not in down]
        claim_no = task.claim_no + 1
        while left and not self._claimed(session, standing, left[0], claim_no):
            left.pop(0)
        if not left:
            return []
        at, now = self._worker.at(), self._worker.now()
        tried = (*choice.tried, (task.host or "", task.node or ""))
        wanted = intent(left, task.attempt + 1, tried)
        # Whoever writes the intent looks after it from now on.
        own = {"claim_no": claim_no, "worker_id": self._worker.id, "epoch": task.epoch + 1}
        announce_hosts(session, [standing.host], now)
        tasks.change(session, [(task, wanted | own)], self._build_timeout, now)
        note(session, CREATE_START, [standing.uuid], left[0].host)
        instances.move(
            session,
            [standing.uuid],
            BUILDING,
            (VmState.BUILDING, TaskState.SCHEDULING),
            host=None,
            node=None,
            attempt=task.attempt,
            updated_at=at,
        )
        if task.action_id is not None:
            actions.begin_events(session, [{"action_id": task.action_id, "host": task.host, "start_time": at}])
        return builds_of(session, [task])

    def _claimed(self, session: Session, standing: Standing, where: Selection, claim_no: int) -> bool:
        wanted = allocations.Claim(
            consumer_uuid=standing.uuid,
            claim_no=claim_no,
            provider_uuid=where.provider_uuid,
            resources=where.allocation,
            project_id=standing.project_id,
            user_id=standing.user_id,
        )
        refused = allocations.claim(session, [wanted], self._worker.now())
        if refused:
            LOG.info("Alternate %s of instance %s is full: %s", where.host, standing.uuid, refused[standing.uuid])
        return not refused

    def _verdict(self, session: Session, task: Task, reason: str, retriable: bool) -> tuple[str, str]:
        """(kind, text) of the end: too many attempts, no host left, and a build that is not retried are told apart."""
        tried = actions.failed_attempts(session, task.action_id) if task.action_id is not None else []
        history = "; ".join(f"{host}: {why}" for host, why in tried) or f"{task.host}: {reason}"
        if not retriable:
            return "BuildAbortException", history
        spec, _ = request_specs.load(session, [task.reservation_id])[task.reservation_id]
        if not retries(spec, self._max_attempts):
            return "RescheduledException", history  # nothing was exceeded: there was to be one attempt
        count = f"Build failed in {task.attempt} attempt{'' if task.attempt == 1 else 's'}"
        if task.attempt >= self._max_attempts:
            return "MaxRetriesExceeded", f"Exceeded maximum number of retries. {count}. {history}"
        return "NoValidHost", f"No valid host was found. {count}, and no alternate is left. {history}"


def heard_before(session: Session, instance_uuid: str, attempt: int, host: str) -> bool:
    """Whether this very attempt has succeeded already, whatever has been done to the instance since."""
    model = Instance
    query = select(model.vm_state, model.attempt, model.host)
    row = session.execute(query.where(model.uuid == instance_uuid, model.deleted_at.is_(None))).one_or_none()
    return row is not None and row.vm_state != VmState.BUILDING and (row.attempt, row.host) == (attempt, host)


def stale(instance_uuid: str, attempt: int, host: str) -> errors.StaleAttempt:
    return errors.StaleAttempt(f"Attempt {attempt} of instance {instance_uuid} is not of host {host} any more")
