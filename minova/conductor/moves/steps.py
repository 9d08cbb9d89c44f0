"""The phases of a move: what hosts report, and what a conductor does with a move whose host is silent.

The fence of a report is (migration, phase, attempt, host): one on any other changes nothing. The fence of a conductor is
the epoch of the task.
"""

import logging
from typing import NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.liveness import Hosts, Liveness
from minova.conductor.moves.changes import MoveChanges
from minova.conductor.moves.in_progress import LockedMove, lock
from minova.conductor.moves.plan import Loss, MoveEnd, after_failure, after_loss, after_success, host_of
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext, service_context
from minova.contracts.conductor.computes.moves import MovePhasesApi
from minova.db.servers import instances, migrations, tasks
from minova.hardware.demands import demands_of
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.failures import CAUSED_BY_REQUEST, Failure
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.moves import BEFORE_SWITCH, MoveMessage, MovePhase, PhaseKey, PhaseResult
from minova.objects.servers.states import PowerState
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace
WAITS = "The host does not answer. The move waits for it."
# Phases that are given up if their host gives no sign of life in time.
_TIMED = frozenset({MovePhase.CLAIM, MovePhase.EXPORT, MovePhase.IMPORT})


class Sent(NamedTuple):
    """A message to send after the commit, in the context of the move's request."""

    ctx: RequestContext
    host: str
    message: MoveMessage


