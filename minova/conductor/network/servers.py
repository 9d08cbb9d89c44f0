"""The ports of servers: made or assigned in the transaction that writes the servers, released in the one that deletes
them.
"""

import uuid
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.ports import LockedForPorts, PortCreation, Ports, require_free
from minova.conductor.network.security.security_groups import SecurityGroups
from minova.context import RequestContext
from minova.db.models import Port as PortRow
from minova.db.networks import ports, vifs
from minova.objects.network.network import AddressRequest, Port
from minova.objects.network.vif import Vif, device_owner
from minova.objects.requests.build_extras import RequestedNic
from minova.objects.requests.server_request import CreateServers, ServerRequest
from minova.races import Races


class InterfaceAllocation(NamedTuple):
    """The servers of one request that are to get their interfaces."""

    ctx: RequestContext
    request: CreateServers
    instance_uuids: Sequence[str]


class LockedForServers(NamedTuple):
    """The new ports of servers, and the locked rows that they need."""

    new: Sequence[PortCreation]
    rows: LockedForPorts


def segments_of(request: ServerRequest) -> tuple[str, ...]:
    """Returns the segments for which the hosts of the servers need bridges, each once."""
    return tuple(sorted({nic.segment for nic in request.requested_networks if nic.segment is not None}))


def new_ports(request: ServerRequest) -> int:
    """Returns how many new ports in minova's own networks one server of the request needs."""
    return sum(nic.port_id is None and not nic.service for nic in request.requested_networks)


def _new_ports(creations: Sequence[InterfaceAllocation]) -> list[PortCreation]:
    """Returns the ports to be made for these servers, each with a new id."""
    return [
        PortCreation(
            creation.ctx,
            Port(
                id=str(uuid.uuid4()),
                network_id=nic.network_id,
                project_id=creation.ctx.project_id,
                device_id=instance_uuid,
                device_owner=device_owner(creation.request.availability_zone),
                security_groups=nic.security_groups,
                tag=nic.tag,
            ),
            None if nic.ip_address is None else (AddressRequest(ip_address=nic.ip_address),),
            number,
        )
        for creation in creations
        for number, nic in enumerate(creation.request.requested_networks)
        if nic.port_id is None
        for instance_uuid in creation.instance_uuids
    ]


class ServerPorts:
    """minova's own networks: see `backend.NetworkBackend`."""

    def __init__(self, ports: Ports, groups: SecurityGroups, hints: InterfaceNotifier) -> None:
        self._ports = ports
        self._hints = hints
        self.races: Races = (groups.race,)

    def allocated(self, instance_uuids: Collection[str]) -> None:
        """Call after the transaction: the addresses of the new servers become members of their groups."""
        self._hints.servers_created(instance_uuids)

    def lock(self, session: Session, creations: Sequence[InterfaceAllocation]) -> LockedForServers:
        """Locks and returns what these creations need, in the order that all writers use.

        Raises NetworkNotFound, PortNotFound or SecurityGroupNotFound if that was deleted since the API has seen it.
        """
        nics = [nic for creation in creations for nic in creation.request.requested_networks]
        ports.lock_several(session, {nic.port_id for nic in nics if nic.port_id is not None})
        # Also locks the networks of existing ports.
        new = _new_ports(creations)
        return LockedForServers(new, self._ports.lock(session, new, {nic.network_id for nic in nics}))

    def allocate(self, session: Session, creations: Sequence[InterfaceAllocation], locked: LockedForServers) -> None:
        """Gives each server its interfaces. Raises IpAddressGenerationFailure if too few addresses are left, PortInUse
        if another server has the port.
        """
        for creation in creations:
            owner = device_owner(creation.request.availability_zone)
            for number, nic in enumerate(creation.request.requested_networks):
                if nic.port_id is not None:
                    self._take(session, nic, creation.instance_uuids[0], number, owner)
        self._ports.add(session, locked.new, locked.rows)

    def bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """Binds nothing: a host that has the interfaces' networks makes by itself what they need."""
        with self._ports.read() as session:
            return vifs.of_instances(session, [instance_uuid], rules=True).get(instance_uuid, ())

    def unbind(self) -> None:
        """Does nothing: a host removes by itself what it has made for them."""

    def _take(self, session: Session, nic: RequestedNic, instance_uuid: str, number: int, owner: str) -> None:
        row: PortRow | None = ports.lock(session, str(nic.port_id))
        if row is None:
            raise errors.PortNotFound(f"Port {nic.port_id} could not be found.")
        require_free(row)
        ports.give_to(session, row.id, instance_uuid, number, owner, nic.tag)
