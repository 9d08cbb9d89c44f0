"""How a move begins, is confirmed or reverted: one transaction writes what it needs, then a scheduler or a host is asked.

begin     migration row, the server's allocation to the migration's consumer, quota of the larger size, record, task
          state, task in phase `schedule`
schedule  a scheduler claims for the instance; the plan with its alternates is committed; the destination is asked
"""

import logging
import secrets
import uuid
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.fences import fenced_among, require_up
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.moves.changes import MoveChanges
from minova.conductor.moves.destinations.assign import MoveDestinations
from minova.conductor.moves.in_progress import KIND, LockedMove, lock
from minova.conductor.moves.plan import MoveEnd, MovePlan, host_of
from minova.conductor.moves.requests import spec_of
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.scheduler import SchedulerApi
from minova.db import quotas
from minova.db.models import TaskStep
from minova.db.servers import instances, migrations, request_specs, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.catalogue.flavor import Flavor
from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.request_spec import RequestSpec, Selection
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.failures import TEXTS, Failure, text_of
from minova.objects.servers.migration import BEGUN, Migration, MigrationType
from minova.objects.servers.moves import MoveMessage, MovePhase
from minova.objects.servers.states import TaskState
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import transfer

LOG = logging.getLogger(__name__)
T = TypeVar("T")
replace = msgspec.structs.replace
# Seconds until a scheduling that neither ended nor failed is looked at again: longer than the call can take.
SCHEDULE_WAIT = 60.0
BACKOFF = Backoff(first=0.5, longest=5.0)
FIRST_CLAIM = 1
FIRST_EPOCH = 1
_RESULT = "The result of the scheduling of a move"


class RequestedMove(NamedTuple):
    """The move that a user wants. `flavor` None: the server keeps its own. `host`: the requested destination. `forced`: no
    filter is asked about it. `block`: see `MoveMessage`.
    """

    kind: MigrationType
    flavor: Flavor | None = None
    host: str | None = None
    forced: bool = False
    block: bool | None = None


class Question(NamedTuple):
    """The question to a scheduler, under this claim number."""

    spec: RequestSpec
    claim_number: int


class BegunMove(NamedTuple):
    """A move whose task is written: its epoch, and its first question."""

    epoch: int
    question: Question


