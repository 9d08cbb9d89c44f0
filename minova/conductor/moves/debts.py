"""What ended moves have left at a host that was away: files to remove, or a guest to end. The host pays when it is back."""

import logging

import msgspec
from sqlalchemy.orm import Session

from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.moves.changes import MoveChanges
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.servers import instances, migrations
from minova.objects.servers.migration import Hold, Migration
from minova.objects.servers.moves import MovePhase, PhaseKey, PhaseResult
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace
# The most requests in one round.
LIMIT = 100


class MoveDebts:
    def __init__(self, worker: TaskWorker, computes: ComputeClient, liveness: Liveness, changes: MoveChanges) -> None:
        self._worker = worker
        self._computes = computes
        self._liveness = liveness
        self._changes = changes
        # The id of the last migration that the last full round has read.
        self._collected = 0

    def collect(self) -> None:
        """Ask hosts that are back to remove what ended moves have left there, or to end its guest."""
        hosts = self._liveness.hosts()
        with self._worker.db.read() as session:
            owed_migrations = migrations.to_clean(session, hosts.present, LIMIT, after=self._collected)
            messages = [self._changes.cleaning(session, migration) for migration in owed_migrations.values()]
        # The next round asks for others, because hosts may fail again and again.
        self._collected = max(owed_migrations) if len(owed_migrations) == LIMIT else 0
        for message in messages:
            if message is not None:
                self._computes.move(service_context(), str(message.migration.cleanup_host), message)

    def owed_migration(self, session: Session, phase: PhaseKey, host: str) -> Migration | None:
        """Returns the ended migration, locked, for which the host has still to go through this phase."""
        migration = migrations.lock(session, phase.migration_uuid)
        if migration is None or (migration.cleanup_host, migration.attempt) != (host, phase.attempt):
            return None
        instance = instances.lock(session, [migration.instance_uuid]).get(migration.instance_uuid)
        is_gone = instance is None or instance.deleted
        if phase.phase is MovePhase.CLOSE:
            return migration if migration.hold is Hold.OPEN and not is_gone else None
        is_free = migration.hold is Hold.NONE or is_gone
        return migration if is_free and phase.phase is MovePhase.LEAVE else None

    def pay(self, session: Session, phase: PhaseKey, host: str, result: PhaseResult) -> None:
        """The host has removed what an ended move has left there, or has ended its guest."""
        migration = self.owed_migration(session, phase, host)
        if migration is None or result.failure is not None:
            return
        if phase.phase is MovePhase.CLOSE:
            closed = replace(migration, hold=Hold.UNPROVEN)
            migrations.write(session, closed, self._worker.at(), self._worker.now())
            return
        LOG.info("Host %s has removed what move %s has left there", host, migration.uuid)
        migrations.write(session, replace(migration, cleanup_host=None), self._worker.at(), self._worker.now())
        claims.release(session, [migration.uuid], self._worker.now())