class MoveSteps(MovePhasesApi):
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: Worker,
        computes: ComputeClient,
        liveness: Liveness,
        changes: MoveChanges,
    ) -> None:
        self._aliases = conf.pci.alias
        self._worker = worker
        self._computes = computes
        self._liveness = liveness
        self._changes = changes

    # -- reports of hosts ------------------------------------------------------------------------------------------

    def begin_phase(self, ctx: RequestContext, phase: PhaseKey, host: str) -> None:
        def work(session: Session) -> bool:
            move = lock(session, phase.instance_uuid)
            if move is not None and move.is_at(phase, host):
                self._changes.give_time(session, move)
                return True
            return phase.phase is MovePhase.LEAVE and self._debt(session, phase, host) is not None

        if not self._worker.run(work):
            raise errors.StaleAttempt(
                f"Migration {phase.migration_uuid} is not in phase {phase.phase} of attempt {phase.attempt} on {host}"
            )

    def phase_ended(self, ctx: RequestContext, phase: PhaseKey, host: str, result: PhaseResult) -> None:
        down = self._liveness.down_hosts()

        def work(session: Session) -> Sent | None:
            move = lock(session, phase.instance_uuid)
            if move is None or not move.is_at(phase, host):
                self._pay(session, phase, host, result)
                return None
            if result.failure is not None:
                failure = Failure(kind=result.kind, details=f"Host {host}: {result.failure}")
                return self._fail(session, move, failure, down, result.power_state)
            return self._succeed(session, move, result)

        self._send(self._worker.run(work))

    def _succeed(self, session: Session, move: LockedMove, result: PhaseResult) -> Sent | None:
        changed = {"export": result.export} if result.export is not None else {}
        following = after_success(move.plan, move.migration)
        return self._go(session, move, following, None, result.power_state, **changed)

    def _fail(
        self,
        session: Session,
        move: LockedMove,
        failure: Failure,
        down: frozenset[str],
        power_state: PowerState | None = None,
    ) -> Sent | None:
        plan = move.plan
        LOG.warning("Move %s of instance %s in %s: %s", move.migration.uuid, move.uuid, plan.phase, failure.details)
        if plan.phase is MovePhase.CLAIM and failure.kind not in CAUSED_BY_REQUEST:
            retried = self._next(session, move, failure, down)
            if retried is not None:
                return retried
        if plan.phase is MovePhase.DISCARD and plan.reverting:
            # The guest is off here, and its disks may be gone: the host is asked again. A server that stayed resized would be
            # confirmed, which removes the last copy.
            self._changes.wait(session, move, failure)
            return None
        return self._go(session, move, after_failure(plan, move.migration), failure, power_state)

    def _go(
        self,
        session: Session,
        move: LockedMove,
        following: MovePhase | MoveEnd,
        failure: Failure | None,
        power_state: PowerState | None = None,
        **changed: object,
    ) -> Sent | None:
        if isinstance(following, MoveEnd):
            cleaned = move.plan.phase in {MovePhase.DISCARD, MovePhase.LEAVE} and failure is None
            self._changes.end(session, move, following, failure, power_state, unclean=not cleaned and _has_copy(move))
            return None
        message = self._changes.enter(session, move, following, failure, **changed)
        return self._sent(move, message)

    def _next(self, session: Session, move: LockedMove, failure: Failure, down: frozenset[str]) -> Sent | None:
        """Move the allocation to the first alternate that is alive and has room. None: there is none."""
        plan, claim_number = move.plan, move.task.claim_number + 1
        left = [alternate for alternate in plan.alternates if alternate.host not in down]
        while left and not self._claimed(session, move, left[0], claim_number):
            left.pop(0)
        if not left:
            return None
        chosen, *others = left
        tried = (*plan.tried, (move.migration.dest_compute or "", move.migration.dest_node or ""))
        # The conductor that writes the intent becomes the owner of the task.
        own = {"claim_number": claim_number, "worker_id": self._worker.id, "epoch": move.task.epoch + 1}
        tasks.change(session, [(move.task, own)], 0.0, self._worker.now())
        aimed = replace(move, migration=self.aimed(session, move.migration, chosen))
        self._changes.end_event(session, move.task, failure)
        changed = {"limits": chosen.limits, "alternates": tuple(others), "tried": tried}
        message = self._changes.enter(session, aimed, MovePhase.CLAIM, None, **changed)
        LOG.info("Move %s goes on to %s: %s", move.migration.uuid, chosen.host, failure.details)
        return self._sent(move, message)

    def _claimed(self, session: Session, move: LockedMove, where: Selection, claim_number: int) -> bool:
        wanted = claims.Claim(
            consumer_uuid=move.uuid,
            claim_number=claim_number,
            provider_uuid=where.provider_uuid,
            resources=where.allocation,
            project_id=move.instance.project_id,
            user_id=move.instance.user_id,
        )
        return not claims.claim(session, [wanted], self._worker.now())

    def aimed(self, session: Session, migration: Migration, chosen: Selection) -> Migration:
        """Returns the migration with this destination, as the next attempt. What it needs there is fitted anew."""
        instance = instances.by_uuids(session, [migration.instance_uuid])[migration.instance_uuid]
        demands = demands_of(migration.new_flavor, instance.image, self._aliases)
        return replace(
            migration,
            status="accepted",
            dest_compute=chosen.host,
            dest_node=chosen.node,
            attempt=max(migrations.last_attempt(session, instance.uuid), instance.attempt) + 1,
            new_numa_topology=demands.numa_topology,
            new_pci_requests=demands.pci_requests,
        )

    # -- tasks -----------------------------------------------------------------------------------------------------

    def resume(self, ctx: RequestContext, instance_uuid: str, epoch: int) -> None:
        """Ask the host of the phase again, or go on without it if it is lost."""
        hosts = self._liveness.hosts()

        def work(session: Session) -> Sent | None:
            move = lock(session, instance_uuid)
            if move is None or (move.task.worker_id, move.task.epoch) != (self._worker.id, epoch):
                return None
            return self._look_again(session, move, hosts)

        self._send(self._worker.run(work))

    def _look_again(self, session: Session, move: LockedMove, hosts: Hosts) -> Sent | None:
        host = move.task.host or ""
        if host not in hosts.present:
            return self._without(session, move, hosts)
        if move.plan.phase in _TIMED and tasks.past_deadline(session, [move.uuid], self._worker.now()):
            late = Failure(kind="HostTooSlow", details=f"Host {host} has given no sign of life of the move in time")
            return self._fail(session, move, late, hosts.down)
        return self._sent(move, self._changes.ask_again(session, move))

    def _without(self, session: Session, move: LockedMove, hosts: Hosts) -> Sent | None:
        """The host of the phase is lost."""
        host = move.task.host or ""
        is_fenced = host in hosts.fenced or host not in hosts.known
        following = after_loss(move.plan, move.migration, Loss.FENCED if is_fenced else Loss.SILENT)
        lost = Failure(kind="HostDown", details=f"Host {host} is down")
        if following is None:
            self._changes.wait(session, move, replace(lost, text=WAITS))
            return None
        if move.plan.phase is MovePhase.CLAIM:
            return self._fail(session, move, lost, hosts.down)
        if move.plan.phase in {MovePhase.LEAVE, MovePhase.DISCARD}:
            LOG.warning("Host %s is down: it has still to remove what move %s has left", host, move.migration.uuid)
        owed = move.plan.phase is MovePhase.DISCARD and _has_copy(move)
        return self._go(session, move, following, lost, owed=owed)

    # -- cancelling ------------------------------------------------------------------------------------------------

    def cancel(self, ctx: RequestContext, instance_uuid: str, migration_uuid: str) -> None:
        """Take the move back. Raises Conflict if the server is at its destination already, or no such move is in
        progress.
        """

        def work(session: Session) -> Sent | None:
            move = lock(session, instance_uuid)
            if move is None or move.migration.uuid != migration_uuid:
                raise errors.Conflict(f"Migration {migration_uuid} of instance {instance_uuid} is not in progress")
            if move.plan.cancelled:
                return None
            if move.plan.phase not in BEFORE_SWITCH or move.plan.reverting:
                raise errors.Conflict(
                    f"Migration {migration_uuid} cannot be cancelled any more: revert it when it is done"
                )
            failure = Failure(kind="Interrupted", details="it was cancelled", text="It was cancelled.")
            told = replace(move, plan=replace(move.plan, cancelled=True))
            return self._go(session, told, after_failure(move.plan, move.migration), failure)

        self._send(self._worker.run(work))

    # -- debts -----------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Ask hosts that are back to remove what ended moves have left there."""
        hosts = self._liveness.hosts()
        with self._worker.db.read() as session:
            owed = migrations.to_clean(session, hosts.present)
            # The source of an evacuation asks by itself what it has to remove.
            moves = [one for one in owed if one.migration_type is not MigrationType.EVACUATION]
            messages = [self._changes.cleaning(session, migration) for migration in moves]
        for message in messages:
            if message is not None:
                self._send(Sent(service_context(), str(message.migration.cleanup_host), message))

    def _debt(self, session: Session, phase: PhaseKey, host: str) -> Migration | None:
        migration = migrations.lock(session, phase.migration_uuid)
        owes = migration is not None and (migration.cleanup_host, migration.attempt) == (host, phase.attempt)
        return migration if owes else None

    def _pay(self, session: Session, phase: PhaseKey, host: str, result: PhaseResult) -> None:
        """The host has removed what an ended move has left there."""
        migration = self._debt(session, phase, host)
        if migration is None or phase.phase is not MovePhase.LEAVE or result.failure is not None:
            return
        LOG.info("Host %s has removed what move %s has left there", host, migration.uuid)
        migrations.write(session, replace(migration, cleanup_host=None), self._worker.at(), self._worker.now())
        claims.release(session, [migration.uuid], self._worker.now())

    # -- messages --------------------------------------------------------------------------------------------------

    def _sent(self, move: LockedMove, message: MoveMessage) -> Sent | None:
        host = host_of(message.phase, message.migration)
        return None if host is None else Sent(service_context(move.task.request_id), host, message)

    def _send(self, sent: Sent | None) -> None:
        if sent is not None:
            self._computes.move(sent.ctx, sent.host, sent.message)


def _has_copy(move: LockedMove) -> bool:
    """Whether the side that a move leaves has files of the guest. On one host both sides are the same files."""
    if move.migration.source == move.migration.dest:
        return False
    return move.plan.phase is MovePhase.LEAVE or move.plan.claimed or move.plan.reverting
