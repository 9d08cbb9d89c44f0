"""Migrations of instances in the tables: the migration, the instance and both allocations change in one transaction.

begin_move     the migration keeps the source's allocation, the instance claims the destination's
claim_move     the destination's tracker holds the new side
step_move      migrating, post-migrating; finished, completed, done: the instance is the destination's
               confirmed: the source releases its allocation
               reverted, error: the destination releases its allocation, and the instance is as before
"""

import logging
import uuid
from collections.abc import Mapping
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
from minova.db.models import Instance as Row
from minova.db.servers import instances, migrations, state_changes
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.transitions import allowed
from minova.objects.catalogue.flavor import Flavor
from minova.objects.hosts.compute_node import ComputeNode
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.pci import InstancePCIRequest
from minova.objects.requests.request_spec import Selection
from minova.objects.requests.resource_request import resource_alternatives
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import BEGUN, MOVABLE, Migration, MigrationType, MoveState
from minova.objects.servers.states import State, VmState
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import absorb, transfer

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace

# {status: the statuses from which it may be reached}.
STEPS: Mapping[str, frozenset[str]] = {
    "migrating": frozenset({"pre-migrating"}),
    "post-migrating": frozenset({"migrating", "pre-migrating"}),
    "finished": frozenset({"pre-migrating", "migrating", "post-migrating"}),
    "completed": frozenset({"pre-migrating", "migrating", "post-migrating"}),
    "done": frozenset({"pre-migrating", "migrating", "post-migrating"}),
    "confirmed": frozenset({"finished", "confirming"}),
    "reverted": frozenset({"finished", "reverting"}),
    "error": frozenset({"accepted", "pre-migrating", "migrating", "post-migrating"}),
}
# With these statuses the instance becomes the destination's; the last two are final.
ARRIVED = frozenset({"finished", "completed", "done"})


