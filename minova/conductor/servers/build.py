"""build_instances: from tasks in step `schedule` to builds committed to hosts.

schedule --(scheduler: yes)--> build: the intent is committed, then cast
   |  ^'--(no answer: again later with a higher claim_number, until the deadline)
   '-----(no)--> ERROR with the Diagnosis
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import Build, BuildPlan, ComputeClient, builds_of
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.notifications.instances import CREATE_START, note
from minova.conductor.servers import evacuations
from minova.conductor.servers.finish import fail_builds
from minova.conductor.tasks.batches import together_or_alone
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.scheduler import SchedulerApi
from minova.db.models import Task
from minova.db.servers import actions, instances, request_specs, tasks
from minova.db.servers.instances import LockedInstance, WholeRow
from minova.db.servers.request_specs import StoredRequest
from minova.objects.actions.shelving import UNSHELVE
from minova.objects.requests import evacuation
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec, Selection
from minova.objects.servers.failures import TEXTS, Failure, text_of
from minova.objects.servers.instance import Instance
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
T = TypeVar("T")

# Seconds until a scheduling that neither ended nor failed is looked at again: longer than the call can take.
SCHEDULE_WAIT = 60.0
# Seconds until the scheduler is called again after no answer; doubled with each call, up to the longest pause.
BACKOFF = Backoff(first=0.5, longest=5.0)

RESULT = "The result of a scheduling"


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Instances that are scheduled together: {instance uuid: epoch of its task as this worker holds it}."""

    id: str
    epochs: dict[str, int]
    claim_number: int
    spec: RequestSpec | None = None
    build_extras: BuildExtras = BuildExtras()


class ScheduledReservation(NamedTuple):
    """A reservation, and the hosts that the scheduler has chosen for its instances."""

    ctx: RequestContext
    reservation: Reservation
    answer: ScheduleAnswer


class LockedTasks(msgspec.Struct, frozen=True):
    """Rows locked by a transaction: tasks in step `schedule` that this worker still owns, and their instances."""

    instances: Mapping[str, LockedInstance]
    tasks: Mapping[str, Task]


class HeldReservation(NamedTuple):
    """A scheduled reservation with its locked rows."""

    scheduled: ScheduledReservation
    locked: LockedTasks
    rows: Mapping[str, WholeRow]

    def instances_to_build(self, at: datetime) -> dict[str, Instance]:
        """Returns the instances of the tasks for which the row and the request in hand say all that a host needs. `at`: when
        their attempts began.
        """
        reservation = self.scheduled.reservation
        if reservation.spec is None:
            return {}
        return {
            uuid: msgspec.structs.replace(
                instances.to_object(self.rows[uuid].values, reservation.spec), attempt=task.attempt, updated_at=at
            )
            for uuid, task in self.locked.tasks.items()
            if self.rows[uuid].values["reservation_id"] == reservation.id
        }


