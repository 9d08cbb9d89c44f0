"""`/servers/{id}/os-interface`: lists, attaches and detaches the interfaces of a server.

`addFixedIp` and `removeFixedIp` change the addresses of existing interfaces.
"""

import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import falcon
import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.servers import servers
from minova.api.compute.servers.networks import neutron, neutron_servers
from minova.api.compute.servers.networks import requested as networks
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.microversions import History, added
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.db import models
from minova.db.api_queries import instances
from minova.db.api_queries.instances import InstanceRow
from minova.db.networks import networks as stored_networks
from minova.db.networks import neutron_ports, ports
from minova.db.servers import tasks
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.network import addresses
from minova.objects.network.network import AddressRequest, FixedIp, Port
from minova.objects.servers.states import TaskState, VmState
from minova.races import CHANGED, repeat_lost

Unset = msgspec.UnsetType
Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$")]
# In seconds: the time in which a host must attach the interface, or finish with another one; and the first and the
# longest pause between two checks.
PATIENCE = 60.0
POLLS = Backoff(first=0.05, longest=0.5, factor=1.5)
# The most waiting requests of one project. Each takes one place.
MAX_PER_PROJECT = 4
# Errors of the conductor after which it has changed nothing.
_REFUSALS = (errors.BadRequest, errors.Forbidden, errors.NotFound, errors.Conflict)
_KINDS = frozenset((ATTACH_INTERFACE.kind, DETACH_INTERFACE.kind))


class WantedAddress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ip_address: networks.Text


class NewAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Attaches an interface on a network or to a port; without both, on the only network."""

    net_id: Id | Unset = msgspec.UNSET
    port_id: Id | Unset = msgspec.UNSET
    fixed_ips: Annotated[list[WantedAddress], msgspec.Meta(min_length=1, max_length=1)] | Unset = msgspec.UNSET
    tag: networks.Tag | Unset = msgspec.UNSET


class CreateAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    attachment: NewAttachment = msgspec.field(name="interfaceAttachment", default=NewAttachment())


class AttachmentView(msgspec.Struct, frozen=True, kw_only=True):
    net_id: str
    port_id: str
    mac_addr: str
    port_state: str
    fixed_ips: tuple[FixedIp, ...]
    tag: str | None


BODY_HISTORY = History(NewAttachment, added("2.49", "tag"))
ANSWER_HISTORY = History(AttachmentView, added("2.70", "tag"))


def index(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = servers.find(call, session)
        own = [_view(call, port) for port in ports.of_instance(session, row.uuid)]
        return {
            "interfaceAttachments": own
            + [_neutron_view(call, neutron_port) for neutron_port in neutron_ports.of_instance(session, row.uuid)]
        }


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    with api.db.read() as session:
        row = servers.find(call, session)
        neutron_port = _of_neutron(call, session, row)
        view = _view(call, _port(call, session, row)) if neutron_port is None else _neutron_view(call, neutron_port)
        return {"interfaceAttachment": view}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Answers when the guest has the interface. The status is 500 if it could not be attached."""
    attachment: NewAttachment = call.body.attachment
    net_id, port_id = _text(attachment.net_id), _text(attachment.port_id)
    address = None if isinstance(attachment.fixed_ips, Unset) else attachment.fixed_ips[0].ip_address
    if net_id is not None and port_id is not None:
        raise errors.BadRequest("Must not input both network_id and port_id")
    if address is not None and net_id is None:
        raise errors.BadRequest("Must input network_id when request IP address")
    with api.db.read() as session:
        row = servers.find(call, session)
        nic = networks.Nic(uuid=net_id, port=port_id, fixed_ip=address, tag=_text(attachment.tag))
        if api.neutron is None:
            interface = networks.new_interface(session, call, row.project_id, nic, str(uuid.uuid4()))
    if api.neutron is not None:
        return _attach_neutrons(api, call, row, nic)
    interface = msgspec.structs.replace(interface, tag=_text(attachment.tag))
    attached = interface.port_id or interface.id
    with api.waiting.place(row.project_id, MAX_PER_PROJECT):
        try:
            _wait(
                partial(_attach, api, call, row, {"interface": msgspec.to_builtins(interface)}),
                lambda: errors.Conflict(f"Instance {row.uuid} attaches or detaches another interface."),
            )
        except errors.IpAddressGenerationFailure:
            raise errors.BadRequest(f"No fixed IP addresses available for network: {interface.network_id}") from None
        _wait(partial(_has_ended, api, call, row), partial(_failed, row))
    with api.db.read() as session:
        port = ports.find(session, attached)
    if port is None:
        raise errors.PortNotFound(f"Port id {attached} could not be found.")
    return {"interfaceAttachment": _view(call, port)}


