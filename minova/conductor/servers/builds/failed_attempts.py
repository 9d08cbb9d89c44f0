"""Attempts that have failed, or whose hosts are lost: the next alternate builds, or the build ends in ERROR."""

import logging
from typing import Any

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.conductor.compute_messages import Build, ComputeClient, build_plan_of, builds_of
from minova.conductor.hosts.liveness import Liveness, is_fenced
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.notifications.instances import CREATE_ERROR, CREATE_START, note
from minova.conductor.servers import evacuations
from minova.conductor.servers.build import event_of, intent, retries
from minova.conductor.servers.finish import announce_hosts, fail_builds
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.db.models import Task
from minova.db.servers import actions, instances, request_specs, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.requests import evacuation
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.failures import CAUSED_BY_REQUEST, Failure, attempts_text
from minova.objects.servers.states import TaskState, build_state
from minova.placement.allocations import claims as allocations

LOG = logging.getLogger(__name__)
WAITS = "The host does not answer. The evacuation waits until it is back, or is forced down."
# Seconds between two looks at a host for which an evacuation waits.
AGAIN = 30.0


class FailedAttempts:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
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
                and locked.host == host
                and not is_fenced(session, host, hosts)
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
        alternates = [alternate for alternate in plan.alternates if alternate.host not in down]
        claim_number = task.claim_number + 1
        while alternates and not self._claimed(session, locked, alternates[0], claim_number):
            alternates.pop(0)
        if not alternates:
            return []
        at, now = self._worker.at(), self._worker.now()
        tried = (*plan.tried, (task.host or "", task.node or ""))
        new_intent = intent(alternates, task.attempt + 1, tried)
        # The conductor that writes the intent becomes the task's owner.
        own = {"claim_number": claim_number, "worker_id": self._worker.id, "epoch": task.epoch + 1}
        announce_hosts(session, [locked.host], now)
        tasks.change(session, [(task, new_intent | own)], self._build_timeout, now)
        event = event_of(locked)
        place: dict[str, Any] = {"host": None, "node": None}
        if event == actions.BUILD_EVENT:
            note(session, CREATE_START, [locked.uuid], alternates[0].host)
        elif event == evacuation.EVENT:
            source = evacuations.back_to_source(session, locked, at, now).source
            place = {"host": source.host, "node": source.node}
            evacuations.chosen(session, {locked.uuid: alternates[0]}, {locked.uuid: task.attempt}, at, now)
        state_changes.transition(
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
        refusal = allocations.claim_selection(session, locked, where, claim_number, self._worker.now())
        if refusal is not None:
            LOG.info("Alternate %s of instance %s is full: %s", where.host, locked.uuid, refusal)
        return refusal is None

    def _verdict(self, session: Session, task: Task, failure: Failure, retriable: bool) -> Failure:
        """Returns the final failure, which distinguishes too many attempts, no host left, and a build that is not
        retried.
        """
        tried = actions.failed_attempts(session, task.action_id) if task.action_id is not None else []
        history = (
            "; ".join(f"{attempt.host}: {attempt.reason}" for attempt in tried) or f"{task.host}: {failure.details}"
        )
        reasons = attempts_text([attempt.kind for attempt in tried] or [failure.kind])
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