class BuildInstances:
    """`end_built` ends the builds of those of the given instances whose guests exist already, and returns them."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        scheduler: SchedulerApi,
        computes: ComputeClient,
        groups: Groups,
        hints: InterfaceNotifier,
        *,
        end_built: Callable[[Session, Collection[str]], set[str]],
    ) -> None:
        self._end_built = end_built
        self._hints = hints
        self._conf = conf
        self._groups = groups
        self._worker = worker
        self._scheduler = scheduler
        self._commits: GroupCommit[ScheduledReservation, list[Build]] = GroupCommit(worker, self._commit)
        self._computes = computes

    def reschedule(self, ctx: RequestContext, reservation_id: str, epochs: Mapping[str, int]) -> None:
        """Call the scheduler again for tasks that have waited too long or lost their owner."""
        raised = self._persist(lambda session: self._raise_claim_number(session, reservation_id, epochs))
        if raised is not None:
            self.schedule(ctx, raised)

    def schedule(self, ctx: RequestContext, reservation: Reservation) -> None:
        """Call the scheduler with the committed claim number; write its result; send the builds."""
        assert reservation.spec is not None
        spec = msgspec.structs.replace(reservation.spec, num_instances=len(reservation.epochs))
        uuids = tuple(reservation.epochs)
        LOG.debug("Scheduling instances: %s", list(uuids))
        try:
            spec = self._groups.read_into(spec, uuids[0])
            answer = self._scheduler.select_destinations(
                ctx,
                spec=spec,
                instance_uuids=uuids,
                claim_number=reservation.claim_number,
                alternates=retries(spec, self._conf.scheduler.max_attempts),
            )
        except (errors.ServiceUnavailable, errors.StaleClaim) as error:
            LOG.log(errors.level_of(error), "Scheduling of %s is tried again: %s", reservation.id, error)
            self._persist(lambda session: self._postpone(session, reservation))
            return
        except Exception as error:
            LOG.exception("Scheduling of %s failed", reservation.id)
            kind = type(error).__name__
            text = text_of(kind if kind in TEXTS else "SchedulingFailed")
            failure = Failure(kind=kind, details=f"Scheduling failed: {error}", text=text)
            broke = Diagnosis(request_id=ctx.request_id, instance_uuids=uuids, hosts=0, error=failure.message)
            self._persist(lambda session: self._fail(session, reservation, failure, broke))
            return
        if answer.selections:
            scheduled = ScheduledReservation(ctx, reservation, answer)
            builds = self._worker.repeat(RESULT, lambda: self._commits.run(scheduled), SCHEDULE_WAIT)
            self._computes.build(ctx, builds)
        else:
            diagnosis = answer.diagnosis
            failure = Failure(kind="NoValidHost", details=diagnosis.summary(), text=diagnosis.summary())
            self._persist(lambda session: self._fail(session, reservation, failure, diagnosis))

    def expire(self, epochs: Mapping[str, int], failure: Failure) -> None:
        """Give up tasks that are past their deadline. Users see that no valid host was found in time."""
        failure = Failure(kind="NoValidHost", details=failure.details, text=failure.message)

        def expire(some: Mapping[str, int]) -> None:
            self._worker.run(lambda session: self._end(session, self._hold(session, some), failure, None))

        for uuid, error in together_or_alone("Builds past their deadline", epochs, expire).items():
            LOG.error("The build of instance %s is past its deadline and cannot be ended: %s", uuid, error)

    def _persist(self, work: Callable[[Session], T]) -> T:
        """Write the scheduler's result as soon as the database is back. After SCHEDULE_WAIT the task is due anyway."""
        return self._worker.persist(RESULT, work, SCHEDULE_WAIT)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _hold(self, session: Session, epochs: Mapping[str, int], claim_number: int | None = None) -> LockedTasks:
        """Lock instances and tasks. Excludes tasks that another conductor has taken over, deletions, and tasks with a
        newer call of the scheduler than `claim_number`, because that call has moved the allocations.
        """
        return self._mine(instances.lock(session, epochs), tasks.lock(session, epochs), epochs, claim_number)

    def _hold_each(self, session: Session, scheduled: Sequence[ScheduledReservation]) -> list[HeldReservation]:
        """Same as `_hold`, for each reservation, with the whole rows of the instances."""
        uuids = [uuid for result in scheduled for uuid in result.reservation.epochs]
        rows, locked_tasks = instances.lock_whole(session, uuids), tasks.lock(session, uuids)
        locked_instances = {uuid: row.locked for uuid, row in rows.items()}
        return [
            HeldReservation(
                result,
                self._mine(locked_instances, locked_tasks, result.reservation.epochs, result.reservation.claim_number),
                rows,
            )
            for result in scheduled
        ]

    def _mine(
        self,
        locked_instances: Mapping[str, LockedInstance],
        locked_tasks: Mapping[str, Task],
        epochs: Mapping[str, int],
        claim_number: int | None,
    ) -> LockedTasks:
        own_tasks = {
            uuid: task
            for uuid in epochs
            if (task := locked_tasks.get(uuid)) is not None
            and (task.worker_id, task.epoch, task.step) == (self._worker.id, epochs[uuid], "schedule")
            and claim_number in (None, task.claim_number)
        }
        return LockedTasks({uuid: row for uuid, row in locked_instances.items() if uuid in epochs}, own_tasks)

    def _raise_claim_number(
        self, session: Session, reservation_id: str, epochs: Mapping[str, int]
    ) -> Reservation | None:
        held = self._hold(session, epochs)
        # Only a restored database asks again for a guest that exists.
        ended = self._end_built(session, held.tasks)
        if ended:
            held = self._hold(session, {uuid: epoch for uuid, epoch in epochs.items() if uuid not in ended})
        if not held.tasks:
            return None
        # A call without an answer may have made claims. They must not take the room from the next call.
        before = max(task.claim_number for task in held.tasks.values())
        claim_number = max(claims.release(session, held.tasks, self._worker.now(), claim_number=before).values())
        changes = [(task, {"claim_number": claim_number}) for task in held.tasks.values()]
        tasks.change(session, changes, SCHEDULE_WAIT, self._worker.now())
        spec, build_extras = request_specs.load(session, [reservation_id])[reservation_id]
        # In the order of their creation, in which they are numbered for the user.
        ordered = sorted(held.tasks.values(), key=lambda task: task.id)
        return Reservation(
            id=reservation_id,
            epochs={task.instance_uuid: task.epoch for task in ordered},
            claim_number=claim_number,
            spec=spec,
            build_extras=build_extras,
        )

    def _postpone(self, session: Session, reservation: Reservation) -> None:
        held = self._hold(session, reservation.epochs, reservation.claim_number)
        changes = [(task, {"step": task.step}) for task in held.tasks.values()]
        tasks.change(session, changes, BACKOFF.pause(reservation.claim_number), self._worker.now())

    def _fail(self, session: Session, reservation: Reservation, failure: Failure, diagnosis: Diagnosis) -> None:
        self._end(session, self._hold(session, reservation.epochs, reservation.claim_number), failure, diagnosis)

    def _end(self, session: Session, held: LockedTasks, failure: Failure, diagnosis: Diagnosis | None) -> None:
        ended = [*held.tasks.values()]
        if not ended:
            return
        at = self._worker.at()
        if diagnosis is not None:
            request_specs.add_diagnoses(session, [(diagnosis, [*held.tasks])], at)
        fail_builds(session, held.instances, ended, failure, at, self._worker.now(), self._hints)

    def _commit(self, session: Session, scheduled: Sequence[ScheduledReservation]) -> list[list[Build]]:
        """Write the intents: which attempt of which instance belongs to which host. The hosts get messages only
        afterwards.

        Idempotent: if the connection broke at an earlier commit, the intents may be written already.
        """
        held = self._hold_each(session, scheduled)
        chosen: dict[str, tuple[Selection, ...]] = {}
        changed_meanwhile: list[Task] = []
        for result, locked, _ in held:
            self._give_back(session, result.reservation, locked)
            answered = zip(result.reservation.epochs, result.answer.selections, strict=True)
            chosen |= {uuid: selections for uuid, selections in answered if uuid in locked.tasks}
            if not locked.tasks:
                changed_meanwhile += self._committed(session, result.reservation)
        at = self._worker.at()
        new = {uuid: task for _, locked, _ in held for uuid, task in locked.tasks.items()}
        if new:
            events = {uuid: event_of(locked.instances[uuid]) for _, locked, _ in held for uuid in locked.tasks}
            self._write_intents(session, new, chosen, events, at)
            request_specs.add_diagnoses(
                session, [(result.answer.diagnosis, [*locked.tasks]) for result, locked, _ in held], at
            )
        specs = {
            result.reservation.id: StoredRequest(result.reservation.spec, result.reservation.build_extras)
            for result in scheduled
            if result.reservation.spec is not None
        }
        in_hand = {uuid: instance for each in held for uuid, instance in each.instances_to_build(at).items()}
        builds = builds_of(session, [*new.values(), *changed_meanwhile], specs, in_hand)
        return [
            [build for build in builds if build.message.instance.uuid in result.reservation.epochs]
            for result in scheduled
        ]

    def _write_intents(
        self,
        session: Session,
        new: Mapping[str, Task],
        chosen: Mapping[str, Sequence[Selection]],
        events: Mapping[str, str],
        at: datetime,
    ) -> None:
        now = self._worker.now()
        # Attempts of a server that is unshelved or evacuated continue the earlier numbers, so that reports on earlier
        # attempts are stale.
        by_attempt: dict[int, list[str]] = defaultdict(list)
        for uuid, task in new.items():
            by_attempt[task.attempt + 1].append(uuid)
        intents = [(task, intent(chosen[uuid], attempt=task.attempt + 1)) for uuid, task in new.items()]
        tasks.change(session, intents, float(self._conf.conductor.build_timeout), now)
        for attempt, uuids in by_attempt.items():
            instances.begin_attempt(session, uuids, attempt, at)
        for uuid, event in events.items():
            if event == actions.BUILD_EVENT:
                note(session, CREATE_START, [uuid], chosen[uuid][0].host)
        evacuated = {uuid: chosen[uuid][0] for uuid, event in events.items() if event == evacuation.EVENT}
        if evacuated:
            evacuations.chosen(session, evacuated, {uuid: new[uuid].attempt for uuid in evacuated}, at, now)
        started = [
            {
                "action_id": task.action_id,
                "host": chosen[uuid][0].host,
                "start_time": at,
                "event": events[uuid],
            }
            for uuid, task in new.items()
            if task.action_id is not None
        ]
        actions.begin_events(session, started)

    def _committed(self, session: Session, reservation: Reservation) -> list[Task]:
        """Returns the tasks whose first attempt was committed before, with this very call of the scheduler. A further
        attempt has a higher claim number.
        """
        committed = (self._worker.id, "build", reservation.claim_number)
        return [
            task
            for uuid, task in tasks.lock(session, reservation.epochs).items()
            if (task.worker_id, task.step, task.claim_number) == committed and task.epoch == reservation.epochs[uuid]
        ]

    def _give_back(self, session: Session, reservation: Reservation, held: LockedTasks) -> None:
        """Release the claims for instances that were deleted meanwhile. A task that another conductor owns is left to
        that conductor.
        """
        ended = [
            uuid
            for uuid in reservation.epochs
            if uuid not in held.tasks and (uuid not in held.instances or held.instances[uuid].deleted)
        ]
        if ended:
            claims.release(session, ended, self._worker.now(), claim_number=reservation.claim_number)


def event_of(locked: LockedInstance) -> str:
    """Returns the name of the event of an attempt to build this instance."""
    if locked.evacuating:
        return evacuation.EVENT
    return UNSHELVE.event if locked.unshelving else actions.BUILD_EVENT


def intent(selections: Sequence[Selection], attempt: int, tried: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    """Returns the columns of a task whose attempt is committed to the first of these hosts."""
    first, *others = selections
    plan = BuildPlan(limits=first.limits, alternates=tuple(others), tried=tried)
    return {
        "step": "build",
        "attempt": attempt,
        "host": first.host,
        "node": first.node,
        "payload": msgspec.to_builtins(plan),
    }


def retries(spec: RequestSpec, max_attempts: int) -> int:
    """Returns how often a build may be retried: never if exactly one host or node is forced, as in Nova."""
    if max_attempts == 1:
        LOG.debug('Re-scheduling is disabled due to "max_attempts" config')
        return 0
    if len(spec.force_hosts) == 1 or len(spec.force_nodes) == 1:
        LOG.debug(
            "Re-scheduling is disabled due to forcing a host (%s) and/or node (%s)",
            list(spec.force_hosts),
            list(spec.force_nodes),
        )
        return 0
    return max_attempts - 1
