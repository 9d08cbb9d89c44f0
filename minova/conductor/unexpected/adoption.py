"""Makes the rows of a guest from the record that its host keeps: the database knows the guest again."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.unexpected import open_moves
from minova.conductor.unexpected.checks import MAX_ATTEMPT
from minova.db import quotas
from minova.db.models import ComputeNode, Instance, PurgedInstance, Task, UnexpectedGuest
from minova.db.models import Port as PortRow
from minova.db.networks import held_ports, ports, security_groups
from minova.db.recovery import unexpected
from minova.db.servers import actions, guest_secrets, instances, request_specs, tasks
from minova.objects.actions.power_rules import OFF
from minova.objects.catalogue import kernel_boot
from minova.objects.network.vif import Vif, device_owner
from minova.objects.requests.request_spec import RequestSpec
from minova.objects.servers.failures import INTERNAL_ERROR, Failure
from minova.objects.servers.states import PowerState, VmState, power_state_of
from minova.objects.unexpected.guest_record import GuestRecord
from minova.objects.unexpected.removal_rules import DomainVerdict
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.audit import heal

ACTION = "adopt"
# States of a guest that is off, which stay. Not SHELVED: the image that the row of a backup names may be that of an earlier
# shelving, and an offload would remove the only newer disk. The next action removes that image.
_OFF = frozenset({VmState.STOPPED, VmState.SUSPENDED, VmState.SOFT_DELETED, VmState.ERROR})
_ON = frozenset({VmState.ACTIVE, VmState.RESCUED})


class Adoption:
    """Adopts a guest on the decision of an operator, who has read its record. Everything happens in the transaction of the session."""

    def adopt(
        self, session: Session, guest: UnexpectedGuest, at: datetime, now: Any, *, take_from: Collection[str] = ()
    ) -> None:
        """Makes or corrects the rows: instance, request, interfaces, allocations, usage of quotas. A task of the
        instance ends.

        A guest that the source of a move lacks is not made: its move ends as confirmed.

        `take_from`: the other hosts that may lose the instance, if a row or a task names them.

        Raises Conflict if the rows cannot be made, or another host has the instance, or the guest is a copy of a move; then the transaction must be
        rolled back.
        """
        if guest.reason == DomainVerdict.NO_COPY.value:
            open_moves.confirm(session, guest, at, now)
            return
        if guest.reason == DomainVerdict.STRAY.value:
            raise errors.Conflict(
                f"The guest on {guest.host} is a copy that a move has left. Shut it down there, and revert the move if you want it."
            )
        record = guest.record
        if record is None:
            raise errors.Conflict(f"Host {guest.host} has sent no record of guest {guest.uuid}.")
        node = node_of(session, guest, record)
        row = instances.lock(session, [guest.uuid]).get(guest.uuid)
        if row is not None and row.deleted:
            raise errors.Conflict(f"Server {guest.uuid} was deleted. Remove the guest instead.")
        _require_not_elsewhere(session, guest, row, take_from)
        end_task(session, guest.uuid, at)
        values = _columns(guest, record, node.hypervisor_hostname)
        if guest.mark.has_domain:
            # The guest goes on from the TPM that it has.
            guest_secrets.remove_tpm_states(session, [guest.uuid])
        if row is None:
            self._add(session, guest.uuid, record, values, at)
        else:
            values.pop("created_at")
            system_metadata = session.scalar(select(Instance.system_metadata).where(Instance.uuid == guest.uuid))
            values["system_metadata"] = {**(system_metadata or {}), **values["system_metadata"]}
            session.connection().execute(
                update(Instance).where(Instance.uuid == guest.uuid).values(updated_at=at, **values)
            )
        self._add_request(session, record, at)
        project_id = record.instance.project_id if row is None else row.project_id
        self._attach(session, guest.uuid, record, project_id, at)
        end_adoption(session, guest, node, at, now)

    def _add(self, session: Session, uuid: str, record: GuestRecord, values: dict[str, Any], at: datetime) -> None:
        instance = record.instance
        row = {
            "uuid": uuid,
            "display_name": instance.display_name,
            "hostname": instance.hostname,
            "project_id": instance.project_id,
            "user_id": instance.user_id,
            "reservation_id": instance.reservation_id,
            "launch_index": instance.launch_index,
            "user_data": instance.user_data,
            "key_name": instance.key_name,
            "key_data": instance.key_data,
            "key_type": instance.key_type,
            "config_drive": instance.config_drive,
            "metadata": instance.metadata,
            **values,
            "created_at": instance.created_at or at,
            "launched_at": instance.launched_at or at,
        }
        row["metadata_"] = row.pop("metadata")
        session.connection().execute(insert(Instance).values({getattr(Instance, key): row[key] for key in row}))
        if values["vm_state"] != VmState.SOFT_DELETED.value:
            quotas.add(session, instance.project_id, quotas.of_servers(instance.flavor))

    def _add_request(self, session: Session, record: GuestRecord, at: datetime) -> None:
        reservation_id = record.instance.reservation_id
        if not reservation_id or request_specs.load(session, [reservation_id]):
            return
        spec = record.request_spec or RequestSpec(flavor=record.instance.flavor, image=record.instance.image)
        request_specs.add(session, [(reservation_id, spec, record.build_extras)], at)

    def _attach(self, session: Session, uuid: str, record: GuestRecord, project_id: str, at: datetime) -> None:
        """Gives the instance its interfaces, with the addresses that were held for it, and free ports of its project.
        The record alone is no right to any other port.
        """
        vifs = [vif for vif in record.instance.network_info if not vif.from_neutron and not vif.pending_delete]
        held_ports.hold(session, uuid, vifs, at)
        owner = device_owner(record.instance.availability_zone)
        for number, vif in enumerate(vifs):
            port = ports.lock(session, vif.port_id)
            if port is None or port.instance_uuid == uuid:
                continue
            if port.instance_uuid is not None:
                raise errors.Conflict(f"Port {vif.port_id} of guest {uuid} belongs to server {port.instance_uuid} now.")
            was_held = port.device_owner == held_ports.OWNER and port.device_id == uuid
            if not was_held and (port.device_owner == held_ports.OWNER or port.project_id != project_id):
                raise errors.Conflict(f"Port {vif.port_id} of guest {uuid} belongs to another project or guest.")
            ports.give_to(session, port.id, uuid, number, owner, vif.tag)
            if was_held:
                self._make_own(session, port.id, vif, project_id)

    def _make_own(self, session: Session, port_id: int, vif: Vif, project_id: str) -> None:
        """Makes a port of a held one, in the default security group of its project if the port had any group."""
        values = {
            "project_id": project_id,
            "status": "DOWN",
            "made_for_instance": True,
            "port_security_enabled": vif.port_security_enabled,
            "allowed_address_pairs": [msgspec.to_builtins(pair) for pair in vif.allowed_address_pairs],
            "has_address_pairs": bool(vif.allowed_address_pairs),
            "host": "",
        }
        session.connection().execute(update(PortRow).where(PortRow.id == port_id).values(**values))
        if vif.rules is not None:
            default = security_groups.lock_defaults(session, [project_id]).values()
            security_groups.give_to_ports(session, {port_id: [group.id for group in default]})
        quotas.add(session, project_id, {"ports": 1})


def _require_not_elsewhere(
    session: Session, guest: UnexpectedGuest, row: instances.LockedInstance | None, take_from: Collection[str]
) -> None:
    """Raises Conflict if the instance lives on another host, or is worked on there. The word of this host alone takes
    nothing from another one.
    """
    working = session.scalar(select(Task.host).where(Task.instance_uuid == guest.uuid))
    others = sorted({host for host in (None if row is None else row.host, working) if host not in {None, guest.host}})
    if set(others) - set(take_from):
        take = " ".join(f"--take-from {host}" for host in others)
        raise errors.Conflict(
            f"Server {guest.uuid} is on host {' and host '.join(others)} by its row or task. If its guest there is to be given up, run "
            f"minova-manage unexpected adopt {guest.uuid} --host {guest.host} {take}"
        )


def node_of(session: Session, guest: UnexpectedGuest, record: GuestRecord) -> ComputeNode:
    """Returns the node of the guest. Raises Conflict if its host has no such node."""
    of_host = list(session.scalars(select(ComputeNode).where(ComputeNode.host == guest.host)))
    nodes_of_guest = [node for node in of_host if node.hypervisor_hostname in {guest.mark.node, record.node}]
    if len(of_host) == 1 or nodes_of_guest:
        return (nodes_of_guest or of_host)[0]
    raise errors.Conflict(f"Host {guest.host} has no node {record.node or guest.mark.node}. Wait for its next audit.")


def attempt_of(guest: UnexpectedGuest, record: GuestRecord) -> int:
    """Raises Conflict if no build comes so far: the attempts after it would not fit into their column."""
    attempt = record.attempt if guest.mark.attempt is None else guest.mark.attempt
    if not 0 <= attempt <= MAX_ATTEMPT:
        raise errors.Conflict(f"Host {guest.host} claims attempt {attempt} of guest {guest.uuid}.")
    return attempt


def end_task(session: Session, uuid: str, at: datetime) -> None:
    task = session.scalar(select(Task).where(Task.instance_uuid == uuid).with_for_update())
    if task is None:
        return
    failure = Failure(kind=INTERNAL_ERROR, details="The guest that its host has was adopted instead.")
    if task.action_id is not None:
        actions.end(session, [task.action_id], at, error=failure)
    tasks.remove(session, [uuid])


def end_adoption(session: Session, guest: UnexpectedGuest, node: ComputeNode, at: datetime, now: Any) -> None:
    """Call when the rows are written. Allocates, records the adoption among the instance's actions, and forgets the
    reports.
    """
    _note(session, guest.uuid, at)
    # A decision of before to remove a guest of this instance from some host.
    session.connection().execute(delete(PurgedInstance).where(PurgedInstance.uuid == guest.uuid))
    session.flush()
    session.expire_all()
    open_moves.end(session, guest.uuid, guest.host, at, now)
    # The row may have got another size or state, and a server that moved has counted with the larger of two sizes.
    quotas.recount(session, str(session.scalar(select(Instance.project_id).where(Instance.uuid == guest.uuid))))
    claims.release(session, [guest.uuid], now)
    heal.allocate(session, guest.uuid, now)
    changes.append(session, [node.id], now)
    unexpected.forget_guest(session, guest.uuid)


def _note(session: Session, uuid: str, at: datetime) -> None:
    owner = session.execute(select(Instance.user_id, Instance.project_id).where(Instance.uuid == uuid)).one()
    row = {
        "instance_uuid": uuid,
        "action": ACTION,
        "request_id": f"req-{uuid}",
        "user_id": owner.user_id,
        "project_id": owner.project_id,
        "start_time": at,
    }
    begun = actions.begin(session, [row])
    actions.end(session, list(begun.values()), at, event=False)


def _columns(guest: UnexpectedGuest, record: GuestRecord, node: str) -> dict[str, Any]:
    """Returns the columns that the guest decides, whether its row exists or not."""
    instance = record.instance
    image = request_specs.image_of_server(instance.image, record.request_spec)
    system_metadata = {**instance.system_metadata, unexpected.ADOPTED: unexpected.action_of(guest.mark)}
    return {
        "host": guest.host,
        "node": node,
        "attempt": attempt_of(guest, record),
        "vm_state": vm_state_of(power_state_of(guest.mark.power_state), instance.vm_state).value,
        "task_state": None,
        # The row's may be of an earlier soft deletion. The time begins now: see `tasks/unknown_times.py`.
        "soft_deleted_since": None,
        "power_state": guest.mark.power_state,
        "flavor": instance.flavor,
        "image_ref": instance.image_ref,
        "image": instance.image,
        **({} if image is None else kernel_boot.columns_of(image)),
        "numa_topology": instance.numa_topology,
        "availability_zone": instance.availability_zone,
        "system_metadata": system_metadata,
        "created_at": instance.created_at,
    }


def vm_state_of(power_state: PowerState, recorded: VmState) -> VmState:
    """Returns the state of an instance whose guest is in this power state."""
    if power_state is PowerState.PAUSED:
        return VmState.PAUSED
    if power_state in OFF or power_state is PowerState.NOSTATE:
        return recorded if recorded in _OFF else VmState.STOPPED
    # Also one that has put itself to sleep: in vm_state `suspended` a guest is off, and its memory is saved.
    return recorded if recorded in _ON else VmState.ACTIVE
