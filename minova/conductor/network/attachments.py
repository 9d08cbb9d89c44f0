"""Interfaces that existing servers get and lose: the rows of their ports, in the transactions of the actions.

attach: The server gets the port first, then its host is asked. If the host reports a failure and an untouched guest,
        the port is released. Otherwise the server keeps it: the guest may have the interface, so no other one may get
        its addresses.
detach: The server has the port until its host reports that the guest has released it.
delete: The port becomes PENDING_DELETE: the server no longer has it, and its addresses stay taken. The row is deleted with the
        detachment, with the next definition of the domain, with the server, or at a report of its host, which tries
        repeatedly.
"""

import logging
from collections.abc import Callable
from datetime import datetime

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.ports import MAC_TAKEN, PortCreation, Ports, not_found, require_free
from minova.conductor.network.revisions import require_revision
from minova.conductor.network.security.security_groups import SecurityGroups
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.engine import when_committed
from minova.db.models import ComputeNode, Instance
from minova.db.networks import neutron_ports, ports
from minova.db.quotas import give
from minova.db.servers.instances import LockedInstance
from minova.objects.network.network import AddressRequest, Port
from minova.objects.network.vif import MAX_NICS, NEUTRON, device_owner
from minova.objects.requests.build_extras import NewInterface
from minova.races import Races

LOG = logging.getLogger(__name__)


