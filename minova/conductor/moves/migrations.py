"""Claims of destinations for moves, and migrations whose server is gone.

A move itself is a task: see `steps.py`.
"""

import logging
from functools import partial

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.fences import is_fenced_now
from minova.conductor.servers.builds.reports import require_pinned
from minova.conductor.servers.finish import announce_hosts
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.computes.moves import MoveReportsApi
from minova.db.hosts import compute_nodes
from minova.db.servers import instances, migrations
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.servers.migration import Migration, MoveState
from minova.placement import changes
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace
# The most migrations that one round ends.
_MAX_ENDED = 100


class Migrations(MoveReportsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        def work(session: Session) -> Migration:
            instances.lock(session, [migration.instance_uuid])
            current = self._locked(session, migration.uuid, node.host)
            is_here = current.dest == (node.host, node.hypervisor_hostname) and current.attempt == migration.attempt
            if not is_here or current.status not in {"accepted", "pre-migrating"}:
                raise errors.StaleAttempt(
                    f"Migration {current.uuid} is {current.status} to {current.dest_compute}: host {node.host} cannot claim for it"
                )
            if is_fenced_now(session, node.host):
                raise errors.StaleAttempt(f"Host {node.host} is forced down: it claims nothing for a move")
            require_pinned(current.instance_uuid, node.host, migration.new_numa_topology)
            claimed = replace(current, status="pre-migrating", new_numa_topology=migration.new_numa_topology)
            migrations.write(session, claimed, self._worker.at(), self._worker.now())
            if node.id and compute_nodes.write_usage(session, node, self._worker.at()):
                changes.append(session, [node.id], self._worker.now())
            return claimed

        return self._worker.run(work)

    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> MoveState:
        """The conductor takes each step of a move. No host does."""
        raise errors.StaleAttempt(f"Host {host} cannot make migration {migration_uuid} {status}")

    def end_orphaned(self) -> None:
        """End migrations whose server is gone, and release what they hold."""
        with self._worker.db.read() as session:
            rows = migrations.orphaned(session, _MAX_ENDED)
        for migration in rows:
            LOG.warning(
                "Migration %s is %s, and its instance %s is gone: it ends in error",
                migration.uuid,
                migration.status,
                migration.instance_uuid,
            )
            self._worker.run(partial(self._end_orphaned, seen=migration))

    def _end_orphaned(self, session: Session, seen: Migration) -> None:
        instance = instances.lock(session, [seen.instance_uuid]).get(seen.instance_uuid)
        migration = migrations.lock(session, seen.uuid)
        if migration is None or migration.status != seen.status:
            return
        if instance is not None and not instance.deleted:
            return  # adopted meanwhile
        ended = replace(migration, status="error")
        migrations.write(session, ended, self._worker.at(), self._worker.now())
        claims.release(session, [ended.uuid, ended.instance_uuid], self._worker.now())
        announce_hosts(session, {ended.source_compute, ended.dest_compute}, self._worker.now())

    def _locked(self, session: Session, migration_uuid: str, host: str) -> Migration:
        migration = migrations.lock(session, migration_uuid)
        if migration is None:
            raise errors.StaleAttempt(f"There is no migration {migration_uuid}")
        if host not in (migration.source_compute, migration.dest_compute):
            raise errors.StaleAttempt(f"Migration {migration_uuid} is no business of host {host}")
        return migration
