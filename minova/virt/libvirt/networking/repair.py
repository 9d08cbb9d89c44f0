"""Repairs `local` networks while guests run: a lost network, its dnsmasq, and the guests' connections to its bridge.

libvirt does not notice that a dnsmasq has ended, nor that a bridge was removed by hand. Each step needs libvirt's
rights, so each is a call of libvirt: a change of a DNS entry starts dnsmasq again, and moving an interface to another
network and back puts it on its bridge again. The guest notices both only as a pause.
"""

import errno
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.objects.network.vif import Vif, bridge_name, network_name, tap_name
from minova.virt.libvirt.host import lookup

LOG = logging.getLogger(__name__)
PATIENCE = 2.0
_BRIDGES = Path("/sys/class/net")
_TRANSIT, _TRANSIT_BRIDGE = "minova-transit", "mntransit"
_TXT = '<txt name="minova-repair" value="-"/>'


def refuses(address: str) -> bool:
    """Whether nothing listens for DNS at this address. A slow server does not count as lost."""
    try:
        with socket.create_connection((address, 53), PATIENCE):
            return False
    except OSError as error:
        return error.errno == errno.ECONNREFUSED


def ports_of(bridge: str) -> frozenset[str]:
    """Returns the devices on a bridge of this host."""
    try:
        return frozenset(each.name for each in (_BRIDGES / bridge / "brif").iterdir())
    except FileNotFoundError:
        return frozenset()


class Repair:
    """Errors of libvirt are raised as they are. `refuses` and `ports_of` replace the functions of this module in
    tests.
    """

    def __init__(
        self,
        refuses: Callable[[str], bool] = refuses,
        ports_of: Callable[[str], Iterable[str]] = ports_of,
    ) -> None:
        self._refuses = refuses
        self._ports_of = ports_of

    def dnsmasq(self, network: Any, gateway: str) -> None:
        """Starts dnsmasq again if nothing listens at the gateway. The network must run."""
        if not self._refuses(gateway):
            return
        LOG.warning("dnsmasq of network %s has ended: it is started again", network.name())
        section, live = libvirt.VIR_NETWORK_SECTION_DNS_TXT, libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE
        add, delete = libvirt.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, libvirt.VIR_NETWORK_UPDATE_COMMAND_DELETE
        with suppress(libvirt.libvirtError):  # left by an interrupted repair
            network.update(delete, section, -1, _TXT, live)
        try:
            network.update(add, section, -1, _TXT, live)
        finally:
            network.update(delete, section, -1, _TXT, live)

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
        transit = _transit(connection)
        try:
            for name in (_TRANSIT, network_name(vif.network_id)):
                _move(domain, interface, name)
        finally:
            transit.destroy()


def _interface(domain: Any, tap: str) -> ET.Element | None:
    """Returns the interface, or None if the guest no longer has it or does not run."""
    if not domain.isActive():
        return None
    interfaces = ET.fromstring(domain.XMLDesc()).findall("devices/interface[@type='network']")
    return next(
        (each for each in interfaces if (dev := each.find("target")) is not None and dev.get("dev") == tap), None
    )


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
