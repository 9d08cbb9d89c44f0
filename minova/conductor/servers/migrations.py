"""Moves of instances in the tables: the migration, the instance and both allocations change together.

begin_move     the migration keeps the source's allocation, the instance claims the destination's
claim_move     the destination's tracker holds the new side
step_move      migrating, post-migrating; finished, completed, done: the instance is the destination's
               confirmed: the source gives back; reverted, error: the destination does, and the instance is as before
"""

import logging
import uuid
from collections.abc import Mapping

import msgspec
from sqlalchemy import update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.finish import announce_hosts
from minova.conductor.tasks.worker import Worker
from minova.db.hosts import compute_nodes
from minova.db.models import Instance as Row
from minova.db.servers import instances, migrations
from minova.objects.compute_node import ComputeNode
from minova.objects.flavor import Flavor
from minova.objects.instance import Instance
from minova.objects.migration import Migration, MigrationType, Moved
from minova.objects.numa import InstanceNUMATopology
from minova.objects.pci import InstancePCIRequest
from minova.objects.request_spec import Selection
from minova.objects.states import TaskState, VmState
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import transfer

LOG = logging.getLogger(__name__)
replace = msgspec.structs.replace

# {status: those from which it may be reached}.
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
# Here the instance becomes the destination's; there is no way back from the last two.
ARRIVED = frozenset({"finished", "completed", "done"})
_BEGUN = {
    MigrationType.RESIZE: TaskState.RESIZE_PREP,
    MigrationType.MIGRATION: TaskState.RESIZE_PREP,
    MigrationType.LIVE_MIGRATION: TaskState.MIGRATING,
    MigrationType.EVACUATION: TaskState.REBUILDING,
}