def _attach_neutrons(api: ComputeApiCollaborators, call: Call, row: InstanceRow, nic: networks.Nic) -> dict[str, Any]:
    """Makes a new port in Neutron first, so that the answer can name it.

    A port that this process leaves behind is deleted with the server.
    """
    with api.waiting.place(row.project_id, MAX_PER_PROJECT):
        _require_able(call, row)
        interface = neutron.new_interface(api, call, row, nic)
        try:
            _start(api, call, row, ATTACH_INTERFACE.kind, {"interface": msgspec.to_builtins(interface)})
        except _REFUSALS:
            # After any other error the server may have the port.
            if interface.port_id is None and not _is_held(api, interface.id):
                neutron.withdraw(api, interface.id)
            raise
        _wait(partial(_has_ended, api, call, row), partial(_failed, row))
    with api.db.read() as session:
        neutron_port = neutron_ports.find(session, row.uuid, interface.port_id or interface.id)
    if neutron_port is None:
        raise errors.PortNotFound(f"Port id {interface.port_id or interface.id} could not be found.")
    return {"interfaceAttachment": _neutron_view(call, neutron_port)}


def _require_able(call: Call, row: InstanceRow) -> None:
    """Raises Conflict if the server cannot attach an interface. Runs before a port is made; the conductor
    checks again.
    """
    _require_unlocked(call, row)
    task_state = None if row.task_state is None else TaskState(row.task_state)
    state = (VmState(row.vm_state), task_state)
    has_host, launched = row.host is not None, row.launched_at is not None
    refusal = ATTACH_INTERFACE.refusal(row.uuid, state, has_host=has_host, launched=launched)
    if refusal is not None:
        raise errors.Conflict(refusal)


def _is_held(api: ComputeApiCollaborators, port_id: str) -> bool:
    with api.db.read() as session:
        return bool(neutron_ports.ports_of_servers(session, [port_id]))


def _of_neutron(call: Call, session: Session, row: InstanceRow) -> models.NeutronPort | None:
    """Returns the port in the path if it is a Neutron port of the server."""
    port_id = call.path["port_id"]
    return neutron_ports.find(session, row.uuid, port_id) if len(port_id) <= 36 else None


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    """Several requests may run at the same time: the conductor detaches one interface after the other."""
    with api.db.read() as session:
        row = servers.find(call, session)
        neutron_port = _of_neutron(call, session, row)
        port_id = str(neutron_port.port_id) if neutron_port is not None else _port(call, session, row).id
    _start(api, call, row, DETACH_INTERFACE.kind, {"port_id": port_id})


def _attach(api: ComputeApiCollaborators, call: Call, row: InstanceRow, arguments: dict[str, Any]) -> bool:
    """Returns False while another interface of the server is attached or detached. As in Nova, several requests may run
    at the same time.
    """
    start = partial(_start, api, call, row, ATTACH_INTERFACE.kind, arguments)
    try:
        start()
    except errors.Conflict:
        if _is_busy(api, row.uuid):
            return False
        start()  # the other one has just ended, or the conflict has another reason
    return True


def _start(api: ComputeApiCollaborators, call: Call, row: InstanceRow, kind: str, arguments: dict[str, Any]) -> None:
    api.conductor.start_action(
        call.ctx,
        instance_uuid=row.uuid,
        action=kind,
        arguments=arguments,
        override_lock=call.ctx.is_admin,
    )


def _is_busy(api: ComputeApiCollaborators, instance_uuid: str) -> bool:
    """Whether an interface of the server is being attached or detached."""
    with api.db.read() as session:
        return tasks.kind_of(session, instance_uuid) in _KINDS