class Migrations(MoveReportsApi):
    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def begin_move(
        self,
        instance_uuid: str,
        kind: MigrationType,
        flavor: Flavor,
        chosen: Selection,
        *,
        numa_topology: InstanceNUMATopology | None = None,
        pci_requests: tuple[InstancePCIRequest, ...] = (),
        claim_number: int,
    ) -> MoveState:
        """Raises Conflict if the instance is not idle, or its state does not allow such a migration. Raises
        ComputeResourcesUnavailable if the destination has no room.
        """

        def work(session: Session) -> MoveState:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if locked is None or locked.deleted:
                raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
            instance = self._instance(session, instance_uuid)
            if instance.task_state is not None or instance.host is None or instance.vm_state not in MOVABLE[kind]:
                raise errors.Conflict(f"Instance {instance_uuid} is {instance.vm_state}/{instance.task_state}")
            migration = Migration(
                uuid=str(uuid.uuid4()),
                instance_uuid=instance_uuid,
                migration_type=kind,
                source_compute=instance.host,
                source_node=instance.node or "",
                dest_compute=chosen.host,
                dest_node=chosen.node,
                old_flavor=instance.flavor,
                new_flavor=flavor,
                old_vm_state=instance.vm_state,
                old_numa_topology=instance.numa_topology,
                new_numa_topology=numa_topology,
                new_pci_requests=pci_requests,
            )
            self._claim(session, instance, migration, chosen, claim_number)
            migrations.add(session, migration, self._worker.at(), self._worker.now())
            self._transition(session, locked, (instance.vm_state, BEGUN[kind]))
            announce_hosts(session, {instance.host, chosen.host}, self._worker.now())
            return self._moved(session, migration)

        return self._worker.run(work)

    def _claim(
        self, session: Session, instance: Instance, migration: Migration, chosen: Selection, claim_number: int
    ) -> None:
        transfer(session, instance.uuid, migration.uuid, self._worker.now())
        refusal = claims.claim_selection(session, instance, chosen, claim_number, self._worker.now())
        if refusal is not None:
            raise errors.ComputeResourcesUnavailable(refusal)

    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        def work(session: Session) -> Migration:
            instances.lock(session, [migration.instance_uuid])
            current = self._locked(session, migration.uuid, node.host)
            is_here = current.dest == (node.host, node.hypervisor_hostname) and current.attempt == migration.attempt
            if not is_here or current.status not in {"accepted", "pre-migrating"}:
                raise _stale(current, "pre-migrating", node.host)
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
        if status not in STEPS:
            raise errors.BadRequest(f"step_move: {status!r} is no step of a move; {', '.join(sorted(STEPS))} are")

        def work(session: Session) -> MoveState:
            found_migration = migrations.find(session, migration_uuid)
            locked = instances.lock(session, [found_migration.instance_uuid] if found_migration is not None else [])
            migration = self._locked(session, migration_uuid, host)
            if migration.attempt:
                # Its task takes each step; no host does.
                raise _stale(migration, status, host)
            if migration.status == status:
                return self._moved(session, migration)
            if migration.status not in STEPS[status]:
                raise _stale(migration, status, host)
            after_step = replace(migration, status=status)
            migrations.write(session, after_step, self._worker.at(), self._worker.now())
            self._apply(session, locked.get(migration.instance_uuid), after_step)
            announce_hosts(session, {after_step.source_compute, after_step.dest_compute}, self._worker.now())
            return self._moved(session, after_step)

        return self._worker.run(work)

    def end_stale(self, after: float) -> None:
        """End migrations with an error if their hosts have not reported for `after` seconds and no guest was touched
        yet. What they hold is released, and the instance, if it exists, is the source's as before.

        A migration whose guest may be moving already is left to operators, because only they can see which of two
        domains is right.
        """
        with self._worker.db.read() as session:
            rows = migrations.stale(session, self._worker.now() - after, _MAX_ENDED)
        for migration in rows:
            LOG.warning(
                "Migration %s of instance %s is %s and no host continues it: it ends in error",
                migration.uuid,
                migration.instance_uuid,
                migration.status,
            )
            self._worker.run(partial(self._end_stale, seen=migration))

    def _end_stale(self, session: Session, seen: Migration) -> None:
        locked = instances.lock(session, [seen.instance_uuid]).get(seen.instance_uuid)
        migration = migrations.lock(session, seen.uuid)
        if migration is None or migration.status != seen.status or migration.updated_at != seen.updated_at:
            return
        ended = replace(migration, status="error")
        migrations.write(session, ended, self._worker.at(), self._worker.now())
        if locked is None or locked.deleted:
            claims.release(session, [ended.uuid, ended.instance_uuid], self._worker.now())
        else:
            self._go_back(session, locked, ended)
        announce_hosts(session, {ended.source_compute, ended.dest_compute}, self._worker.now())

    def _apply(self, session: Session, locked: LockedInstance | None, migration: Migration) -> None:
        """Apply the migration's new status to the instance and to both allocations."""
        status = migration.status
        if status in ARRIVED:
            self._arrive(session, locked, migration)
        if status == "confirmed" and migration.counts_larger:
            (resources, *_) = resource_alternatives(migration.new_flavor, None)
            absorb(session, migration.instance_uuid, migration.uuid, resources, self._worker.now())
        elif status in {"completed", "done", "confirmed"}:
            claims.release(session, [migration.uuid], self._worker.now())
        if status == "confirmed":
            self._transition(session, locked, (migration.new_vm_state, None))
        if status in {"reverted", "error"}:
            self._go_back(session, locked, migration)

    def _arrive(self, session: Session, locked: LockedInstance | None, migration: Migration) -> None:
        resized = migration.status == "finished"
        self._transition(
            session,
            locked,
            (VmState.RESIZED if resized else migration.new_vm_state, None),
            host=migration.dest_compute,
            node=migration.dest_node,
            flavor=migration.new_flavor,
            numa_topology=migration.new_numa_topology,
        )

    def _go_back(self, session: Session, locked: LockedInstance | None, migration: Migration) -> None:
        """Release what the instance claimed at the destination, and give it back the allocation that the migration
        kept.
        """
        claims.release(session, [migration.instance_uuid], self._worker.now())
        transfer(session, migration.uuid, migration.instance_uuid, self._worker.now())
        self._transition(
            session,
            locked,
            (migration.old_vm_state, None),
            host=migration.source_compute,
            node=migration.source_node,
            flavor=migration.old_flavor,
            numa_topology=migration.old_numa_topology,
        )

    # -- rows ------------------------------------------------------------------------------------------------------

    def _locked(self, session: Session, migration_uuid: str, host: str) -> Migration:
        migration = migrations.lock(session, migration_uuid)
        if migration is None:
            raise errors.StaleAttempt(f"There is no migration {migration_uuid}")
        if host not in (migration.source_compute, migration.dest_compute):
            raise errors.StaleAttempt(f"Migration {migration_uuid} is no business of host {host}")
        return migration

    def _transition(self, session: Session, locked: LockedInstance | None, after: State, **values: object) -> None:
        """Change the instance. A deleted instance is not changed; one that is being deleted keeps its state.

        Raises StaleAttempt if the instance is in a state from which no migration leads to `after`.
        """
        if locked is None or locked.deleted:
            return
        after = locked.state if locked.deleting else after
        if not allowed(locked.state, after):
            raise errors.StaleAttempt(
                f"Instance {locked.uuid} is {locked.state[0]}/{locked.state[1]}: no migration makes it {after[0]}"
            )
        state_changes.transition(session, [locked.uuid], [locked.state], after, updated_at=self._worker.at(), **values)

    def _instance(self, session: Session, instance_uuid: str) -> Instance:
        (instance,) = instances.load(session, Row.uuid == instance_uuid)
        return instance

    def _moved(self, session: Session, migration: Migration) -> MoveState:
        return MoveState(migration=migration, instance=self._instance(session, migration.instance_uuid))


# The most migrations that one round ends.
_MAX_ENDED = 100


def _stale(migration: Migration, status: str, host: str) -> errors.StaleAttempt:
    return errors.StaleAttempt(
        f"Migration {migration.uuid} is {migration.status} to {migration.dest_compute}: host {host} cannot make it {status}"
    )
