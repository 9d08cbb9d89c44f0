"""Ends a build whose guest exists already, without an operator: a restored database requests it again.

The report of a host is no proof of anything but what the host itself has. So the row and the request decide what the instance is; the
report adds only where the guest is, its state and its cells.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.unexpected import adoption
from minova.db.models import Instance, Port, Task, UnexpectedGuest
from minova.db.recovery import unexpected
from minova.db.servers import instances
from minova.objects.servers.states import VmState, power_state_of
from minova.objects.unexpected.guest_record import GuestRecord


def is_being_built(session: Session, uuid: str) -> bool:
    """Whether a task builds the instance, which then has no guest by its row."""
    return session.scalar(select(Task.kind).where(Task.instance_uuid == uuid)) == "build"


def keep(session: Session, guest: UnexpectedGuest, at: datetime, now: Any) -> None:
    """Ends the build of the instance: the instance has this guest.

    Raises Conflict if the guest may be another one than what the task builds; then the transaction must be rolled back.
    """
    record = guest.record
    if record is None:
        raise errors.Conflict(f"Host {guest.host} has sent no record of it.")
    node = adoption.node_of(session, guest, record)
    attempt = adoption.attempt_of(guest, record)
    locked = instances.lock(session, [guest.uuid]).get(guest.uuid)
    task = session.scalar(select(Task).where(Task.instance_uuid == guest.uuid).with_for_update())
    if locked is None or locked.deleted or task is None or task.kind != "build":
        raise errors.Conflict("It is not being built any more.")
    _require_next(guest, attempt, locked, task)
    row = session.scalars(select(Instance).where(Instance.uuid == guest.uuid)).one()
    _require_same(session, row, record)
    values = {
        "host": guest.host,
        "node": node.hypervisor_hostname,
        "attempt": attempt,
        "vm_state": adoption.vm_state_of(power_state_of(guest.mark.power_state), VmState.ACTIVE).value,
        "task_state": None,
        "power_state": guest.mark.power_state,
        "numa_topology": record.instance.numa_topology,
        "system_metadata": {**row.system_metadata, unexpected.ADOPTED: unexpected.action_of(guest.mark)},
        "launched_at": func.coalesce(Instance.launched_at, at),
        "updated_at": at,
    }
    adoption.end_task(session, guest.uuid, at)
    session.connection().execute(update(Instance).where(Instance.uuid == guest.uuid).values(**values))
    adoption.end_adoption(session, guest, node, at, now)


def _require_next(guest: UnexpectedGuest, attempt: int, locked: instances.LockedInstance, task: Task) -> None:
    """Raises Conflict if the task could not have led to this attempt on this host."""
    for host in {locked.host, task.host} - {None, guest.host}:
        raise errors.Conflict(f"Its row or task names host {host}.")
    last = max(locked.attempt, task.attempt)
    if attempt != guest.mark.attempt or not last <= attempt <= last + 1:
        raise errors.Conflict(f"It is of attempt {attempt}, and the last one that the database knows is {last}.")


def _require_same(session: Session, row: Instance, record: GuestRecord) -> None:
    """Raises Conflict if the host has another guest than the one that was requested."""
    instance = record.instance
    pairs = {
        "project": (row.project_id, instance.project_id),
        "flavor": (row.flavor, instance.flavor),
        "image": (row.image_ref, instance.image_ref),
    }
    different = [name for name, (requested, recorded) in pairs.items() if requested != recorded]
    own = set(session.scalars(select(Port.uuid).where(Port.instance_uuid == row.uuid)))
    if {vif.port_id for vif in instance.network_info if not vif.from_neutron and not vif.pending_delete} - own:
        different.append("interfaces")
    if different:
        raise errors.Conflict(f"Its record and its request differ: {', '.join(different)}.")
