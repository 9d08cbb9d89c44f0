"""Attaches and detaches interfaces of existing domains, also while their guests run.

The domain's definition contains an interface before any part of it is made, and until all parts are removed. So after a
crash at any point the definition shows what exists, and repeating the same work completes it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any
from xml.etree import ElementTree as ET

import libvirt

from minova.errors import GuestBusy, InterfaceAttachFailed, InterfaceDetachFailed
from minova.objects.network.network import FLAT, LOCAL
from minova.objects.network.vif import Vif, filter_name, network_name
from minova.virt.libvirt.error_codes import meaning
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.networking.filters import PortFilters
from minova.virt.libvirt.networking.networks import LocalNetworks

LOG = logging.getLogger(__name__)
# Seconds between checks whether a guest has released an interface.
POLL = 0.2
_LIVE, _CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
# The error codes of libvirt for an interface that is gone, or whose removal has begun.
_GONE = frozenset({libvirt.VIR_ERR_DEVICE_MISSING, libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_OPERATION_INVALID})


class Hotplug:
    """Errors of libvirt are raised as they are, unless the guest itself is the cause.

    `connection` returns a connection for a purpose and a domain's name.
    `attempts` is how often a guest is asked to release an interface; `timeout` is the wait in seconds after each.
    """

    def __init__(
        self,
        connection: Callable[[str, str], AbstractContextManager[Any]],
        networks: LocalNetworks,
        filters: PortFilters,
        *,
        attempts: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connection = connection
        self._networks = networks
        self._filters = filters
        self._attempts = attempts
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep

    def refresh(
        self, connection: Any, vifs: Mapping[str, Sequence[Vif]], is_own: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Set links up or down as these interfaces say. Returns the instances whose domains have more or fewer
        interfaces.
        """
        differing = []
        for domain in connection.listAllDomains():
            uuid = domain.UUIDString()
            vifs_of_guest = vifs.get(uuid, ())
            try:
                macs = {vif.mac_address for vif in vifs_of_guest}
                if any({vif.mac_address for vif in of_part} != macs for of_part in _parts(domain)) and is_own(uuid):
                    differing.append(uuid)
                if vifs_of_guest:
                    _set_links(domain, vifs_of_guest)
            except libvirt.libvirtError as error:
                if not connection.isAlive():
                    raise
                LOG.info("The interfaces of domain %s are left as they are: %s", domain.name(), error)
        return tuple(differing)

    def attach(self, domain: Any, vif: Vif, xml: str, hostname: str) -> None:
        """Attach an interface, given as `xml`. Idempotent. Raises InterfaceAttachFailed if the guest cannot have it.

        After a failure no part of it is left in the domain, unless libvirt reports that the guest has it, or does not
        answer.
        """
        connection = domain.connect()
        if _interface(domain, vif, libvirt.VIR_DOMAIN_XML_INACTIVE) is None:
            domain.attachDeviceFlags(xml, _CONFIG)
        try:
            if not vif.from_neutron:
                self._networks.plug(connection, [vif], domain.UUIDString(), hostname)
                self._filters.define(connection, [vif])
            if domain.isActive() and _interface(domain, vif) is None:
                self._attach_live(domain, xml)
        except Exception:
            if connection.isAlive():
                with suppress(
                    libvirt.libvirtError, InterfaceDetachFailed
                ):  # the next refresh removes the rest of the interface
                    self._remove(domain, vif)
            raise

    def _attach_live(self, domain: Any, xml: str) -> None:
        try:
            domain.attachDeviceFlags(xml, _LIVE)
        except libvirt.libvirtError as error:
            if not domain.connect().isAlive() or meaning(error) is GuestBusy:
                raise
            if domain.isActive():  # a guest that has just ended gets it at its next start
                raise InterfaceAttachFailed(f"the guest cannot take the interface while it runs: {error}") from error

    def detach(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> None:
        """Detach an interface. Idempotent. Raises InterfaceDetachFailed if the guest has not released it and still has
        it.
        """
        name = vif.mac_address
        for attempt in range(self._attempts):
            if not self._ask(instance_uuid, vif) or self._has_gone(instance_uuid, vif, check):
                break
            LOG.info("Instance %s has not let go of interface %s, asked %d times", instance_uuid, name, attempt + 1)
        else:
            raise InterfaceDetachFailed(
                f"the guest has not let go of the interface {name}, asked {self._attempts} times within {self._timeout:g} s each"
            )
        with self._connection("Detaching an interface", instance_uuid) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is not None:
                self._remove(domain, vif)

    def _ask(self, instance_uuid: str, vif: Vif) -> bool:
        """Asks the guest to release the interface. Returns False if it does not have the interface."""
        with self._connection("Detaching an interface", instance_uuid) as connection:
            domain = lookup(connection, instance_uuid)
            element = None if domain is None else _interface(domain, vif)
            if element is None:
                return False
            try:
                domain.detachDeviceFlags(ET.tostring(element, encoding="unicode"), _LIVE)
            except libvirt.libvirtError as error:
                if error.get_error_code() not in _GONE:
                    raise
                LOG.debug("Instance %s: %s", instance_uuid, error)
            return True

    def _has_gone(self, instance_uuid: str, vif: Vif, check: Callable[[], None]) -> bool:
        until = self._clock() + self._timeout
        while True:
            check()
            with self._connection("Detaching an interface", instance_uuid) as connection:
                domain = lookup(connection, instance_uuid)
                if domain is None or _interface(domain, vif) is None:
                    return True
            if self._clock() >= until:
                return False
            self._sleep(POLL)

    def _remove(self, domain: Any, vif: Vif) -> None:
        """Removes the rest of an interface that no guest has any more; its entry in the definition comes last.

        Raises InterfaceDetachFailed if the guest has it: libvirt would only ask the guest to release it, and another
        guest could get its addresses.
        """
        connection = domain.connect()
        if _interface(domain, vif) is not None:
            raise InterfaceDetachFailed(f"the guest has the interface {vif.mac_address}")
        defined = _interface(domain, vif, libvirt.VIR_DOMAIN_XML_INACTIVE)

        def undefine() -> None:
            if defined is not None:
                domain.detachDeviceFlags(ET.tostring(defined, encoding="unicode"), _CONFIG)

        if vif.from_neutron:
            undefine()
        else:
            name = self._networks.source_of(vif)
            self._networks.unplug_interface(connection, domain, name, vif.mac_address, undefine)
        self._filters.remove(connection, [filter_name(vif.port_id)])


def interfaces_of_ports(domain: Any) -> tuple[Vif, ...]:
    """Returns the interfaces that the guest has, or would have at its next start: only their ports, MAC addresses and
    networks.
    """
    return tuple({vif.mac_address: vif for of_part in _parts(domain) for vif in of_part}.values())


def _parts(domain: Any) -> list[list[Vif]]:
    """Returns the interfaces of ports in the domain's definition, and those of its guest, if it runs."""
    flags = [libvirt.VIR_DOMAIN_XML_INACTIVE, *([0] if domain.isActive() else [])]
    return [list(_named_in(domain.XMLDesc(each))) for each in flags]


def _named_in(xml: str) -> Iterator[Vif]:
    for element in ET.fromstring(xml).findall("devices/interface"):
        mac, reference, source = element.find("mac"), element.find("filterref"), element.find("source")
        name = "" if reference is None else reference.get("filter", "")
        if mac is None or not name.startswith(filter_name("")):
            continue
        network = "" if source is None else source.get("network", "")
        yield Vif(
            port_id=name.removeprefix(filter_name("")),
            mac_address=mac.get("address", "").lower(),
            network_id=network.removeprefix(network_name("")),
            network_type=LOCAL if network else FLAT,
        )


def _set_links(domain: Any, vifs: Sequence[Vif]) -> None:
    """Set the links of a running guest. Its definition is made anew at its next start."""
    if not domain.isActive():
        return
    up_by_mac = {vif.mac_address: vif.admin_state_up for vif in vifs}
    for element in ET.fromstring(domain.XMLDesc()).findall("devices/interface"):
        mac, link = element.find("mac"), element.find("link")
        address = "" if mac is None else mac.get("address", "").lower()
        is_up = link is None or link.get("state") != "down"
        if is_up == up_by_mac.get(address, is_up):
            continue
        if link is None:
            link = ET.SubElement(element, "link")
        link.set("state", "up" if up_by_mac[address] else "down")
        LOG.info("Interface %s of domain %s is %s now", address, domain.name(), link.get("state"))
        domain.updateDeviceFlags(ET.tostring(element, encoding="unicode"), _LIVE)


def _interface(domain: Any, vif: Vif, flags: int = 0) -> ET.Element | None:
    """Returns the interface in the running guest, or in the definition, depending on `flags`. None if it is not there,
    or if the guest does not run.
    """
    if not flags and not domain.isActive():
        return None
    for element in ET.fromstring(domain.XMLDesc(flags)).findall("devices/interface"):
        mac = element.find("mac")
        if mac is not None and mac.get("address", "").lower() == vif.mac_address:
            return element
    return None
