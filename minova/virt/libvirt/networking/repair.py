"""Puts interfaces of running guests back on the bridges of their `local` networks.

libvirt does not notice that a bridge was removed by hand. Moving an interface to another network and back puts it on its
bridge again; the guest notices it only as a pause.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.objects.network.vif import Vif, bridge_name, network_name, tap_name
from minova.virt.libvirt.host import lookup

LOG = logging.getLogger(__name__)
_BRIDGES = Path("/sys/class/net")
_TRANSIT, _TRANSIT_BRIDGE = "minova-transit", "mntransit"


def ports_of(bridge: str) -> frozenset[str]:
    """Returns the devices on a bridge of this host."""
    try:
        return frozenset(each.name for each in (_BRIDGES / bridge / "brif").iterdir())
    except FileNotFoundError:
        return frozenset()


class Repair:
    """Errors of libvirt are raised as they are. `ports_of` replaces the function of this module in tests."""

    def __init__(self, ports_of: Callable[[str], Iterable[str]] = ports_of) -> None:
        self._ports_of = ports_of

    def plug(self, connection: Any, instance_uuid: str, vif: Vif) -> None:
        """Puts the interface of a running guest back on its network's bridge, if it is not there."""
        tap = tap_name(vif.port_id)
        if tap in self._ports_of(bridge_name(vif.network_id)):
            return
        domain = lookup(connection, instance_uuid)
        interface = None if domain is None else _interface(domain, tap)
        if interface is None:
            return
        LOG.warning("%s of instance %s is not on its bridge: it is plugged again", tap, instance_uuid)
        self._move(connection, domain, interface, vif.network_id)

    def plug_all(self, connection: Any, domain: Any, network_id: str) -> None:
        """Puts all interfaces of a running guest on the network back on its new bridge."""
        for interface in _interfaces(domain):
            source = interface.find("source")
            if source is not None and source.get("network") == network_name(network_id):
                self._move(connection, domain, interface, network_id)

    def _move(self, connection: Any, domain: Any, interface: ET.Element, network_id: str) -> None:
        transit = _transit(connection)
        try:
            for name in (_TRANSIT, network_name(network_id)):
                _move(domain, interface, name)
        finally:
            transit.destroy()


def _interface(domain: Any, tap: str) -> ET.Element | None:
    """Returns the interface, or None if the guest no longer has it or does not run."""
    return next(
        (each for each in _interfaces(domain) if (dev := each.find("target")) is not None and dev.get("dev") == tap),
        None,
    )


def _interfaces(domain: Any) -> list[ET.Element]:
    """Returns the interfaces on networks of libvirt that a guest has now; none if it does not run."""
    if not domain.isActive():
        return []
    return ET.fromstring(domain.XMLDesc()).findall("devices/interface[@type='network']")


def _move(domain: Any, interface: ET.Element, network: str) -> None:
    source = interface.find("source")
    assert source is not None
    source.attrib.clear()
    source.set("network", network)
    domain.updateDeviceFlags(ET.tostring(interface, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)


def _transit(connection: Any) -> Any:
    """Returns a network that leads nowhere, created if it is missing."""
    try:
        return connection.networkLookupByName(_TRANSIT)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_NETWORK:
            raise
    root = ET.Element("network")
    ET.SubElement(root, "name").text = _TRANSIT
    ET.SubElement(root, "bridge", name=_TRANSIT_BRIDGE, stp="off", delay="0")
    ET.SubElement(root, "dns", enable="no")
    return connection.networkCreateXML(ET.tostring(root, encoding="unicode"))
