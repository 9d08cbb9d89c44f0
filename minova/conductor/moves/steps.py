"""The phases of a move: reports of hosts, and moves whose host is silent.

The fence of a report is (migration, phase, attempt, host): a report on any other changes nothing. The fence of a conductor is
the epoch of the task.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.fences import fenced_among, is_fenced_now
from minova.conductor.hosts.liveness import HostLiveness, Liveness, is_fenced
from minova.conductor.moves import live_plan
from minova.conductor.moves import plan as cold_plan
from minova.conductor.moves.changes import BACKOFF_OF_LOOKS, Entry, MoveChanges
from minova.conductor.moves.debts import MoveDebts
from minova.conductor.moves.destinations.assign import MoveDestinations
from minova.conductor.moves.in_progress import LockedMove, began_lately, lock, lock_all
from minova.conductor.moves.plan import Loss, MoveEnd, host_of
from minova.conductor.moves.resolver import Side
from minova.conductor.network.neutron.live_bindings import LiveBindings
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext, service_context
from minova.contracts.conductor.computes.moves import MovePhasesApi
from minova.db.servers import instances, migrations, tasks
from minova.objects.actions.power_rules import ON
from minova.objects.servers.failures import CAUSED_BY_REQUEST, Failure
from minova.objects.servers.live_migration import GuestReport, LiveProgress
from minova.objects.servers.migration import GIVEN_UP, Migration
from minova.objects.servers.moves import (
    MigrationOrder,
    MoveMessage,
    MovePhase,
    PhaseKey,
    PhaseResult,
)
from minova.objects.servers.states import PowerState

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace
# A host that begins a phase so many seconds after its time has begun needs no more time.
FRESH = 5.0
WAITS = "The host does not answer. The move waits for it."
# Phases that are given up if their host gives no sign of life in time.
_TIMED = frozenset(
    {
        *(MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT),
        *(MovePhase.DESCRIBE, MovePhase.CHECK, MovePhase.PREPARE),
    }
)
_BOTH_RUN = Failure(
    kind="GuestMigrationBroken", details="the guest ran on both hosts of its live migration, and was halted on both"
)
# The phases of a live migration before which the bindings of its ports to the destination are made, or removed.
_WITH_BINDINGS = frozenset({MovePhase.PREPARE, MovePhase.DISCARD})
# The phases after whose failure the guest may be on either host.
_LEAVING = frozenset({MovePhase.MIGRATE, MovePhase.LAND, MovePhase.HOLD})
# The phases that end if the destination is forced down, although it or the source reports still: the guest would go there.
_NEEDS_DESTINATION = frozenset(
    {
        *(MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT, MovePhase.RELEASE),
        *(MovePhase.CHECK, MovePhase.PREPARE, MovePhase.MIGRATE, MovePhase.LAND, MovePhase.HOLD),
        MovePhase.LOOK_THERE,
    }
)
# The phases in which a host starts a guest, or lets it go on.
_STARTS_AT_SOURCE = frozenset({MovePhase.RESTORE, MovePhase.STAY})
_STARTS = _STARTS_AT_SOURCE | {MovePhase.START, MovePhase.ARRIVE}
# The phases in which the next alternate is tried.
_WITH_ALTERNATES = frozenset({MovePhase.CLAIM, MovePhase.CHECK})


class MoveDispatch(NamedTuple):
    """A message to send after the commit, in the context of the move's request."""

    ctx: RequestContext
    host: str
    message: MoveMessage


class _Report(NamedTuple):
    """A report of the end of a phase. `down`: the hosts that were down at a reading shortly before."""

    ctx: RequestContext
    phase: PhaseKey
    host: str
    result: PhaseResult
    down: frozenset[str]