class StartMoves:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        scheduler: SchedulerApi,
        computes: ComputeClient,
        liveness: Liveness,
        groups: Groups,
        quotas: Quotas,
        changes: MoveChanges,
        destinations: MoveDestinations,
    ) -> None:
        self._conf = conf
        self._worker = worker
        self._scheduler = scheduler
        self._computes = computes
        self._liveness = liveness
        self._groups = groups
        self._quotas = quotas
        self._changes = changes
        self._destinations = destinations

    # -- begin -----------------------------------------------------------------------------------------------------

    def spec(
        self, session: Session, instance_uuid: str, requested_move: RequestedMove, held_by: str = ""
    ) -> RequestSpec:
        """Returns the request that `begin` would make now. `held_by`: the consumer of what the server has; empty: the server itself."""
        instance = instances.by_uuids(session, [instance_uuid])[instance_uuid]
        return spec_of(
            session,
            instance,
            requested_move.flavor or instance.flavor,
            self._conf.pci.alias,
            host=requested_move.host,
            forced=requested_move.forced,
            without=self._without(session, instance.host or "", instance_uuid, requested_move.kind),
            held_by=held_by or instance_uuid if self._may_stay(requested_move.kind) else None,
        )

    def preview(
        self, ctx: RequestContext, instance_uuid: str, requested_move: RequestedMove, scheduler: SchedulerApi
    ) -> ScheduleAnswer:
        """Returns where the server would go now; writes nothing. `scheduler`: a client with a short time-out. Raises BadRequest if no filter
        is asked about the requested destination, and it is down.
        """
        down = self._liveness.down_hosts()
        with self._worker.db.read() as session:
            if requested_move.forced and requested_move.host is not None:
                # Another conductor may have forced it down since the last reading.
                require_up(requested_move.host, {*down, *fenced_among(session, [requested_move.host], held=False)})
            spec = self.spec(session, instance_uuid, requested_move)
        spec = self._groups.read_into(spec, instance_uuid)
        return scheduler.preview_destinations(ctx, spec=spec, instance_uuids=(instance_uuid,))

    def _without(self, session: Session, source: str, instance_uuid: str, kind: MigrationType) -> set[str]:
        unclean = migrations.unclean_hosts(session, instance_uuid)
        return unclean if self._may_stay(kind) else {*unclean, source}

    def _may_stay(self, kind: MigrationType) -> bool:
        return kind is MigrationType.RESIZE and bool(self._conf.allow_resize_to_same_host)

    def begin(
        self,
        session: Session,
        ctx: RequestContext,
        locked: LockedInstance,
        action_id: int,
        requested_move: RequestedMove,
    ) -> BegunMove:
        """Writes the move of this idle instance. Can lose the race of quotas. Raises OverQuota, and BadRequest if the requested destination
        is forced down.
        """
        if requested_move.host is not None:
            require_up(requested_move.host, fenced_among(session, [requested_move.host]))
        at, now = self._worker.at(), self._worker.now()
        instance = instances.by_uuids(session, [locked.uuid], networks=False)[locked.uuid]
        flavor = requested_move.flavor or instance.flavor
        more = quotas.more_than(flavor, instance.flavor)
        if more:
            self._quotas.take(session, locked.project_id, more)
        migration = Migration(
            uuid=str(uuid.uuid4()),
            instance_uuid=locked.uuid,
            migration_type=requested_move.kind,
            source_compute=locked.host or "",
            source_node=locked.node or "",
            old_flavor=instance.flavor,
            new_flavor=flavor,
            old_vm_state=locked.state[0],
            old_numa_topology=instance.numa_topology,
            attempt=locked.attempt,
            old_attempt=locked.attempt,
        )
        migrations.add(session, migration, at, now)
        transfer(session, locked.uuid, migration.uuid, now)
        busy = (locked.state[0], BEGUN[requested_move.kind])
        state_changes.transition(session, [locked.uuid], [locked.state], busy, updated_at=at, progress=0)
        key = TransferKey(identity=migration.uuid, secret=secrets.token_hex(32))
        plan = MovePlan(
            migration_uuid=migration.uuid,
            phase=MovePhase.SCHEDULE,
            host=requested_move.host,
            forced=requested_move.forced,
            block=requested_move.block,
            key=key,
        )
        number = claims.release(session, [locked.uuid], now).get(locked.uuid, FIRST_CLAIM)
        self._insert(session, ctx, locked, action_id, plan, number)
        return BegunMove(FIRST_EPOCH, Question(self.spec(session, locked.uuid, requested_move, migration.uuid), number))

    def _insert(
        self,
        session: Session,
        ctx: RequestContext,
        locked: LockedInstance,
        action_id: int,
        plan: MovePlan,
        claim_number: int = 0,
    ) -> None:
        row = {
            "kind": KIND,
            "instance_uuid": locked.uuid,
            "reservation_id": "",
            "action_id": action_id,
            "worker_id": self._worker.id,
            "epoch": FIRST_EPOCH,
            "step": TaskStep.MOVE.value,
            "attempt": 0,
            "claim_number": claim_number,
            "host": None,
            "node": None,
            "payload": msgspec.to_builtins(plan),
            "request_id": ctx.request_id,
            "wake_at": SCHEDULE_WAIT,
            "deadline": float(self._conf.conductor.schedule_timeout),
            "created_at": self._worker.at(),
        }
        tasks.insert_rows(session, [row], self._worker.now())

    # -- schedule --------------------------------------------------------------------------------------------------

    def in_background(self, ctx: RequestContext, instance_uuid: str, begun: BegunMove) -> None:
        """Asks the first question, which belongs to this process alone."""
        what = (instance_uuid, begun.epoch)
        work = partial(self._ask, ctx, instance_uuid, begun.epoch, begun.question)
        self._worker.in_background(ctx, WorkKind.SCHEDULE, what, work)

    def schedule(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask a scheduler for the destination, with a claim number that was never used, and commit its answer."""
        question = self._persist(lambda session: self._question(session, instance_uuid, epoch))
        if question is not None:
            self._ask(ctx, instance_uuid, epoch, question)

    def _ask(self, ctx: RequestContext, instance_uuid: str, epoch: int, question: Question) -> None:
        try:
            spec = self._groups.read_into(question.spec, instance_uuid)
            answer = self._scheduler.select_destinations(
                ctx,
                spec=spec,
                instance_uuids=(instance_uuid,),
                claim_number=question.claim_number,
                alternates=0
                if spec.requested_destination or spec.force_hosts
                else int(self._conf.scheduler.max_attempts) - 1,
            )
        except (errors.ServiceUnavailable, errors.StaleClaim) as error:
            LOG.log(errors.level_of(error), "The move of instance %s is scheduled again: %s", instance_uuid, error)
            self._persist(lambda session: self._postpone(session, instance_uuid, epoch, question))
            return
        except Exception as error:
            LOG.exception("Scheduling the move of instance %s failed", instance_uuid)
            kind = type(error).__name__
            text = text_of(kind if kind in TEXTS else "SchedulingFailed")
            failure = Failure(kind=kind, details=f"Scheduling failed: {error}", text=text)
            self._persist(lambda session: self._fail(session, instance_uuid, epoch, question, failure))
            return
        self._commit(ctx, instance_uuid, epoch, question, answer)

    def expire(self, instance_uuid: str, epoch: int, failure: Failure) -> None:
        """No scheduler has answered in time."""

        def work(session: Session) -> None:
            move = self._own_move(session, instance_uuid, epoch)
            if move is not None:
                self._changes.end(session, move, MoveEnd.FAILED, failure)

        self._worker.run(work)

    def _commit(
        self, ctx: RequestContext, instance_uuid: str, epoch: int, question: Question, answer: ScheduleAnswer
    ) -> None:
        if not answer.selections:
            text = answer.diagnosis.summary()
            failure = Failure(kind="NoValidHost", details=text, text=text)
            self._persist(
                lambda session: self._fail(session, instance_uuid, epoch, question, failure, answer.diagnosis)
            )
            return
        message = self._persist(
            lambda session: self._assign(
                session, instance_uuid, epoch, question, answer.selections[0], answer.diagnosis
            )
        )
        if message is not None:
            self._computes.move(ctx, str(host_of(message.phase, message.migration)), message)

    def _own_move(
        self, session: Session, instance_uuid: str, epoch: int, question: Question | None = None
    ) -> LockedMove | None:
        """Returns the move if this worker still owns its task, it is not scheduled yet, and this is the last question."""
        move = lock(session, instance_uuid)
        if move is None or move.plan.phase is not MovePhase.SCHEDULE:
            return None
        if (move.task.worker_id, move.task.epoch) != (self._worker.id, epoch):
            return None
        return move if question is None or move.task.claim_number == question.claim_number else None

    def _question(self, session: Session, instance_uuid: str, epoch: int) -> Question | None:
        move = self._own_move(session, instance_uuid, epoch)
        if move is None:
            return None
        number = move.task.claim_number
        # A question without an answer may have made a claim. It must not take the room from the next one.
        number = claims.release(session, [instance_uuid], self._worker.now(), claim_number=number)[instance_uuid]
        tasks.change(session, [(move.task, {"claim_number": number})], SCHEDULE_WAIT, self._worker.now())
        requested_move = RequestedMove(
            move.migration.migration_type, move.migration.new_flavor, move.plan.host, move.plan.forced
        )
        return Question(self.spec(session, instance_uuid, requested_move, move.migration.uuid), number)

    def _postpone(self, session: Session, instance_uuid: str, epoch: int, question: Question) -> None:
        move = self._own_move(session, instance_uuid, epoch, question)
        if move is not None:
            pause = BACKOFF.pause(question.claim_number)
            tasks.change(session, [(move.task, {"step": move.task.step})], pause, self._worker.now())

    def _fail(
        self,
        session: Session,
        instance_uuid: str,
        epoch: int,
        question: Question,
        failure: Failure,
        diagnosis: Diagnosis | None = None,
    ) -> None:
        move = self._own_move(session, instance_uuid, epoch, question)
        if move is None:
            return
        if diagnosis is not None:
            request_specs.add_diagnoses(session, [(diagnosis, [instance_uuid])], self._worker.at())
        self._changes.end(session, move, MoveEnd.FAILED, failure)

    def _assign(
        self,
        session: Session,
        instance_uuid: str,
        epoch: int,
        question: Question,
        selections: Collection[Selection],
        diagnosis: Diagnosis,
    ) -> MoveMessage | None:
        """Writes the intent: which attempt belongs to which host."""
        move = self._own_move(session, instance_uuid, epoch, question)
        if move is None:
            return None
        request_specs.add_diagnoses(session, [(diagnosis, [instance_uuid])], self._worker.at())
        first, *others = selections
        if not first.allocation:
            # The server keeps enough. A late second delivery of the question must not claim elsewhere.
            claims.release(session, [instance_uuid], self._worker.now(), claim_number=question.claim_number)
        return self._destinations.assign(session, move, first, tuple(others))

    def _persist(self, work: Callable[[Session], T]) -> T:
        return self._worker.persist(_RESULT, work, SCHEDULE_WAIT)

    # -- the end of a resize ---------------------------------------------------------------------------------------

    def finished_move(self, session: Session, instance_uuid: str) -> Migration:
        """Returns the move that waits for confirmation. Raises NotFound, with Nova's text."""
        moves = [
            migration for migration in migrations.lock_open(session, instance_uuid) if migration.status == "finished"
        ]
        if not moves:
            raise errors.BadRequest("Instance has not been resized.")
        return moves[-1]

    def require_source(self, session: Session, instance_uuid: str, absent: Collection[str]) -> None:
        """Raises Conflict if the source cannot take its guest back now."""
        source = self.finished_move(session, instance_uuid).source_compute
        if source in absent:
            raise errors.Conflict(
                f"Cannot 'revertResize' instance {instance_uuid} while its source host {source} is down"
            )

    def confirm(self, session: Session, ctx: RequestContext, locked: LockedInstance, action_id: int) -> MoveMessage:
        """The destination shows that it has the guest; then the source removes what it has kept for a revert."""
        return self._end(session, ctx, locked, action_id, MovePhase.SHOW_THERE)

    def revert(self, session: Session, ctx: RequestContext, locked: LockedInstance, action_id: int) -> MoveMessage:
        """The source shows that it has its copy; the destination stops the guest and removes its own; then the source has it
        again.
        """
        after = (locked.state[0], TaskState.RESIZE_REVERTING)
        state_changes.transition(
            session, [locked.uuid], [locked.state], after, updated_at=self._worker.at(), progress=0
        )
        return self._end(session, ctx, locked, action_id, MovePhase.SHOW)

    def _end(
        self, session: Session, ctx: RequestContext, locked: LockedInstance, action_id: int, phase: MovePhase
    ) -> MoveMessage:
        migration = self.finished_move(session, locked.uuid)
        plan = MovePlan(migration_uuid=migration.uuid, phase=phase, reverting=phase is MovePhase.SHOW)
        self._insert(session, ctx, locked, action_id, plan)
        move = lock(session, locked.uuid)
        assert move is not None
        return self._changes.enter(session, move, phase)

    def send(self, ctx: RequestContext, message: MoveMessage) -> None:
        self._computes.move(ctx, str(host_of(message.phase, message.migration)), message)
