"""Gives a move its destination: the one that a scheduler has chosen, or an alternate after a failure there."""

import logging
from collections.abc import Collection
from typing import NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova.conductor.moves import live_plan
from minova.conductor.moves.changes import MoveChanges
from minova.conductor.moves.destinations.live_queue import LiveQueue
from minova.conductor.moves.in_progress import LockedMove
from minova.conductor.tasks.worker import TaskWorker
from minova.db.servers import instances, migrations, tasks
from minova.hardware.demands import demands_of
from minova.hardware.guest.features import FlavorAndImage
from minova.objects.requests.request_spec import Selection
from minova.objects.servers.failures import Failure
from minova.objects.servers.migration import Migration
from minova.objects.servers.moves import MoveMessage, MovePhase
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace


class Alternate(NamedTuple):
    """An alternate at which the move has claimed its room. `others`: the alternates left to try after it."""

    chosen: Selection
    others: tuple[Selection, ...]
    claim_number: int


class MoveDestinations:
    """Each method runs inside the transaction of its caller, which holds the locks of the move."""

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, changes: MoveChanges, queue: LiveQueue) -> None:
        self._aliases = conf.pci.alias
        self._worker = worker
        self._changes = changes
        self._queue = queue

    def assign(
        self,
        session: Session,
        move: LockedMove,
        chosen: Selection,
        alternates: tuple[Selection, ...],
        tried: tuple[tuple[str, str], ...] = (),
    ) -> MoveMessage | None:
        """Write the intent: which attempt belongs to which host. Returns the message to the host of the next phase; None: the
        move waits for its turn.
        """
        assigned = replace(move, migration=self._with_destination(session, move.migration, chosen))
        phase = MovePhase.CLAIM
        if assigned.migration.is_live:
            may_go = self._queue.may_go(session, assigned.migration)
            phase = live_plan.first_phase(move.plan) if may_go else MovePhase.QUEUE
        message = self._changes.enter(
            session, assigned, phase, limits=chosen.limits, alternates=alternates, tried=tried
        )
        return None if phase is MovePhase.QUEUE else message

    def claim_alternate(self, session: Session, move: LockedMove, down: Collection[str]) -> Alternate | None:
        """Moves the allocation to the first alternate that is alive and has room. None: there is none."""
        claim_number = move.task.claim_number + 1
        alternates = [alternate for alternate in move.plan.alternates if alternate.host not in down]
        while alternates and not self._claimed(session, move, alternates[0], claim_number):
            alternates.pop(0)
        if not alternates:
            return None
        chosen, *others = alternates
        return Alternate(chosen=chosen, others=tuple(others), claim_number=claim_number)

    def go_on(self, session: Session, move: LockedMove, alternate: Alternate, failure: Failure) -> MoveMessage | None:
        """The move goes on to this alternate after the failure of its destination. Returns as `assign`."""
        tried = (*move.plan.tried, (move.migration.dest_compute or "", move.migration.dest_node or ""))
        # The conductor that writes the intent becomes the owner of the task.
        owner = {"claim_number": alternate.claim_number, "worker_id": self._worker.id, "epoch": move.task.epoch + 1}
        tasks.change(session, [(move.task, owner)], 0.0, self._worker.now())
        self._changes.end_event(session, move.task, failure)
        LOG.info("Move %s goes on to %s: %s", move.migration.uuid, alternate.chosen.host, failure.details)
        return self.assign(session, move, alternate.chosen, alternate.others, tried)

    def waiting(self, session: Session) -> list[str]:
        """Returns the instances whose live migrations wait, the first one first."""
        return self._queue.waiting(session)

    def may_start(self, session: Session, move: LockedMove) -> bool:
        """Whether this live migration has waited for others, and it is its turn now."""
        return move.plan.phase is MovePhase.QUEUE and self._queue.may_go(session, move.migration)

    def _claimed(self, session: Session, move: LockedMove, where: Selection, claim_number: int) -> bool:
        return claims.claim_selection(session, move.instance, where, claim_number, self._worker.now()) is None

    def _with_destination(self, session: Session, migration: Migration, chosen: Selection) -> Migration:
        """Returns the migration with this destination, as the next attempt. Its cells and devices are fitted anew there."""
        instance = instances.by_uuids(session, [migration.instance_uuid])[migration.instance_uuid]
        demands = demands_of(FlavorAndImage(migration.new_flavor, instance.image), self._aliases)
        return replace(
            migration,
            status="accepted",
            dest_compute=chosen.host,
            dest_node=chosen.node,
            attempt=max(migrations.last_attempt(session, instance.uuid), instance.attempt) + 1,
            new_numa_topology=demands.numa_topology,
            new_pci_requests=demands.pci_requests,
        )
