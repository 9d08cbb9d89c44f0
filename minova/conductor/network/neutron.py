"""Servers on networks of a Neutron beside minova. A row of `neutron_ports` says what a server has, and comes before any request.

transaction of the server:   rows, without ports
its host has claimed it:     bind: a port is made with `device_id` and `binding:host_id`, then noted; or the user's is bound
                             a crash between the two: the next `bind` finds the port by its `device_id`
transaction of its end:      the rows are released
then, and again later:       clean: its ports are deleted, those of users unbound. Also ports that nothing has noted: the
                             second time is long after any request of a conductor that has died could have made one
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.servers import DEFAULT_ZONE, nics_of
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.db.models import Instance, NeutronPort
from minova.db.networks import neutron_ports
from minova.neutron_client import NeutronClient
from minova.objects.network import AddressPair
from minova.objects.server_request import CreateServers
from minova.objects.vif import NEUTRON, UNBOUND, Vif, VifAddress, VifSubnet

LOG = logging.getLogger(__name__)
Document = Mapping[str, Any]
# Servers in one round.
LIMIT = 50
# Neutron is told once more, after every request of before has ended.
AGAIN = timedelta(minutes=5)
OWNER = "compute:"
_FREE = {"device_id": "", "device_owner": "", "binding:host_id": ""}


class NeutronPorts:
    """See `backend.NetworkBackend`. `ovs_bridge`: where Neutron names none."""

    def __init__(self, worker: Worker, client: NeutronClient, ovs_bridge: str) -> None:
        self._worker = worker
        self._client = client
        self._ovs_bridge = ovs_bridge

    def prepare(self, ctx: RequestContext, request: CreateServers) -> None:
        """Nothing: the API has asked Neutron."""

    def lock(self, session: Session, requests: Sequence[tuple[str, CreateServers]]) -> set[str]:
        """The ports of these requests that servers have."""
        wanted = {nic.port_id for _, request in requests for nic in nics_of(request) if nic.port_id is not None}
        return neutron_ports.held(session, wanted)

    def allocate(
        self,
        session: Session,
        ctx: RequestContext,
        request: CreateServers,
        instance_uuids: Sequence[str],
        locked: Collection[str],
    ) -> None:
        """PortInUse: another server has it."""
        nics = dict(enumerate(nics_of(request)))
        for nic in nics.values():
            if nic.port_id in locked:
                raise errors.PortInUse(f"Port {nic.port_id} is still in use.")
        owner = f"{OWNER}{request.availability_zone or DEFAULT_ZONE}"
        for instance_uuid in instance_uuids:
            neutron_ports.add(session, instance_uuid, ctx.project_id, owner, nics)

    def allocated(self, instance_uuids: Collection[str]) -> None:
        """Nothing."""

    # -- bind ------------------------------------------------------------------------------------------------------

    def bind(self, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        """See `NetworkBackend`. Raises as the client, too: PortInUse, PortNotFound, what Neutron refuses."""
        with self._worker.db.read() as session:
            _require_attempt(session, instance_uuid, attempt, host)
            rows = neutron_ports.of_instance(session, instance_uuid)
        known = {port["id"]: port for port in self._client.ports(device_id=instance_uuid)}
        described = Networks(self._client)
        bound = []
        owned = {row.port_id for row in rows}
        for row in rows:
            port = self._bound(row, known, host, owned)
            bound.append((row, self._vif(port, described)))
        self._worker.run(lambda session: self._note(session, bound, attempt, host))
        return tuple(vif for _, vif in bound)

    def _bound(self, row: NeutronPort, known: Mapping[str, Document], host: str, owned: set[str | None]) -> Document:
        """PortBindingFailed: no agent on this host takes it."""
        port: Document | None
        if row.port_id is None:
            port = self._made(row, known, host, owned)
        else:
            port = known.get(row.port_id) or self._client.port(row.port_id)
        if port is None:
            raise errors.PortNotFound(f"Port {row.port_id} could not be found.")
        if port.get("device_id") not in ("", row.instance_uuid):
            raise errors.PortInUse(f"Port {port['id']} is still in use.")
        wanted = {"device_id": row.instance_uuid, "device_owner": row.device_owner, "binding:host_id": host}
        if _differs(port, wanted) or port.get("binding:vif_type") in UNBOUND:
            port = self._client.update_port(port["id"], wanted)
        if port.get("binding:vif_type") in UNBOUND:
            raise errors.PortBindingFailed(
                f"Neutron has not bound port {port['id']} to host {host}: {port.get('binding:vif_type')}. "
                "Its log says why; no agent may be alive there"
            )
        return port

    def _made(self, row: NeutronPort, known: Mapping[str, Document], host: str, owned: set[str | None]) -> Document:
        nic = neutron_ports.nic_of(row)
        left = (port for uuid, port in known.items() if uuid not in owned and port["network_id"] == nic.network_id)
        port: Document | None = next((one for one in left if one.get("device_owner", "").startswith(OWNER)), None)
        if port is None:
            wanted: dict[str, Any] = {
                "network_id": nic.network_id,
                "tenant_id": row.project_id,
                "device_id": row.instance_uuid,
                "device_owner": row.device_owner,
                "admin_state_up": True,
                "binding:host_id": host,
            }
            if nic.ip_address is not None:
                wanted["fixed_ips"] = [{"ip_address": nic.ip_address}]
            if nic.security_groups is not None:
                wanted["security_groups"] = list(nic.security_groups)
            port = self._client.create_port(wanted)
        made = port
        if not self._worker.run(lambda session: neutron_ports.give_port(session, row.id, made["id"])):
            # The server has gone, or another conductor has made one at the same time.
            self._client.delete_port(made["id"])
            raise errors.ServiceUnavailable(f"The ports of instance {row.instance_uuid} were changed meanwhile.")
        owned.add(made["id"])
        return made

    def _note(self, session: Session, bound: Sequence[tuple[NeutronPort, Vif]], attempt: int, host: str) -> None:
        for row, vif in bound:
            _require_attempt(session, row.instance_uuid, attempt, host)
            if not neutron_ports.write(session, row.id, vif, self._worker.at(), host):
                raise errors.ServiceUnavailable(f"The ports of instance {row.instance_uuid} were changed meanwhile.")

    # -- what Neutron shows ----------------------------------------------------------------------------------------

    def refresh(self, instance_uuid: str) -> None:
        """The rows say what Neutron knows now. A port that was deleted there is no interface any more."""
        with self._worker.db.read() as session:
            rows = [row for row in neutron_ports.of_instance(session, instance_uuid) if row.port_id is not None]
        if not rows:
            return
        known = {port["id"]: port for port in self._client.ports(device_id=instance_uuid)}
        described = Networks(self._client)
        shown = {row.id: self._vif(known[row.port_id], described) for row in rows if row.port_id in known}
        gone = [row.port_id for row in rows if row.vif is not None and row.port_id not in known]

        def work(session: Session) -> None:
            for row in rows:
                if row.id in shown:
                    neutron_ports.write(session, row.id, shown[row.id], self._worker.at())
            for port_id in gone:
                LOG.warning("Port %s of instance %s was deleted in Neutron", port_id, instance_uuid)
                neutron_ports.release(session, instance_uuid, self._worker.at(), port_id)

        self._worker.run(work)

    def heal(self) -> None:
        """Of the servers whose interfaces were looked at the longest time ago."""
        with self._worker.db.read() as session:
            uuids = neutron_ports.oldest(session, LIMIT)
        for uuid in uuids:
            self.refresh(uuid)

    def _vif(self, port: Document, described: "Networks") -> Vif:
        network, subnets = described.of(port["network_id"])
        details = dict(port.get("binding:vif_details") or {})
        if port.get("binding:vif_type") == "ovs":
            details.setdefault("bridge_name", self._ovs_bridge)
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
            vif_type=str(port.get("binding:vif_type") or ""),
            vif_details=details,
            active=port.get("status") == "ACTIVE",
        )

    # -- what is left ----------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Neutron is told of interfaces that servers have no more. What fails is done again the next time."""
        before = self._worker.at() - AGAIN
        with self._worker.db.read() as session:
            uuids = neutron_ports.to_clean(session, before, LIMIT)
        for uuid in uuids:
            self._clean(uuid)
        self.unbind()

    def forsake(self) -> None:
        """Interfaces of servers that a conductor of the last release has deleted, which knows none of Neutron."""
        self._worker.run(lambda session: neutron_ports.forsake(session, self._worker.at(), LIMIT))

    def _clean(self, instance_uuid: str) -> None:
        with self._worker.db.read() as session:
            rows = neutron_ports.all_of(session, instance_uuid)
            lives = session.scalar(
                select(Instance.id).where(Instance.uuid == instance_uuid, Instance.deleted_at.is_(None))
            )
        ports = {port["id"]: port for port in self._client.ports(device_id=instance_uuid)}
        has = {row.port_id for row in rows if row.released_at is None}
        gone = [row for row in rows if row.released_at is not None]
        for row in gone:
            port = ports.pop(row.port_id or "", None)
            if port is None or row.port_id in has:
                continue
            if row.made_for_instance:
                self._client.delete_port(port["id"])
            else:
                self._unbind(port["id"])
        if lives is None and not has:  # ports that no row names: a conductor died before it could note them
            for uuid, port in ports.items():
                if port.get("device_owner", "").startswith(OWNER):
                    LOG.warning("Port %s of instance %s is left over and is deleted", uuid, instance_uuid)
                    self._client.delete_port(uuid)
        self._worker.run(
            lambda session: neutron_ports.cleaned(session, gone, self._worker.at(), self._worker.at() - AGAIN)
        )

    def _unbind(self, port_id: str) -> None:
        try:
            self._client.update_port(port_id, _FREE)
        except errors.NotFound:
            LOG.debug("Port %s has gone already", port_id)

    def unbind(self) -> None:
        """Of shelved servers and failed ones, which keep their ports without a host."""
        with self._worker.db.read() as session:
            rows = neutron_ports.without_host(session, LIMIT)
        for row in rows:
            try:
                self._client.update_port(str(row.port_id), {"binding:host_id": ""})
            except errors.NotFound:
                LOG.debug("Port %s has gone already", row.port_id)
            self._worker.run(lambda session, row_id=row.id: neutron_ports.unbound(session, row_id))  # type: ignore[misc]


class Networks:
    """Networks and their subnets, each asked once."""

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


def _differs(port: Document, wanted: Document) -> bool:
    return any(port.get(name) != value for name, value in wanted.items())


def _require_attempt(session: Session, instance_uuid: str, attempt: int, host: str) -> None:
    row = session.execute(
        select(Instance.attempt, Instance.host).where(Instance.uuid == instance_uuid, Instance.deleted_at.is_(None))
    ).one_or_none()
    if row is None or (row.attempt, row.host) != (attempt, host):
        raise errors.StaleAttempt(f"attempt {attempt} of instance {instance_uuid} is not {host}'s any more")