def _wait(is_done: Callable[[], bool], late: Callable[[], Exception]) -> None:
    until = time.monotonic() + PATIENCE
    for pause in POLLS.pauses():
        if is_done():
            return
        if time.monotonic() >= until:
            raise late()
        time.sleep(pause)


def _has_ended(api: ComputeApiCollaborators, call: Call, row: InstanceRow) -> bool:
    """Whether the attachment has ended.

    Raises Conflict if another action has interrupted it, HTTPInternalServerError if it has failed.
    """
    with api.db.read() as session:
        action = instances.action(session, row.uuid, call.ctx.request_id)
        if action is None or action.finish_time is None:
            return False
        if action.result != "Error":
            return True
        kinds = [event.kind for event in instances.events(session, action.id)]
    if "Interrupted" in kinds:
        raise errors.Conflict(f"Another action of instance {row.uuid} has ended the attachment of its interface.")
    raise _failed(row)


def _failed(row: InstanceRow) -> Exception:
    return falcon.HTTPInternalServerError(description=f"Failed to attach network adapter device to {row.uuid}")


def _port(call: Call, session: Session, row: InstanceRow) -> Port:
    """Returns the port in the path. Raises PortNotFound if it is not a port of the server."""
    port_id = call.path["port_id"]
    port = ports.find(session, port_id) if len(port_id) <= 36 else None
    if port is None or (call.ctx.project_id not in (port.project_id, row.project_id) and not call.ctx.is_admin):
        raise errors.PortNotFound(f"Port id {port_id[:255]} could not be found.")
    if ports.server_of(session, port.id) != row.uuid:
        raise errors.PortNotFound(f"Instance {row.uuid} does not have a port with id {port.id}")
    return port


def _view(call: Call, port: Port) -> AttachmentView:
    complete = AttachmentView(
        net_id=port.network_id,
        port_id=port.id,
        mac_addr=port.mac_address,
        port_state=port.status,
        fixed_ips=port.fixed_ips,
        tag=port.tag,
    )
    return call.shown(ANSWER_HISTORY, complete)


def _neutron_view(call: Call, neutron_port: models.NeutronPort) -> AttachmentView:
    vif = neutron_ports.vif_of(neutron_port)
    complete = AttachmentView(
        net_id=vif.network_id,
        port_id=vif.port_id,
        mac_addr=vif.mac_address,
        port_state="ACTIVE" if vif.active else "DOWN",
        fixed_ips=tuple(
            FixedIp(subnet_id=address.subnet_id, ip_address=address.ip_address) for address in vif.addresses
        ),
        tag=neutron_port.tag,
    )
    return call.shown(ANSWER_HISTORY, complete)


def _text(value: str | Unset) -> str | None:
    return None if isinstance(value, Unset) else value


# -- addFixedIp, removeFixedIp -----------------------------------------------------------------------------------------


class AddFixedIp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    network_id: Annotated[str, msgspec.Meta(min_length=1, max_length=36)] = msgspec.field(name="networkId")


class RemoveFixedIp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    address: networks.Text


_ADD, _REMOVE = Decoder(AddFixedIp), Decoder(RemoveFixedIp)


def add_fixed_ip(api: ComputeApiCollaborators, call: Call, body: Any) -> None:
    """Adds an address to the server's first interface on the network, from the first subnet with a free address.

    Raises NetworkNotFound if the server is not on the network.
    Raises BadRequest if no address is free, or if the interface has the most addresses that are allowed.
    """
    try:
        network_id = _ADD.from_builtins(body).network_id
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for addFixedIp: {error}") from None
    row = _unlocked(api, call)
    in_neutron = _in_neutron(api, row, lambda port: port.network_id == network_id)
    if in_neutron:
        neutron_servers.add_address(api, call, row, in_neutron, network_id)
        call.response.status = 202
        return

    def more(session: Session) -> tuple[Port, list[AddressRequest]]:
        of_server = [port for port in ports.of_instance(session, row.uuid) if port.network_id == network_id]
        network = stored_networks.find(session, network_id) if of_server else None
        if network is None or not network.subnets:
            raise errors.NetworkNotFound(f"Network could not be found for instance {row.uuid}.")
        port = of_server[0]
        return port, [*_requests(port.fixed_ips), AddressRequest()]

    try:
        _change(api, call, more)
    except errors.IpAddressGenerationFailure:
        raise errors.BadRequest(f"No fixed IP addresses available for network: {network_id}") from None


