"""The recorded machine types of servers, as operators list and change them (Nova's `nova-manage libvirt`)."""

import re
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.db.models import Instance
from minova.db.servers import instances
from minova.objects.servers.chosen_hardware import MACHINE_TYPE, alias_of
from minova.objects.servers.states import VmState

_OFF = frozenset({VmState.STOPPED, VmState.SHELVED, VmState.SHELVED_OFFLOADED})
# As in Nova: aliases, and their versions.
_SUPPORTED = re.compile(r"(pc|q35|virt|s390-ccw-virtio)|(pc|pc-i440fx|pc-q35|virt|s390-ccw-virtio)-\d+\.\d+.*")


class InvalidState(errors.Conflict):
    """The server is not off."""


class InvalidUpdate(errors.BadRequest):
    """The server would get another kind of machine, or an alias in place of a version."""


class UnsupportedMachineType(errors.BadRequest):
    """minova does not know this type."""


class MachineTypeUpdate(NamedTuple):
    now: str
    before: str | None


def recorded(session: Session, uuid: str | None = None) -> dict[str, str | None]:
    """Returns the machine type of each server that is not deleted, or of this one. Raises NotFound."""
    query = select(Instance.uuid, Instance.system_metadata).where(Instance.deleted_at.is_(None)).order_by(Instance.id)
    if uuid is not None:
        query = query.where(Instance.uuid == uuid)
    machine_types = {
        instance_uuid: (system_metadata or {}).get(MACHINE_TYPE)
        for instance_uuid, system_metadata in session.execute(query)
    }
    if uuid is not None and not machine_types:
        raise errors.NotFound(f"Instance {uuid} could not be found.")
    return machine_types


def update(session: Session, uuid: str, machine_type: str, at: datetime, *, force: bool) -> MachineTypeUpdate:
    """`force`: whatever the server's state, and whatever the type. Raises NotFound, InvalidState, InvalidUpdate or
    UnsupportedMachineType; then nothing is changed.
    """
    before = recorded(session, uuid)[uuid]
    locked = instances.lock(session, [uuid])[uuid]
    if before == machine_type:
        return MachineTypeUpdate(machine_type, before)
    if not force:
        vm_state = locked.state[0]
        if vm_state not in _OFF:
            raise InvalidState(
                f"Instance {uuid} in vm_state {vm_state}. Cannot update_machine_type while the instance is in this state."
            )
        _require_update(before, machine_type)
    values = {**instances.system_metadata_of(session, uuid), MACHINE_TYPE: machine_type}
    instances.set_attributes(session, uuid, at, {"system_metadata": values})
    return MachineTypeUpdate(machine_type, before)


def _require_update(before: str | None, machine_type: str) -> None:
    if not _SUPPORTED.fullmatch(machine_type):
        raise UnsupportedMachineType(f"Machine type {machine_type} is not supported.")
    if before is None:
        return
    same_kind = alias_of(before) == alias_of(machine_type)
    both_versioned = (alias_of(before) == before) == (alias_of(machine_type) == machine_type)
    if not (same_kind and both_versioned):
        raise InvalidUpdate(f"Cannot update machine type {before} to {machine_type}.")
