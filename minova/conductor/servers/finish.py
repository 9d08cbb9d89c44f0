"""How builds and deletions end: all that belongs to an error or an end is written in one transaction."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova import metrics
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.notifications.instances import BUILD_FAILED, REBUILD_ERROR, note
from minova.conductor.servers import evacuations
from minova.conductor.servers.server_images import remove_image
from minova.db import quotas
from minova.db.engine import when_committed
from minova.db.hosts import services
from minova.db.models import Task
from minova.db.networks import security_groups, vifs
from minova.db.servers import actions, guest_secrets, instances, migrations, request_specs, state_changes, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.requests.resource_request import resource_alternatives
from minova.objects.servers.failures import Failure
from minova.objects.servers.migration import Hold, Migration
from minova.objects.servers.states import (
    BUILD_STEPS,
    EVACUABLE,
    EVACUATION_STEPS,
    UNSHELVING_STEPS,
    State,
    TaskState,
    VmState,
)
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.allocations.transfers import absorb

# The states of an instance that is being built.
BUILDING: tuple[State, ...] = tuple((VmState.BUILDING, step) for step in (TaskState.SCHEDULING, *BUILD_STEPS))
# The states of an instance that is being evacuated.
EVACUATING: tuple[State, ...] = tuple((vm_state, step) for vm_state in EVACUABLE for step in EVACUATION_STEPS)
# The states of an instance that is being built from the image of a shelved server.
UNSHELVING: tuple[State, ...] = tuple((VmState.SHELVED_OFFLOADED, step) for step in UNSHELVING_STEPS)


def announce_hosts(session: Session, hosts: Iterable[str | None], now: ColumnElement[float]) -> None:
    """Report in the change feed that these hosts look different in host tables now."""
    names = {host for host in hosts if host is not None}
    if names:
        changes.append(session, services.node_ids(session, *names), now)


def servers_quota(session: Session, instance: LockedInstance) -> dict[str, int]:
    """Returns what quotas count for a server, unless it is soft-deleted."""
    return quotas.of_servers(instances.by_uuids(session, [instance.uuid], networks=False)[instance.uuid].flavor)


def fail_builds(
    session: Session,
    locked_instances: Mapping[str, LockedInstance],
    ended: Collection[Task],
    failure: Failure,
    at: datetime,
    now: ColumnElement[float],
    hints: InterfaceNotifier,
) -> None:
    """End these locked build tasks and instances in ERROR with the reason, and release what they hold, with their
    interfaces. A server that could not be unshelved stays shelved, and one that could not be evacuated is as it was, on
    its host; both keep their interfaces.

    The release has the claim number, so that it also refuses claims that arrive later.
    """
    uuids = [task.instance_uuid for task in ended]
    if not uuids:
        return
    when_committed(session, lambda: metrics.BUILDS.labels("error").inc(len(uuids)))
    unshelving = [task for task in ended if locked_instances[task.instance_uuid].unshelving]
    shelved = {task.instance_uuid for task in unshelving}
    for task in (evacuating := [task for task in ended if locked_instances[task.instance_uuid].evacuating]):
        evacuations.failed(session, locked_instances[task.instance_uuid], task, at, now)
        note(session, REBUILD_ERROR, [task.instance_uuid], task.host, failure.kind, failure.details)
    as_before = shelved | {task.instance_uuid for task in evacuating}
    built = [uuid for uuid in uuids if uuid not in as_before]
    off: dict[str, Any] = {"host": None, "node": None, "updated_at": at}
    if built:
        state_changes.transition(session, built, BUILDING, (VmState.ERROR, None), power_state=0, **off)
        _release_interfaces(session, built, at, hints)
        note(session, BUILD_FAILED, built, kind=failure.kind, reason=failure.details)
    if shelved:
        state_changes.transition(session, shelved, UNSHELVING, (VmState.SHELVED_OFFLOADED, None), **off)
        request_specs.remove(session, [task.reservation_id for task in unshelving])
    actions.end(session, [task.action_id for task in ended if task.action_id is not None], at, error=failure)
    actions.add_faults(session, uuids, at, failure)
    tasks.remove(session, uuids)
    announce_hosts(session, {locked_instances[uuid].host for uuid in uuids}, now)
    if released := [uuid for uuid in uuids if uuid in shelved or uuid in built]:
        claims.release(session, released, now, claim_number=max(task.claim_number for task in ended))


def _release_interfaces(
    session: Session, instance_uuids: Collection[str], at: datetime, hints: InterfaceNotifier
) -> None:
    """Takes their ports from servers that have no host, as Nova does: a user's port can be used again, and their
    addresses are free.
    """
    groups = security_groups.of_instances(session, instance_uuids)
    _give_ports(session, vifs.release(session, instance_uuids, at))
    when_committed(session, lambda: hints.members_changed(groups))


def _give_ports(session: Session, removed: Mapping[str, int]) -> None:
    for project_id, count in sorted(removed.items()):
        quotas.give(session, project_id, {"ports": count})


def finish_delete(
    session: Session,
    locked: LockedInstance,
    claim_number: int,
    action_id: int | None,
    at: datetime,
    now: ColumnElement[float],
    *,
    owing: Collection[str] = (),
) -> None:
    """Complete the deletion of a locked instance: release what it held, and end its task and its migrations. `owing`: hosts
    that have not removed what they have of it.
    """
    uuid = locked.uuid
    if locked.shelved_image_id is not None:
        remove_image(session, locked.shelved_image_id)
    before = [(locked.state[0], TaskState.DELETING)]
    values = {"deleted_at": at, "deleted_since": now, "terminated_at": at, "updated_at": at, "power_state": 0}
    if state_changes.transition(session, [uuid], before, (VmState.DELETED, None), **values):
        # Ports that were made for a server belong to its project; a port that is marked for deletion may belong to
        # another project.
        released_vifs = vifs.release(session, [uuid], at)
        counted = locked.state[0] is not VmState.SOFT_DELETED
        quotas.give_server(session, uuid, {"ports": released_vifs.pop(locked.project_id, 0)}, counted=counted)
        _give_ports(session, released_vifs)
    if action_id is not None:
        actions.end(session, [action_id], at, event=False)
    tasks.remove(session, [uuid])
    # Encrypted disks that a host still has cannot be read without its secrets.
    guest_secrets.remove(session, [uuid])
    moving = migrations.lock_open(session, uuid)
    for migration in moving:
        # Audits find domains of deleted servers. The destination may have files alone.
        owing_host = next((host for host in (migration.dest_compute, migration.source_compute) if host in owing), None)
        owing_host = None if migration.is_evacuation else owing_host
        migrations.write(session, msgspec.structs.replace(migration, status="error", cleanup_host=owing_host), at, now)
    touched = {host for migration in moving for host in (migration.source_compute, migration.dest_compute)}
    announce_hosts(session, {locked.host, *touched}, now)
    claims.release(session, [uuid], now, claim_number=claim_number)
    claims.release(session, [migration.uuid for migration in moving], now)


def confirm_finished_move(session: Session, locked: LockedInstance, at: datetime, now: ColumnElement[float]) -> None:
    """The server leaves RESIZED without a confirmation or a revert, neither of which is possible any more: its move counts as
    confirmed. The source's copy is held until the server's host has started the guest from its own.
    """
    for migration in migrations.lock_open(session, locked.uuid):
        if migration.status != "finished":
            continue
        left_host = None if migration.source == migration.dest else migration.source_compute
        hold = Hold.NONE if left_host is None else Hold.UNPROVEN
        ended = msgspec.structs.replace(migration, status="confirmed", cleanup_host=left_host, hold=hold)
        migrations.write(session, ended, at, now)
        release_old_size(session, ended, locked.project_id, now)


def release_old_size(session: Session, migration: Migration, project_id: str, now: Any = None) -> None:
    """Gives back what a server holds beside its new size, once its move cannot be reverted any more. A host that has still to clean up
    keeps its allocation until then.
    """
    if migration.counts_larger:
        (resources, *_) = resource_alternatives(migration.new_flavor, None)
        absorb(session, migration.instance_uuid, migration.uuid, resources, now)
    elif migration.cleanup_host is None:
        claims.release(session, [migration.uuid], now)
    quotas.give(session, project_id, quotas.more_than(migration.old_flavor, migration.new_flavor))