class MoveSteps(MovePhasesApi):
    def __init__(
        self,
        worker: TaskWorker,
        computes: ComputeClient,
        liveness: Liveness,
        changes: MoveChanges,
        destinations: MoveDestinations,
        debts: MoveDebts,
        bindings: LiveBindings | None = None,
    ) -> None:
        self._worker = worker
        self._computes = computes
        self._liveness = liveness
        self._changes = changes
        self._destinations = destinations
        self._debts = debts
        self._bindings = bindings
        self._reports: GroupCommit[_Report, MoveDispatch | None] = GroupCommit(worker, self._write)

    # -- reports of hosts ------------------------------------------------------------------------------------------

    def begin_phase(self, ctx: RequestContext, phase: PhaseKey, host: str) -> None:
        """Writes only if the time of the phase has to begin anew. A host that is forced down starts no guest, and no guest leaves for it."""
        with self._worker.db.read() as session:
            since = self._worker.now() + (self._changes.timeout - FRESH)
            if began_lately(session, phase, host, since):
                migration = migrations.find(session, phase.migration_uuid)
                if migration is not None and not _is_fenced_off(session, phase.phase, migration):
                    return

        def work(session: Session) -> bool:
            move = lock(session, phase.instance_uuid)
            if move is not None and move.is_at(phase, host):
                if _is_fenced_off(session, phase.phase, move.migration):
                    return False
                self._changes.give_time(session, move)
                return True
            return self._debts.owed_migration(session, phase, host) is not None

        if not self._worker.run(work):
            raise errors.StaleAttempt(
                f"Migration {phase.migration_uuid} is not in phase {phase.phase} of attempt {phase.attempt} on {host}"
            )

    def phase_ended(self, ctx: RequestContext, phase: PhaseKey, host: str, result: PhaseResult) -> bool:
        """Reports that arrive at the same time share a transaction."""
        down = self._liveness.down_hosts()
        dispatch = self._reports.run(_Report(ctx=ctx, phase=phase, host=host, result=result, down=down))
        self._send(dispatch)
        if phase.phase in live_plan.PHASES:
            self.start_queued()
        # A report that has led to a message was not stale.
        counts = _COUNTS.get(phase.phase)
        if dispatch is not None or result.failure is not None or counts is None:
            return True
        return self._worker.run(lambda session: counts(session, phase, host))

    def _write(self, session: Session, reports: Sequence[_Report]) -> list[MoveDispatch | None]:
        """Returns the message to send after each report."""
        answers: list[MoveDispatch | None] = [None] * len(reports)
        remaining = list(enumerate(reports))
        while remaining:
            # A later report on the same move meets what the earlier one has changed.
            by_instance: dict[str, tuple[int, _Report]] = {}
            for number, report in remaining:
                by_instance.setdefault(report.phase.instance_uuid, (number, report))
            remaining = [numbered for numbered in remaining if numbered not in by_instance.values()]
            moves = lock_all(session, by_instance)
            fenced = fenced_among(session, {host for move in moves.values() if (host := _awaited_destination(move))})
            following = [
                self._apply(session, moves.get(uuid), report, fenced) for uuid, (_, report) in by_instance.items()
            ]
            for (number, _), dispatch in zip(by_instance.values(), self._enter(session, following), strict=True):
                answers[number] = dispatch
        return answers

    def _apply(
        self, session: Session, move: LockedMove | None, report: _Report, fenced: Collection[str]
    ) -> Entry | MoveDispatch | None:
        """`fenced`: the destinations that are forced down."""
        phase, host, result = report.phase, report.host, report.result
        if move is None or not move.is_at(phase, host):
            self._debts.pay(session, phase, host, result)
            return None
        destination = _awaited_destination(move)
        if destination in fenced:
            return self._lose_destination(session, move, report)
        if result.failure is not None:
            failure = Failure(kind=result.kind, details=f"Host {host}: {result.failure}")
            return self._fail(session, move, failure, report.down, result.power_state, result.guest)
        return self._succeed(session, move, result)

    def _enter(self, session: Session, following: Sequence[Entry | MoveDispatch | None]) -> list[MoveDispatch | None]:
        """Returns the message for each."""
        entries = [next_step for next_step in following if isinstance(next_step, Entry)]
        dispatch = iter(
            [
                self._dispatch(entry.move, message)
                for entry, message in zip(entries, self._changes.enter_all(session, entries), strict=True)
            ]
        )
        return [next(dispatch) if isinstance(next_step, Entry) else next_step for next_step in following]

    def run(self, work: Callable[[Session], Entry | MoveDispatch | None]) -> None:
        """Runs one transaction, and sends its message. `work` returns the phase that the move enters, or the message; None: neither."""

        def entering(session: Session) -> MoveDispatch | None:
            (dispatch,) = self._enter(session, [work(session)])
            return dispatch

        self._send(self._worker.run(entering))

    def migration_progress(
        self, ctx: RequestContext, phase: PhaseKey, host: str, progress: LiveProgress
    ) -> MigrationOrder:
        def work(session: Session) -> MigrationOrder | None:
            move = lock(session, phase.instance_uuid)
            if move is None or not move.is_at(phase, host):
                return None
            migrations.note_progress(session, phase.migration_uuid, progress, self._worker.at())
            self._changes.give_time(session, move)
            # Not held: it decides nothing but to end the copying.
            if fenced_among(session, [str(move.migration.dest_compute)], held=False):
                return MigrationOrder.ABORT
            return move.plan.order

        order = self._worker.run(work)
        if order is None:
            raise errors.StaleAttempt(f"Migration {phase.migration_uuid} is not in progress on {host}")
        return order

    def _succeed(self, session: Session, move: LockedMove, result: PhaseResult) -> Entry | MoveDispatch | None:
        if move.plan.phase is MovePhase.LOOK_THERE:
            return self._decide(session, move, Side(report=result.guest))
        reported = {
            "export": result.export,
            "live_source": result.live_source,
            "live_destination": result.live_destination,
        }
        changed: dict[str, Any] = {name: value for name, value in reported.items() if value is not None}
        if result.live_destination is not None:
            changed["live_source"] = None  # the destination has used it
        if move.plan.phase is MovePhase.STAY:
            move = replace(move, plan=replace(move.plan, stayed=result.power_state in ON))
        following = _after_success(move)
        if move.plan.phase is MovePhase.CLAIM:
            changed["lacks_images"] = result.lacks_images
        if move.plan.phase is MovePhase.MIGRATE:
            following = live_plan.after_leaving(handing_over=result.handing_over)
        if move.plan.phase is MovePhase.LOOK:
            changed["guest"] = result.guest
            following = live_plan.after_report(move.plan, result.guest)
        return self._advance(session, move, following, None, result.power_state, **changed)

    def _lose_destination(self, session: Session, move: LockedMove, report: _Report) -> Entry | MoveDispatch | None:
        """The destination is forced down, whatever this report says: it gets no guest any more."""
        result, lost = report.result, _forced_down(move.migration)
        if move.plan.phase is not MovePhase.LOOK_THERE:
            return self._fail(session, move, lost, report.down, result.power_state)
        denies = live_plan.denies_fence(move.plan, move.migration, result.guest)
        return self._decide(session, move, Side(report=result.guest) if denies else Side(fenced=True))

    def _decide(self, session: Session, move: LockedMove, there: Side) -> Entry | None:
        """Carry out what both sides' reports of a live migration say."""
        following = live_plan.after_look(move.plan, move.migration, there)
        if following is None:
            self._changes.look_again(session, move, None)
            return None
        if following is MovePhase.ARRIVE and is_fenced_now(session, move.migration.dest_compute):
            details = f"{_forced_down(move.migration).details}, but reports that the guest runs there. The move waits until it is off, or up."
            denied = Failure(kind="GuestStateUnexpected", details=details, text=details)
            self._changes.look_again(session, move, denied)
            return None
        LOG.warning("Live migration %s of instance %s after a doubt: %s", move.migration.uuid, move.uuid, following)
        if following is MovePhase.HALT_THERE:
            move = replace(move, plan=replace(move.plan, failure=_BOTH_RUN))
        return self._advance(session, move, following, None, owed=move.plan.owed or there.fenced)

    def _fail(
        self,
        session: Session,
        move: LockedMove,
        failure: Failure,
        down: frozenset[str],
        power_state: PowerState | None = None,
        guest: GuestReport | None = None,
    ) -> Entry | MoveDispatch | None:
        plan = move.plan
        LOG.warning("Move %s of instance %s in %s: %s", move.migration.uuid, move.uuid, plan.phase, failure.details)
        if plan.phase in _WITH_ALTERNATES and failure.kind not in CAUSED_BY_REQUEST:
            alternate = self._destinations.claim_alternate(session, move, down)
            if alternate is not None:
                message = self._destinations.go_on(session, move, alternate, failure)
                return None if message is None else self._dispatch(move, message)
        if plan.phase in live_plan.REPEATED:
            self._changes.look_again(session, move, failure)
            return None
        if _waits(move, failure, guest):
            self._changes.wait(session, move, failure, BACKOFF_OF_LOOKS.pause(plan.asks))
            return None
        changed: dict[str, Any] = {}
        following = _after_failure(move)
        if plan.phase in _LEAVING:
            changed = {"doubted": True, "cancelled": plan.cancelled or failure.kind == "LiveMigrationAborted"}
        if move.migration.is_live and live_plan.is_elsewhere(plan, move.migration, failure, guest):
            # What is gone from the destination may have run there.
            changed = {"doubted": True, "owed": plan.owed or plan.phase is MovePhase.ARRIVE}
            following = MovePhase.LOOK
        return self._advance(session, move, following, failure, power_state, **changed)

    def give_up(self, session: Session, move: LockedMove, failure: Failure) -> Entry | None:
        """Take the move back. Returns the phase to enter; None: the move has ended."""
        return self._advance(session, move, _after_failure(move), failure)

    def _advance(
        self,
        session: Session,
        move: LockedMove,
        following: MovePhase | MoveEnd,
        failure: Failure | None,
        power_state: PowerState | None = None,
        **changed: Any,
    ) -> Entry | None:
        """Returns the phase to enter; None: the move has ended."""
        if isinstance(following, MoveEnd):
            following = live_plan.end_of(following, move.migration) if move.migration.is_live else following
            cleaned = move.plan.phase in {MovePhase.DISCARD, MovePhase.LEAVE} and failure is None
            self._changes.end(session, move, following, failure, power_state, unclean=not cleaned and _has_copy(move))
            return None
        return Entry(move=move, phase=following, failure=failure, changed=changed)

    # -- live migrations that wait for their turn ----------------------------------------------------------------------

    def start_queued(self) -> None:
        """Start the live migrations that have waited for others, and whose turn it is now."""
        with self._worker.db.read() as session:
            waiting = self._destinations.waiting(session)
        for instance_uuid in waiting:
            self.run(partial(self._start_one, instance_uuid=instance_uuid))

    def _start_one(self, session: Session, instance_uuid: str) -> Entry | None:
        move = lock(session, instance_uuid)
        if move is None or not self._destinations.may_start(session, move):
            return None
        return Entry(move=move, phase=MovePhase.DESCRIBE)

    # -- tasks -----------------------------------------------------------------------------------------------------

    def resume(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask the host of the phase again, or go on without it if it is lost."""
        hosts = self._liveness.hosts()

        def work(session: Session) -> Entry | MoveDispatch | None:
            move = lock(session, instance_uuid)
            if move is None or (move.task.worker_id, move.task.epoch) != (self._worker.id, epoch):
                return None
            return self._look_again(session, move, hosts)

        self.run(work)
        self.start_queued()

    def _look_again(self, session: Session, move: LockedMove, hosts: HostLiveness) -> Entry | MoveDispatch | None:
        if move.plan.phase is MovePhase.QUEUE:
            self._changes.give_time(session, move)
            return None
        host = move.task.host or ""
        if host not in hosts.present:
            return self._lose_host(session, move, hosts)
        destination = _awaited_destination(move)
        if destination is not None and is_fenced(session, destination, hosts):
            return self._fail(session, move, _forced_down(move.migration), hosts.down)
        if move.plan.phase in _TIMED and tasks.past_deadline(session, [move.uuid], self._worker.now()):
            failure = Failure(kind="HostTooSlow", details=f"Host {host} has given no sign of life of the move in time")
            return self._fail(session, move, failure, hosts.down)
        return self._dispatch(move, self._changes.ask_again(session, move))

    def _lose_host(self, session: Session, move: LockedMove, hosts: HostLiveness) -> Entry | MoveDispatch | None:
        """Go on without the host of the phase, or wait for it."""
        host = move.task.host or ""
        loss = Loss.FENCED if is_fenced(session, host, hosts) else Loss.SILENT
        lost = Failure(kind="HostDown", details=f"Host {host} is down")
        if move.plan.phase is MovePhase.LOOK_THERE and loss is Loss.FENCED:
            return self._decide(session, move, Side(fenced=True))
        following = _after_loss(move, loss)
        if following is None:
            self._changes.wait(session, move, replace(lost, text=WAITS))
            return None
        if move.plan.phase in _WITH_ALTERNATES:
            return self._fail(session, move, lost, hosts.down)
        if move.plan.phase in {MovePhase.LEAVE, MovePhase.DISCARD}:
            LOG.warning("Host %s is down: it has still to remove what move %s has left", host, move.migration.uuid)
        if following is MovePhase.START and is_fenced_now(session, move.migration.dest_compute):
            following = _after_failure(move)
        # A destination that is lost after the switch: the source takes the server back, with its own disks.
        falls_back = move.plan.phase is MovePhase.START and following is MovePhase.RESTORE
        owed = falls_back or (move.plan.phase is MovePhase.DISCARD and _has_copy(move))
        doubted = move.plan.doubted or move.plan.phase in {*_LEAVING, MovePhase.ARRIVE}
        reverting = falls_back or move.plan.reverting
        may_have_run_there = move.plan.may_have_run_there or move.plan.phase is MovePhase.ARRIVE
        return self._advance(
            session,
            move,
            following,
            lost,
            owed=owed,
            doubted=doubted,
            may_have_run_there=may_have_run_there,
            reverting=reverting,
            guest=None,
        )

    # -- messages --------------------------------------------------------------------------------------------------

    def _dispatch(self, move: LockedMove, message: MoveMessage) -> MoveDispatch | None:
        host = host_of(message.phase, message.migration)
        return None if host is None else MoveDispatch(service_context(move.task.request_id), host, message)

    def _send(self, dispatch: MoveDispatch | None) -> None:
        if dispatch is None:
            return
        message = dispatch.message
        bind = self._bindings is not None and message.migration.is_live and message.phase in _WITH_BINDINGS
        if bind and any(vif.from_neutron for vif in message.instance.network_info):
            work = partial(self._send_bound, dispatch)
            self._worker.in_background(dispatch.ctx, WorkKind.ACTION, (message.instance.uuid, message.phase_key), work)
        else:
            self._computes.move(dispatch.ctx, dispatch.host, message)

    def _send_bound(self, dispatch: MoveDispatch) -> None:
        """Send the phase once Neutron has, or has no more, the bindings to the destination. Raises ServiceUnavailable if Neutron is
        away; then the host is asked later.
        """
        assert self._bindings is not None
        message = dispatch.message
        if message.phase is MovePhase.DISCARD:
            try:
                self._bindings.drop(message.instance, dispatch.host)
            except errors.MinovaError as error:
                LOG.warning(
                    "Bindings of instance %s to %s may be left: %s", message.instance.uuid, dispatch.host, error
                )
        else:
            try:
                message = replace(message, instance=self._bindings.prepare(message.instance, dispatch.host))
            except errors.ServiceUnavailable:
                raise
            except errors.MinovaError as error:
                self.phase_ended(dispatch.ctx, message.phase_key, dispatch.host, PhaseResult.failed(error))
                return
        self._computes.move(dispatch.ctx, dispatch.host, message)


def _awaited_destination(move: LockedMove) -> str | None:
    """Returns the destination whose fence ends this phase, whichever host reports; None: its fence changes nothing now."""
    return move.migration.dest_compute if move.plan.phase in _NEEDS_DESTINATION else None


def _is_fenced_off(session: Session, phase: MovePhase, migration: Migration) -> bool:
    """Whether the host that would get or start the guest in this phase is forced down."""
    if phase in _NEEDS_DESTINATION - {MovePhase.LOOK_THERE} or phase in _STARTS:
        host = migration.source_compute if phase in _STARTS_AT_SOURCE else migration.dest_compute
        return is_fenced_now(session, host)
    return False


def _forced_down(migration: Migration) -> Failure:
    return Failure(kind="HostDown", details=f"Host {migration.dest_compute} is forced down")


def _keeps_claim(session: Session, phase: PhaseKey, host: str) -> bool:
    """Whether the claim of the host for a move still counts."""
    move = lock(session, phase.instance_uuid)
    migration = migrations.find(session, phase.migration_uuid)
    if migration is None or (migration.dest_compute, migration.attempt) != (host, phase.attempt):
        return False
    if move is not None and move.migration.uuid == migration.uuid:
        return move.plan.claimed or move.plan.phase in _WITH_ALTERNATES
    return migration.status not in GIVEN_UP


def _has_guest(session: Session, phase: PhaseKey, host: str) -> bool:
    """Whether the row names the host with the attempt of the guest that it has started for this move."""
    instance = instances.lock(session, [phase.instance_uuid]).get(phase.instance_uuid)
    return instance is not None and not instance.deleted and (instance.host, instance.attempt) == (host, phase.attempt)


def _is_back(session: Session, phase: PhaseKey, host: str) -> bool:
    """Whether the row names the host, which has its guest again."""
    instance = instances.lock(session, [phase.instance_uuid]).get(phase.instance_uuid)
    return instance is not None and not instance.deleted and instance.host == host


# What a host has done in these phases may be void by the time of its report. All other reports that come too late undo nothing.
_COUNTS: Mapping[MovePhase, Callable[[Session, PhaseKey, str], bool]] = {
    **dict.fromkeys(_WITH_ALTERNATES, _keeps_claim),
    **dict.fromkeys((MovePhase.START, MovePhase.ARRIVE), _has_guest),
    MovePhase.RESTORE: _is_back,
}


def _has_copy(move: LockedMove) -> bool:
    """Whether the side that a move leaves has files of the guest. On one host both sides are the same files."""
    if move.migration.source == move.migration.dest:
        return False
    return move.plan.phase is MovePhase.LEAVE or move.plan.claimed or move.plan.reverting


# -- which phase follows, by the type of the move -----------------------------------------------------------------------


def _after_success(move: LockedMove) -> MovePhase | MoveEnd:
    follow = live_plan.after_success if move.migration.is_live else cold_plan.after_success
    return follow(move.plan, move.migration)


def _after_failure(move: LockedMove) -> MovePhase | MoveEnd:
    """Returns what follows if no alternate is left, or none may be tried."""
    follow = live_plan.after_failure if move.migration.is_live else cold_plan.after_failure
    return follow(move.plan, move.migration)


def _waits(move: LockedMove, failure: Failure, guest: GuestReport | None) -> bool:
    """Returns whether the host of this phase is asked again after this failure. `guest`: what it has of the guest."""
    if move.migration.is_live:
        return live_plan.waits(move.plan, move.migration, failure, guest)
    return cold_plan.waits(move.plan, failure)


def _after_loss(move: LockedMove, loss: Loss) -> MovePhase | MoveEnd | None:
    """Returns what follows when the host of this phase is lost; None: the move waits for it."""
    follow = live_plan.after_loss if move.migration.is_live else cold_plan.after_loss
    return follow(move.plan, move.migration, loss)
