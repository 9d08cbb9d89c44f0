"""Servers on networks of an external Neutron. Rows of `neutron_ports` record a server's interfaces, and are written
before any request to Neutron.

transaction of the server:   writes the rows, without ports
its host has claimed it:     bind: makes a port with `device_id` and `binding:host_id`, then records it; or binds the
                             user's port. After a crash in between, the next `bind` finds the port by a mark that only
                             minova can set.
transaction of its end:      releases the rows
then, and again later:       clean: deletes its ports, and unbinds those of users. Also deletes ports that were never
                             recorded: the second round is long after any request of a dead conductor could have made
                             one. See `neutron_cleaning.py`.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.neutron.cleaning import LIMIT, NeutronCleaning
from minova.conductor.network.neutron.limits import InstanceLocks, RetryQueue
from minova.conductor.network.neutron.live_bindings import LiveBindings
from minova.conductor.network.servers import InterfaceAllocation
from minova.conductor.tasks.worker import TaskWorker
from minova.db.models import Instance, NeutronPort
from minova.db.networks import neutron_ports
from minova.neutron_client import NeutronClient
from minova.objects.network.network import AddressPair
from minova.objects.network.port_features import refusal_reason
from minova.objects.network.port_marks import interface_of, is_marked, mark
from minova.objects.network.vif import NEUTRON, UNBOUND, Vif, VifAddress, VifSubnet, device_owner
from minova.objects.servers.states import TaskState
from minova.races import Races

T = TypeVar("T")
LOG = logging.getLogger(__name__)
Document = Mapping[str, Any]
# Seconds for all requests of one bind together. Far below AGAIN, so that the second cleaning of a deleted server comes
# after them.
PATIENCE = 120.0


class NeutronPorts:
    """See `backend.NetworkBackend`. `ovs_bridge`: the bridge if Neutron names none."""

    # The API has already checked with Neutron, so nothing can be missing.
    races: Races = ()

    def __init__(
        self, worker: TaskWorker, client: NeutronClient, ovs_bridge: str, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker = worker
        self._client = client
        self._ovs_bridge = ovs_bridge
        self._instance_locks = InstanceLocks()
        self._cleaning = NeutronCleaning(worker, client, self._instance_locks, ticks)
        self.bindings = LiveBindings(client, ovs_bridge)
        self._looks: RetryQueue[str] = RetryQueue("Neutron does not show the ports of instance", ticks)

    def lock(self, session: Session, creations: Sequence[InterfaceAllocation]) -> set[str]:
        """Returns the ports in these requests that servers have already."""
        nics = [nic for creation in creations for nic in creation.request.requested_networks]
        port_ids = {nic.port_id for nic in nics if nic.port_id is not None}
        return neutron_ports.ports_of_servers(session, port_ids)

    def allocate(self, session: Session, creations: Sequence[InterfaceAllocation], locked: Collection[str]) -> None:
        """Raises PortInUse if another server has the port."""
        for creation in creations:
            nics = dict(enumerate(creation.request.requested_networks))
            for nic in nics.values():
                if nic.port_id in locked:
                    raise errors.PortInUse(f"Port {nic.port_id} is still in use.")
            owner = device_owner(creation.request.availability_zone)
            for instance_uuid in creation.instance_uuids:
                neutron_ports.add(session, instance_uuid, creation.ctx.project_id, owner, nics)

    def allocated(self, instance_uuids: Collection[str]) -> None:
        """Does nothing."""

    # -- bind ------------------------------------------------------------------------------------------------------

    def bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """See `NetworkBackend`. Also raises the client's errors: PortInUse, PortNotFound, and errors for what Neutron
        refuses.

        Raises ServiceUnavailable at once if a bind of this server is in progress, or too many servers wait for Neutron.
        """
        with self._instance_locks.take(instance_uuid):
            return self._bind(instance_uuid, attempt, host)

    def _bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        with self._worker.db.read() as session:
            _require_attempt(session, instance_uuid, attempt, host)
        client = self._client.within(PATIENCE)
        ports_by_id = {port["id"]: port for port in client.ports(device_id=instance_uuid)}
        # Read after Neutron's list, so that it includes what another conductor has recorded of these ports.
        with self._worker.db.read() as session:
            _require_attempt(session, instance_uuid, attempt, host)
            rows = neutron_ports.of_instance(session, instance_uuid)
        described = NeutronNetworks(client)
        bound = []
        for row in rows:
            port = self._bound(client, row, ports_by_id, host)
            bound.append((row, self._vif(port, described)))
        self._worker.run(lambda session: self._note(session, bound, attempt, host))
        return tuple(vif for _, vif in bound)

    def _bound(
        self, client: NeutronClient, row: NeutronPort, ports_by_id: Mapping[str, Document], host: str
    ) -> Document:
        """Raises PortBindingFailed if no agent on this host takes the port, PortNotSupported if the user's port needs a
        feature that minova does not have.
        """
        port: Document | None
        if row.port_id is None:
            port = self._port_of(client, row, ports_by_id, host)
        else:
            port = ports_by_id.get(row.port_id) or client.port(row.port_id)
        if port is None:
            raise errors.PortNotFound(f"Port {row.port_id} could not be found.")
        if port.get("device_id") not in ("", row.instance_uuid):
            raise errors.PortInUse(f"Port {port['id']} is still in use.")
        reason = None if row.made_for_instance else refusal_reason(port)
        if reason is not None:  # Neutron shows a conductor more than the user for whom the API asks
            raise errors.PortNotSupported(reason)
        attributes = {"device_id": row.instance_uuid, "device_owner": row.device_owner, "binding:host_id": host}
        port = self.bindings.activated(client, port, host)
        if _differs(port, attributes) or port.get("binding:vif_type") in UNBOUND:
            port = client.update_port(port["id"], attributes)
        if port.get("binding:vif_type") in UNBOUND:
            raise errors.PortBindingFailed(
                f"Neutron has not bound port {port['id']} to host {host}: {port.get('binding:vif_type')}. "
                "Its log says why; no agent may be alive there"
            )
        return port

    def _port_of(
        self, client: NeutronClient, row: NeutronPort, ports_by_id: Mapping[str, Document], host: str
    ) -> Document:
        """Returns the port that was made for this row before, or a new one."""
        row_ports = (port for port in ports_by_id.values() if _is_for(port, row))
        adopted: Document | None = next(row_ports, None)
        port = adopted or client.create_port(self._port_body(row, host))
        if not self._worker.run(lambda session: neutron_ports.give_port(session, row.id, port["id"])):
            # The server is deleted, or another conductor has made a port at the same time. A port that was found may be
            # the one that the other conductor has recorded, so only a new port is deleted.
            if adopted is None:
                self._client.delete_port(port["id"])
            raise errors.ServiceUnavailable(f"The ports of instance {row.instance_uuid} were changed meanwhile.")
        return port

    @staticmethod
    def _port_body(row: NeutronPort, host: str) -> dict[str, Any]:
        nic = neutron_ports.nic_of(row)
        attributes: dict[str, Any] = {
            "network_id": nic.network_id,
            "tenant_id": row.project_id,
            "device_id": row.instance_uuid,
            "device_owner": row.device_owner,
            "admin_state_up": True,
            "binding:host_id": host,
            **mark(row.instance_uuid, row.id),
        }
        if nic.ip_address is not None:
            attributes["fixed_ips"] = [{"ip_address": nic.ip_address}]
        if nic.security_groups is not None:
            attributes["security_groups"] = list(nic.security_groups)
        return attributes

    def _note(self, session: Session, bound: Sequence[tuple[NeutronPort, Vif]], attempt: int, host: str) -> None:
        for row, vif in bound:
            _require_attempt(session, row.instance_uuid, attempt, host)
            if not neutron_ports.write(session, row.id, vif, self._worker.at(), host):
                raise errors.ServiceUnavailable(f"The ports of instance {row.instance_uuid} were changed meanwhile.")

    # -- what Neutron shows ----------------------------------------------------------------------------------------

    def refresh(self, instance_uuid: str) -> None:
        """Update the rows from Neutron. A port that was deleted there is no longer an interface. Raises the same errors
        as the client and `bind`.
        """
        with self._instance_locks.take(instance_uuid):
            self._refresh(instance_uuid)

    def _refresh(self, instance_uuid: str) -> None:
        with self._worker.db.read() as session:
            rows = [row for row in neutron_ports.of_instance(session, instance_uuid) if row.port_id is not None]
            idle = Instance.task_state.is_(None), Instance.deleted_at.is_(None)
            host = session.scalar(select(Instance.host).where(Instance.uuid == instance_uuid, *idle))
        if not rows:
            return
        client = self._client.within(PATIENCE)
        ports_by_id = {port["id"]: port for port in client.ports(device_id=instance_uuid)}
        described = NeutronNetworks(client)
        vifs_by_row: dict[int, Vif] = {}
        deleted_ports: dict[int, str] = {}
        for row in rows:
            port_id = str(row.port_id)
            # The list may lack the port, because its user may have cleared its `device_id`. The guest still has the
            # interface.
            port = ports_by_id.get(port_id) or client.port(port_id)
            if port is not None and port.get("device_id") == instance_uuid:
                vifs_by_row[row.id] = self._vif(_with_host(client, port, row, host), described)
            elif port is None and row.vif is not None:
                deleted_ports[row.id] = port_id

        def work(session: Session) -> None:
            for row in rows:
                if row.id in vifs_by_row:
                    neutron_ports.write(session, row.id, vifs_by_row[row.id], self._worker.at())
                elif row.id in deleted_ports:
                    LOG.warning("Port %s of instance %s was deleted in Neutron", row.port_id, instance_uuid)
                    neutron_ports.forget(session, row.id, deleted_ports[row.id])
                elif row.refreshed_at is not None:
                    neutron_ports.looked_at(session, row.id, self._worker.at())

        self._worker.run(work)

    def heal(self) -> None:
        """Refreshes the servers whose interfaces were not read for the longest time."""
        with self._worker.db.read() as session:
            uuids = neutron_ports.oldest(session, LIMIT + self._looks.failing)
        self._looks.run(self._looks.due(uuids, LIMIT), self.refresh)

    def _vif(self, port: Document, described: "NeutronNetworks") -> Vif:
        network, subnets = described.of(port["network_id"])
        vif_type = str(port.get("binding:vif_type") or "")
        return Vif(
            port_id=port["id"],
            mac_address=port["mac_address"].lower(),
            network_id=port["network_id"],
            network_name=network.get("name") or "",
            network_type=NEUTRON,
            mtu=int(network.get("mtu") or 1500),
            admin_state_up=bool(port.get("admin_state_up", True)),
            addresses=tuple(
                VifAddress(subnet_id=fixed["subnet_id"], ip_address=fixed["ip_address"]) for fixed in port["fixed_ips"]
            ),
            subnets=subnets,
            port_security_enabled=bool(port.get("port_security_enabled", True)),
            allowed_address_pairs=tuple(
                AddressPair(ip_address=pair["ip_address"], mac_address=pair.get("mac_address") or "")
                for pair in port.get("allowed_address_pairs") or ()
            ),
            vif_type=vif_type,
            vif_details=self.bindings.details(vif_type, port.get("binding:vif_details")),
            active=port.get("status") == "ACTIVE",
        )

    # -- what is left ----------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Removes in Neutron the interfaces that servers no longer have. Failed removals are repeated, after a longer
        pause each time.
        """
        try:
            self._cleaning.clean()
        finally:
            self._cleaning.unbind()

    def release_orphans(self) -> None:
        """See `NeutronCleaning`."""
        self._cleaning.release_orphans()

    def unbind(self) -> None:
        """Unbinds the ports of shelved and failed servers, which keep their ports without a host."""
        self._cleaning.unbind()