class Moves:
    def __init__(self, worker: Worker) -> None:
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
        claim_no: int,
    ) -> Moved:
        """Conflict: the instance is not idle, or in no state to be moved so. ComputeResourcesUnavailable: the destination
        has no room.
        """

        def work(session: Session) -> Moved:
            standing = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if standing is None or standing.deleted:
                raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
            instance = self._instance(session, instance_uuid)
            if instance.task_state is not None or instance.host is None or instance.vm_state not in _MOVABLE[kind]:
                raise errors.Conflict(f"Instance {instance_uuid} is {instance.vm_state}/{instance.task_state}")
            made = Migration(
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
            self._claim(session, instance, made, chosen, claim_no)
            migrations.add(session, made, self._worker.at(), self._worker.now())
            self._change(session, instance_uuid, task_state=_BEGUN[kind].value)
            announce_hosts(session, {instance.host, chosen.host}, self._worker.now())
            return self._moved(session, made)

        return self._worker.run(work)

    def _claim(self, session: Session, instance: Instance, made: Migration, chosen: Selection, claim_no: int) -> None:
        transfer(session, instance.uuid, made.uuid, self._worker.now())
        claim = claims.Claim(
            consumer_uuid=instance.uuid,
            claim_no=claim_no,
            provider_uuid=chosen.provider_uuid,
            resources=chosen.allocation,
            project_id=instance.project_id,
            user_id=instance.user_id,
        )
        refused = claims.claim(session, [claim], self._worker.now())
        if refused:
            raise errors.ComputeResourcesUnavailable(refused[instance.uuid])

    def claim_move(self, migration: Migration, node: ComputeNode) -> Migration:
        """See the contract."""

        def work(session: Session) -> Migration:
            instances.lock(session, [migration.instance_uuid])
            known = self._locked(session, migration.uuid, node.host)
            if known.dest != (node.host, node.hypervisor_hostname) or known.status not in {"accepted", "pre-migrating"}:
                raise _stale(known, "pre-migrating", node.host)
            made = replace(known, status="pre-migrating", new_numa_topology=migration.new_numa_topology)
            migrations.write(session, made, self._worker.at(), self._worker.now())
            if node.id and compute_nodes.write_usage(session, node, self._worker.at()):
                changes.append(session, [node.id], self._worker.now())
            return made

        return self._worker.run(work)

    def step_move(self, migration_uuid: str, status: str, host: str) -> Moved:
        """See the contract."""
        if status not in STEPS:
            raise errors.BadRequest(f"step_move: {status!r} is no step of a move; {', '.join(sorted(STEPS))} are")

        def work(session: Session) -> Moved:
            found = migrations.find(session, migration_uuid)
            if found is not None:
                instances.lock(session, [found.instance_uuid])
            known = self._locked(session, migration_uuid, host)
            if known.status == status:
                return self._moved(session, known)
            if known.status not in STEPS[status]:
                raise _stale(known, status, host)
            made = replace(known, status=status)
            migrations.write(session, made, self._worker.at(), self._worker.now())
            self._apply(session, known, made)
            announce_hosts(session, {made.source_compute, made.dest_compute}, self._worker.now())
            return self._moved(session, made)

        return self._worker.run(work)

    def end_forsaken(self, after: float) -> None:
        """Moves that nobody goes on with end in error, `after` seconds without news of one that has touched no guest yet:
        what they hold is given back, and the instance, if there is one, is the source's as before.

        One whose guest may be under way already is left to people: which of two domains is the right one only they can see.
        """
        with self._worker.db.read() as session:
            found = migrations.forsaken(session, self._worker.now() - after, _MOST)
        for migration in found:
            LOG.warning(
                "Migration %s of instance %s is %s and nobody goes on with it: it ends in error",
                migration.uuid,
                migration.instance_uuid,
                migration.status,
            )
            self._worker.run(lambda session, one=migration: self._forsake(session, one))  # type: ignore[misc]

    def _forsake(self, session: Session, seen: Migration) -> None:
        standing = instances.lock(session, [seen.instance_uuid]).get(seen.instance_uuid)
        known = migrations.lock(session, seen.uuid)
        if known is None or known.status != seen.status or known.updated_at != seen.updated_at:
            return
        made = replace(known, status="error")
        migrations.write(session, made, self._worker.at(), self._worker.now())
        if standing is None or standing.deleted:
            claims.release(session, [made.uuid, made.instance_uuid], self._worker.now())
        else:
            self._go_back(session, made)
        announce_hosts(session, {made.source_compute, made.dest_compute}, self._worker.now())

    def _apply(self, session: Session, before: Migration, after: Migration) -> None:
        status = after.status
        if status in ARRIVED:
            self._arrive(session, after)
        if status in {"completed", "done", "confirmed"}:
            claims.release(session, [after.uuid], self._worker.now())
        if status == "confirmed":
            self._change(session, after.instance_uuid, vm_state=after.new_vm_state.value, task_state=None)
        if status in {"reverted", "error"}:
            self._go_back(session, after)

    def _arrive(self, session: Session, migration: Migration) -> None:
        resized = migration.status == "finished"
        self._change(
            session,
            migration.instance_uuid,
            host=migration.dest_compute,
            node=migration.dest_node,
            flavor=migration.new_flavor,
            numa_topology=migration.new_numa_topology,
            vm_state=(VmState.RESIZED if resized else migration.new_vm_state).value,
            task_state=None,
        )

    def _go_back(self, session: Session, migration: Migration) -> None:
        """What the instance claimed at the destination is given back, and what the migration kept is its own again."""
        claims.release(session, [migration.instance_uuid], self._worker.now())
        transfer(session, migration.uuid, migration.instance_uuid, self._worker.now())
        self._change(
            session,
            migration.instance_uuid,
            host=migration.source_compute,
            node=migration.source_node,
            flavor=migration.old_flavor,
            numa_topology=migration.old_numa_topology,
            vm_state=migration.old_vm_state.value,
            task_state=None,
        )

    # -- rows ------------------------------------------------------------------------------------------------------

    def _locked(self, session: Session, migration_uuid: str, host: str) -> Migration:
        known = migrations.lock(session, migration_uuid)
        if known is None:
            raise errors.StaleAttempt(f"There is no migration {migration_uuid}")
        if host not in (known.source_compute, known.dest_compute):
            raise errors.StaleAttempt(f"Migration {migration_uuid} is no business of host {host}")
        return known

    def _change(self, session: Session, instance_uuid: str, **values: object) -> None:
        statement = update(Row).where(Row.uuid == instance_uuid, Row.deleted_at.is_(None))
        session.connection().execute(statement.values(updated_at=self._worker.at(), **values))

    def _instance(self, session: Session, instance_uuid: str) -> Instance:
        (found,) = instances.load(session, Row.uuid == instance_uuid)
        return found

    def _moved(self, session: Session, migration: Migration) -> Moved:
        return Moved(migration=migration, instance=self._instance(session, migration.instance_uuid))


# Ended in one round.
_MOST = 100
# As in Nova; audits count a move of no other instance (`minova.compute.accounting.migrations.is_moving`).
_MOVABLE = {
    MigrationType.RESIZE: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.MIGRATION: frozenset({VmState.ACTIVE, VmState.STOPPED}),
    MigrationType.LIVE_MIGRATION: frozenset({VmState.ACTIVE}),
    MigrationType.EVACUATION: frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
}


def _stale(migration: Migration, status: str, host: str) -> errors.StaleAttempt:
    return errors.StaleAttempt(
        f"Migration {migration.uuid} is {migration.status} to {migration.dest_compute}: host {host} cannot make it {status}"
    )
