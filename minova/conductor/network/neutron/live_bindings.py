"""Bindings in Neutron of servers that migrate live, by its extension `binding-extended`. Without it, a port is bound to its new host
once the guest has arrived there.

prepare     before the destination prepares: an inactive binding to it, so that the guest is defined with the interfaces of that host
activated   after the switch: the destination's binding is the active one, and the source's is removed
drop        the guest stays: the destination's binding is removed

One that is left because Neutron or a conductor was away at the end is made anew by the next migration to that host.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from minova import errors
from minova.objects.network.vif import UNBOUND, Vif
from minova.objects.servers.instance import Instance

if TYPE_CHECKING:
    from minova.neutron_client import NeutronClient

LOG = logging.getLogger(__name__)
Document = Mapping[str, Any]
ACTIVE = "ACTIVE"
# Seconds for all requests of one server together.
PATIENCE = 60.0


class LiveBindings:
    """`ovs_bridge`: the bridge if Neutron names none."""

    def __init__(self, client: "NeutronClient", ovs_bridge: str) -> None:
        self._client = client
        self._ovs_bridge = ovs_bridge

    def details(self, vif_type: str, details: Document | None) -> dict[str, Any]:
        vif_details = dict(details or {})
        if vif_type == "ovs":
            vif_details.setdefault("bridge_name", self._ovs_bridge)
        return vif_details

    def prepare(self, instance: Instance, host: str) -> Instance:
        """Returns the instance with its interfaces as they will be on this host. Idempotent. Raises PortBindingFailed if no agent there
        takes a port, and the client's errors.
        """
        client = self._client.within(PATIENCE)
        vifs = tuple(self._prepared(client, vif, host) if vif.from_neutron else vif for vif in instance.network_info)
        return msgspec.structs.replace(instance, network_info=vifs)

    def _prepared(self, client: "NeutronClient", vif: Vif, host: str) -> Vif:
        try:
            bindings_by_host = {binding["host"]: binding for binding in client.bindings(vif.port_id)}
            binding = bindings_by_host.get(host)
            if binding is not None and binding["status"] != ACTIVE:
                client.delete_binding(vif.port_id, host)  # it may be an old one: its agent may have changed since
                binding = None
            if binding is None:
                binding = client.create_binding(vif.port_id, host)
        except errors.NotFound as error:
            LOG.info("Port %s gets no binding to %s before its guest is there: %s", vif.port_id, host, error)
            return vif
        vif_type = str(binding.get("vif_type") or "")
        if vif_type in UNBOUND:
            raise errors.PortBindingFailed(f"Neutron has not bound port {vif.port_id} to host {host}: {vif_type}")
        return msgspec.structs.replace(
            vif, vif_type=vif_type, vif_details=self.details(vif_type, binding.get("vif_details"))
        )

    def drop(self, instance: Instance, host: str) -> None:
        """Raises the client's errors."""
        client = self._client.within(PATIENCE)
        for vif in instance.network_info:
            if vif.from_neutron:
                client.delete_binding(vif.port_id, host)

    def activated(self, client: "NeutronClient", port: Document, host: str) -> Document:
        """Returns the port with its prepared binding to this host as the active one; unchanged, if there is none."""
        before = port.get("binding:host_id")
        if before in (None, "", host):
            return port
        try:
            prepared = [binding for binding in client.bindings(port["id"]) if binding["host"] == host]
        except errors.NotFound:
            return port
        if not prepared:
            return port
        if prepared[0]["status"] != ACTIVE:
            client.activate_binding(port["id"], host)
        client.delete_binding(port["id"], str(before))
        return client.port(port["id"]) or port