class NeutronNetworks:
    """Reads networks and their subnets from Neutron, each only once."""

    def __init__(self, client: NeutronClient) -> None:
        self._client = client
        self._known: dict[str, tuple[Document, tuple[VifSubnet, ...]]] = {}

    def of(self, network_id: str) -> tuple[Document, tuple[VifSubnet, ...]]:
        if network_id not in self._known:
            network = self._client.network(network_id) or {}
            subnets = tuple(
                VifSubnet(
                    id=subnet["id"],
                    cidr=subnet["cidr"],
                    gateway_ip=subnet.get("gateway_ip"),
                    enable_dhcp=bool(subnet.get("enable_dhcp", True)),
                    dns_nameservers=tuple(subnet.get("dns_nameservers") or ()),
                )
                for subnet in self._client.subnets(network_id)
            )
            self._known[network_id] = network, subnets
        return self._known[network_id]


def _differs(port: Document, attributes: Document) -> bool:
    return any(port.get(name) != value for name, value in attributes.items())


def _with_host(client: NeutronClient, port: Document, row: NeutronPort, host: str | None) -> Document:
    """Binds the port to `host`, the host of its idle server, if Neutron has no host for it. A conductor may have died
    in `NeutronCleaning.unbind` after the server had come back.
    """
    if host is None or row.host != host or port.get("binding:host_id") != "":
        return port
    return client.update_port(port["id"], {"binding:host_id": host})


def _is_for(port: Document, row: NeutronPort) -> bool:
    """Returns whether minova has made the port for this row."""
    return (
        is_marked(port, row.instance_uuid)
        and interface_of(port) == row.id
        and port.get("tenant_id") == row.project_id
        and port["network_id"] == neutron_ports.nic_of(row).network_id
    )


def _require_attempt(session: Session, instance_uuid: str, attempt: int, host: str) -> None:
    row = session.execute(
        select(Instance.attempt, Instance.host, Instance.task_state).where(
            Instance.uuid == instance_uuid, Instance.deleted_at.is_(None)
        )
    ).one_or_none()
    if row is None or (row.attempt, row.host) != (attempt, host):
        raise errors.StaleAttempt(f"attempt {attempt} of instance {instance_uuid} is not {host}'s any more")
    if row.task_state == TaskState.DELETING:
        raise errors.StaleAttempt(f"instance {instance_uuid} is being deleted")