def remove_fixed_ip(api: ComputeApiCollaborators, call: Call, body: Any) -> None:
    """Raises BadRequest if the server does not have the address."""
    try:
        address = str(addresses.parse_address("address", _REMOVE.from_builtins(body).address))
    except msgspec.ValidationError as error:
        raise errors.BadRequest(f"Invalid input for removeFixedIp: {error}") from None
    row = _unlocked(api, call)
    in_neutron = _in_neutron(api, row, lambda port: any(fixed.ip_address == address for fixed in port.fixed_ips))
    if in_neutron:
        neutron_servers.remove_address(api, call, row, in_neutron, address)
        call.response.status = 202
        return

    def less(session: Session) -> tuple[Port, list[AddressRequest]]:
        for port in ports.of_instance(session, row.uuid):
            other_addresses = [fixed for fixed in port.fixed_ips if fixed.ip_address != address]
            if len(other_addresses) < len(port.fixed_ips):
                return port, _requests(other_addresses)
        raise errors.BadRequest(f"Instance {row.uuid} does not have fixed IP '{address}'.")

    _change(api, call, less)


def _in_neutron(api: ComputeApiCollaborators, row: InstanceRow, is_meant: Callable[[Port], bool]) -> list[str]:
    """Returns the server's ports in Neutron, or none if `is_meant` is true for a port of minova's own."""
    with api.db.read() as session:
        if any(is_meant(port) for port in ports.of_instance(session, row.uuid)):
            return []
        return neutron_servers.ports_of(session, [row.uuid]).get(row.uuid, [])


def _unlocked(api: ComputeApiCollaborators, call: Call) -> InstanceRow:
    with api.db.read() as session:
        row = servers.find(call, session)
    _require_unlocked(call, row)
    return row


def _require_unlocked(call: Call, row: InstanceRow) -> None:
    if row.locked_by is not None and not call.ctx.is_admin:
        raise errors.Conflict(f"Instance {row.uuid} is locked")


def _requests(fixed_ips: tuple[FixedIp, ...] | list[FixedIp]) -> list[AddressRequest]:
    return [AddressRequest(subnet_id=fixed.subnet_id, ip_address=fixed.ip_address) for fixed in fixed_ips]


def _change(
    api: ComputeApiCollaborators, call: Call, new_addresses: Callable[[Session], tuple[Port, list[AddressRequest]]]
) -> None:
    """Changes the addresses of a port and answers 202. Tries again while others change the same port."""

    def attempt() -> None:
        with api.db.read() as session:
            port, fixed_ips = new_addresses(session)
        api.conductor.update_port(call.ctx, port=port, fixed_ips=tuple(fixed_ips))

    repeat_lost(attempt, [CHANGED])
    call.response.status = 202


# Actions by their key.
ACTIONS: dict[str, Callable[[ComputeApiCollaborators, Call, Any], Any]] = {
    "addFixedIp": add_fixed_ip,
    "removeFixedIp": remove_fixed_ip,
}
POLICIES = {
    "addFixedIp": "os_compute_api:os-multinic:add",
    "removeFixedIp": "os_compute_api:os-multinic:remove",
}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-interface",
        rule="os_compute_api:os-attach-interfaces:list",
        handler=index,
        answer={"interfaceAttachments": list[AttachmentView]},
    ),
    Route(
        method="POST",
        path="/v2.1/servers/{server_id}/os-interface",
        rule="os_compute_api:os-attach-interfaces:create",
        handler=create,
        answer={"interfaceAttachment": AttachmentView},
        body=CreateAttachment,
    ),
    Route(
        method="GET",
        path="/v2.1/servers/{server_id}/os-interface/{port_id}",
        rule="os_compute_api:os-attach-interfaces:show",
        handler=show,
        answer={"interfaceAttachment": AttachmentView},
    ),
    Route(
        method="DELETE",
        path="/v2.1/servers/{server_id}/os-interface/{port_id}",
        rule="os_compute_api:os-attach-interfaces:delete",
        handler=delete,
        status=202,
    ),
)
