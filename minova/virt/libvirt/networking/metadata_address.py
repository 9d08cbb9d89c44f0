"""The address of the metadata service on this host: it belongs to the bridge of a virtual network of libvirt without
guests.

Guests of all `local` networks reach it there, since the host is their gateway. The bridges of these networks cannot
have the address: the dnsmasq of one network would take it from the dnsmasq of another.
"""

import logging
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.objects.servers.guest_metadata import ADDRESS
from minova.virt.libvirt.networking.host_routes import Route

LOG = logging.getLogger(__name__)
NETWORK, BRIDGE = "minova-metadata", "mnmetadata"


def network_xml() -> str:
    """Returns the network. It has neither DHCP nor DNS, so libvirt starts no dnsmasq."""
    root = ET.Element("network")
    ET.SubElement(root, "name").text = NETWORK
    ET.SubElement(root, "bridge", name=BRIDGE, stp="off", delay="0")
    ET.SubElement(root, "dns", enable="no")
    ET.SubElement(root, "ip", address=ADDRESS, prefix="32")
    return ET.tostring(root, encoding="unicode")


class MetadataAddress:
    """Errors of libvirt are raised as they are. Unless `enabled` the host does not get the address."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._warned = False

    def add(self, connection: Any, routes: Iterable[Route]) -> None:
        """Add the address. Idempotent. A host that reaches another service at this address keeps that service."""
        if not self._enabled:
            self.remove(connection)  # the option was true before
            return
        network = _lookup(connection)
        if network is not None and network.isActive():
            return
        taken = next((route for route in routes if route.destination in {ADDRESS, f"{ADDRESS}/32"}), None)
        if taken is not None:
            if not self._warned:
                LOG.warning("Guests have no metadata service, as there is %s", taken)
            self._warned = True
            return
        if network is None:
            network = connection.networkDefineXML(network_xml())
            network.setAutostart(1)
        network.create()

    def remove(self, connection: Any) -> None:
        """Remove the address. Called with the removal of the last `local` network."""
        network = _lookup(connection)
        if network is not None:
            if network.isActive():
                network.destroy()
            network.undefine()


def is_there(connection: Any) -> bool:
    """Whether the host has the address."""
    network = _lookup(connection)
    return network is not None and bool(network.isActive())


def _lookup(connection: Any) -> Any:
    """Returns the network, or None if there is none."""
    try:
        return connection.networkLookupByName(NETWORK)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NETWORK:
            return None
        raise