class Attachments:
    def __init__(
        self, ports: Ports, groups: SecurityGroups, hints: InterfaceNotifier, quotas: Quotas, at: Callable[[], datetime]
    ) -> None:
        """`at`: returns the time for rows."""
        self._at = at
        self._ports = ports
        self._hints = hints
        self._quotas = quotas
        self.races: Races = (groups.race, MAC_TAKEN)

    def delete_free_port(self, port_id: str, revision: int | None = None) -> str | None:
        """Deletes the port if no server has it. Otherwise returns that server."""
        server = self._ports.server_of(port_id)
        if server is None:
            self._ports.delete(port_id, revision)
        return server

    def attach(self, session: Session, instance: LockedInstance, interface: NewInterface) -> str:
        """Returns the id of the port that the locked instance has from now on. Can lose `races` and
        `Quotas.race`.

        Raises PortNotFound, NetworkNotFound and PortInUse as the creation of a server does. Raises
        IpAddressGenerationFailure if no address is left, Forbidden if the server has too many interfaces. Raises
        BadRequest if the host of the instance has no bridge for the network. Raises OverQuota.
        """
        self._require_network_of_host(session, instance, interface)
        numbers = [*ports.numbers_of(session, instance.uuid), *neutron_ports.numbers_of(session, instance.uuid)]
        if len(numbers) >= MAX_NICS:
            raise errors.Forbidden(f"Maximum number of ports exceeded: a server may have {MAX_NICS}.")
        number = max(numbers, default=-1) + 1
        zone = session.scalar(select(Instance.availability_zone).where(Instance.uuid == instance.uuid))
        owner = device_owner(zone)
        if interface.service == NEUTRON:
            return self._attach_neutrons(session, instance, interface, number, owner)
        when_committed(session, lambda: self._hints.server_changed(instance.uuid, instance.host))
        if interface.port_id is not None:
            row = ports.lock(session, interface.port_id)
            if row is None:
                raise not_found(interface.port_id)
            require_free(row)
            ports.give_to(session, row.id, instance.uuid, number, owner, interface.tag)
            return interface.port_id
        if ports.exists(session, interface.id):  # the request was repeated
            raise errors.PortInUse(f"Port {interface.id} is still in use.")
        port = Port(
            id=interface.id,
            network_id=interface.network_id,
            project_id=instance.project_id,
            device_id=instance.uuid,
            device_owner=owner,
            security_groups=interface.security_groups,
            tag=interface.tag,
        )
        fixed = None if interface.ip_address is None else (AddressRequest(ip_address=interface.ip_address),)
        new = [PortCreation(service_context(), port, fixed, number)]
        locked = self._ports.lock(session, new)
        self._quotas.take(session, instance.project_id, {"ports": 1})
        self._ports.add(session, new, locked)
        return interface.id

    @staticmethod
    def _attach_neutrons(
        session: Session, instance: LockedInstance, interface: NewInterface, number: int, owner: str
    ) -> str:
        """Attaches a Neutron port, which the API or the user has made. The host calls a conductor to bind it."""
        port_id = interface.port_id or interface.id
        if neutron_ports.ports_of_servers(session, [port_id]):
            raise errors.PortInUse(f"Port {port_id} is still in use.")
        nic = msgspec.structs.replace(interface, port_id=port_id)
        made_for_instance = interface.port_id is None
        neutron_ports.add(
            session, instance.uuid, instance.project_id, owner, {number: nic}, made_for_instance=made_for_instance
        )
        return port_id

    @staticmethod
    def _require_network_of_host(session: Session, instance: LockedInstance, interface: NewInterface) -> None:
        if interface.segment is None:
            return
        query = select(ComputeNode.bridges).where(
            ComputeNode.host == instance.host, ComputeNode.hypervisor_hostname == instance.node
        )
        bridges = session.scalar(query)
        if bridges is not None and interface.segment not in bridges:
            raise errors.BadRequest(
                f"Network {interface.network_id} is not usable for instance {instance.uuid}: its host is not on that network."
            )

    def require(self, session: Session, instance_uuid: str, port_id: str) -> None:
        """Raises PortNotFound if the instance has no such port."""
        if neutron_ports.find(session, instance_uuid, port_id) is not None:
            return
        row = ports.lock(session, port_id)
        if row is None or row.instance_uuid != instance_uuid:
            raise not_found(port_id)

    @staticmethod
    def has(session: Session, instance_uuid: str, port_id: str) -> bool:
        """Returns whether the port belongs to the instance."""
        if neutron_ports.find(session, instance_uuid, port_id) is not None:
            return True
        return ports.server_of(session, port_id) == instance_uuid

    def delete(self, session: Session, instance_uuid: str, port_id: str, revision: int | None = None) -> None:
        """Mark a port of the instance for deletion. It is deleted as soon as the guest has released it. Idempotent.

        Raises PortNotFound if the instance has no such port, PreconditionFailed if it has another revision.
        """
        self.require(session, instance_uuid, port_id)
        row = ports.lock(session, port_id)
        if row is not None:
            require_revision(row, revision)
        ports.mark_pending_delete(session, port_id)

    def release_pending_delete(self, session: Session, instance_uuid: str, mac_address: str | None = None) -> None:
        """Delete the ports that are marked for deletion, because the guest no longer has their interfaces. With a MAC
        address, only the port with that address. Idempotent.
        """
        for port_id in ports.pending_delete_of(session, instance_uuid, mac_address):
            self.release(session, instance_uuid, port_id)

    def release(self, session: Session, instance_uuid: str, port_id: str) -> None:
        """Take the port from the instance. A port that was made for the instance, or is marked for deletion, is
        deleted. Idempotent.
        """
        neutron_ports.release(session, instance_uuid, self._at(), port_id)
        detached = ports.take_from(session, port_id, instance_uuid)
        if detached is not None and detached.removed:
            give(session, detached.project_id, {"ports": 1})
            when_committed(session, lambda: self._hints.members_changed(detached.groups))


def warn_of_foreign_ports(worker: TaskWorker) -> None:
    """Warn, in a conductor without Neutron, of Neutron ports in the database: it neither binds nor deletes them."""
    with worker.db.read() as session:
        has_some = neutron_ports.are_there(session)
    if has_some:
        LOG.error(
            "Servers have or had ports in Neutron, and this conductor is not configured for it: set [neutron] backend = neutron "
            "here as long as they do; minova-api's own decides for new servers"
        )
