"""Local networks of guests: virtual networks of libvirt with a bridge, dnsmasq and NAT.

A network is made with the first guest that needs it and removed with the last one. dnsmasq gives each interface the
address of its port, and no address to anything else: it has an entry for each interface, and no range.
"""

import ipaddress
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import libvirt

from minova.errors import HardwareNotOffered
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import Vif, VifSubnet, bridge_name, network_name
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.networking.host_routes import Route, overlapping, routes_of_host
from minova.virt.libvirt.networking.metadata_address import NETWORK, MetadataAddress
from minova.virt.libvirt.networking.repair import Repair

LOG = logging.getLogger(__name__)
_PREFIX = network_name("")
_BOTH = libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE | libvirt.VIR_NETWORK_UPDATE_AFFECT_CONFIG
_HOSTS = libvirt.VIR_NETWORK_SECTION_IP_DHCP_HOST


class Shape(NamedTuple):
    """The properties that libvirt cannot change while a network runs."""

    addresses: tuple[tuple[str | None, str | None], ...]
    forwarders: tuple[str | None, ...]
    mtu: str | None


def network_xml(vif: Vif) -> str:
    """Returns the network of an interface, without DHCP entries. The host has the gateway addresses of its IPv4
    subnets.
    """
    root = ET.Element("network")
    ET.SubElement(root, "name").text = network_name(vif.network_id)
    ET.SubElement(root, "uuid").text = vif.network_id
    gateways = gateway_subnets(vif)
    if gateways:
        ET.SubElement(root, "forward", mode="nat")
    ET.SubElement(root, "bridge", name=bridge_name(vif.network_id), stp="off", delay="0")
    ET.SubElement(root, "mtu", size=str(vif.mtu))
    served = dhcp_subnet(vif)
    if served is not None and served.dns_nameservers:
        dns = ET.SubElement(root, "dns")
        for server in served.dns_nameservers:
            ET.SubElement(dns, "forwarder", addr=server)
    for subnet in gateways:
        prefix = str(ipaddress.ip_network(subnet.cidr).prefixlen)
        ET.SubElement(root, "ip", address=str(subnet.gateway_ip), prefix=prefix)
    return ET.tostring(root, encoding="unicode")


def gateway_subnets(vif: Vif) -> list[VifSubnet]:
    """The subnets whose gateway is an address of the host."""
    return [subnet for subnet in vif.subnets if _version(subnet) == 4 and subnet.gateway_ip is not None]


def dhcp_subnet(vif: Vif) -> VifSubnet | None:
    """Returns the subnet for which libvirt serves DHCP: the first with a gateway and DHCP. libvirt serves one subnet of
    each network.
    """
    return next((subnet for subnet in gateway_subnets(vif) if subnet.enable_dhcp), None)


def _version(subnet: VifSubnet) -> int:
    return ipaddress.ip_network(subnet.cidr).version


class LocalNetworks:
    """Safe for threads. Errors of libvirt are raised as they are.

    `routes` returns the routes of the host, without those of local networks.
    `metadata`: whether guests have the metadata service.
    """

    def __init__(self, routes: Callable[[], Sequence[Route]] = routes_of_host, *, metadata: bool = True) -> None:
        self._routes = routes
        self._metadata = MetadataAddress(enabled=metadata)
        self.lost = Repair()
        # {name of a network: the waiting description that was logged last}
        self._logged_changes: dict[str, str] = {}
        self._lock = threading.Lock()

    def plug(self, connection: Any, vifs: Iterable[Vif], domain_uuid: str, hostname: str) -> None:
        """Start the networks, and let them give these interfaces their addresses. Idempotent: missing parts are made
        again.

        The domain must be defined. Raises HardwareNotOffered if the host has a route to addresses of a network that has
        to be made.
        """
        with self._lock:
            for vif in vifs:
                if vif.network_type == LOCAL:
                    network = self._running(connection, vif, domain_uuid)
                    _serve(network, vif, hostname)
                    if gateway_subnets(vif):
                        self._add_metadata(connection)

    def _add_metadata(self, connection: Any) -> None:
        """Add the metadata address. Errors are only logged: a guest boots without the metadata service rather than not
        at all.
        """
        try:
            self._metadata.add(connection, self._routes())
        except libvirt.libvirtError as error:
            if not connection.isAlive():
                raise
            LOG.error("Guests of local networks have no metadata service: %s", error)

    def unplug(
        self, connection: Any, domain_uuid: str, interfaces: Iterable[tuple[str, str]], undefine: Callable[[], None]
    ) -> None:
        """Removes a domain from its networks, and removes networks without any other domain.

        `interfaces` are (network name, MAC address). `undefine` runs under the same lock, so that of two domains
        removed at the same time, the second does not count the first. It runs last, so that after a crash the domain is
        still there to be removed again.
        """
        macs: dict[str, set[str]] = {}
        for name, mac in interfaces:
            if name.startswith(_PREFIX):
                macs.setdefault(name, set()).add(mac)
        with self._lock:
            for name, of_domain in macs.items():
                network = _lookup(connection, name.removeprefix(_PREFIX))
                if network is not None:
                    _forget_macs(network, of_domain)
                    if not _is_used(connection, name, domain_uuid):
                        _remove(network)
                        if not _local_networks(connection):
                            self._metadata.remove(connection)
            undefine()

    def unplug_interface(self, connection: Any, domain: Any, name: str, mac: str, undefine: Callable[[], None]) -> None:
        """As `unplug`, for one interface: its domain stays, and may have another interface on the network. `undefine`
        removes the interface from the definition.
        """
        with self._lock:
            network = _lookup(connection, name.removeprefix(_PREFIX))
            if network is not None:
                _forget_macs(network, {mac})
                own = interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
                stays = any(each == name and other != mac for each, other in own)
                if not stays and not _is_used(connection, name, domain.UUIDString()):
                    _remove(network)
                    if not _local_networks(connection):
                        self._metadata.remove(connection)
            undefine()

    def serve(self, connection: Any, guests: Mapping[str, Sequence[Vif]]) -> None:
        """Let the networks give these interfaces their addresses, which may have changed. A network that does not run
        is left to `repair`.
        """
        by_network: dict[str, list[tuple[str, Vif]]] = {}
        for instance_uuid, vifs in guests.items():
            for vif in vifs:
                if vif.network_type == LOCAL:
                    by_network.setdefault(vif.network_id, []).append((instance_uuid, vif))
        with self._lock:
            for network_id, of_network in by_network.items():
                network = _lookup(connection, network_id)
                if network is not None and network.isActive():
                    served = {(host.get("mac"), host.get("ip")) for host in _hosts(network)}
                    for instance_uuid, vif in of_network:
                        if (vif.mac_address, _served_address(vif)) not in served and _is_on(
                            connection, instance_uuid, vif
                        ):
                            _serve(network, vif, vif.hostname)

    def repair(self, connection: Any, guests: Mapping[str, Sequence[Vif]]) -> None:
        """Make lost parts of the networks of these running guests again, and log it."""
        checked: set[str] = set()
        with self._lock:
            for instance_uuid, vifs in guests.items():
                for vif in vifs:
                    if vif.network_type == LOCAL:
                        self._try_repair(connection, instance_uuid, vif, is_first=vif.network_id not in checked)
                        checked.add(vif.network_id)

    def _try_repair(self, connection: Any, instance_uuid: str, vif: Vif, *, is_first: bool) -> None:
        """Repair one interface. A failure does not prevent the repair of others."""
        try:
            self._repair(connection, instance_uuid, vif, is_first=is_first)
        except libvirt.libvirtError as error:
            if not connection.isAlive():
                raise
            LOG.error("Network %s cannot be repaired yet: %s", network_name(vif.network_id), error)

    def _repair(self, connection: Any, instance_uuid: str, vif: Vif, *, is_first: bool) -> None:
        if not _is_on(connection, instance_uuid, vif):
            return  # the domain has gone meanwhile, and its network with it
        network = _lookup(connection, vif.network_id)
        if network is None or not network.isActive():
            LOG.warning("Network %s is lost, and guests are on it: it is made again", network_name(vif.network_id))
        try:
            # Exclude no domain from the check: the guest itself uses the network, so a network whose subnets have
            # changed must not be removed.
            network = self._running(connection, vif, "")
        except HardwareNotOffered as error:
            LOG.error("Guests stay without their network: %s", error)
            return
        _serve(network, vif, vif.hostname)
        gateways = gateway_subnets(vif)
        if is_first and gateways:
            self._add_metadata(connection)
            self.lost.dnsmasq(network, str(gateways[0].gateway_ip))
        self.lost.plug(connection, instance_uuid, vif)

    def try_out(self, connection: Any, vif: Vif) -> None:
        """Make the network of an interface, and remove it unless a domain uses it. Raises as `plug`."""
        with self._lock:
            try:
                self._running(connection, vif, "")
            finally:
                network = _lookup(connection, vif.network_id)
                if network is not None and not _is_used(connection, network.name(), ""):
                    _remove(network)

    def _running(self, connection: Any, vif: Vif, domain_uuid: str) -> Any:
        network = _lookup(connection, vif.network_id)
        xml = network_xml(vif)
        if network is not None and _shape(network.XMLDesc()) != _shape(xml):
            if _is_used(connection, network.name(), domain_uuid):
                self._log_change(network.name(), xml)
            else:
                _remove(network)
                network = None
        if network is not None and network.isActive():
            return network
        self._require_free(vif)
        if network is None:
            network = connection.networkDefineXML(xml)
            network.setAutostart(1)
        LOG.info("Starting network %s", network.name())
        network.create()
        return network

    def _log_change(self, name: str, xml: str) -> None:
        """Log once for each change that it waits for the guests."""
        if self._logged_changes.get(name) != xml:
            self._logged_changes[name] = xml
            LOG.warning(
                "The subnets or the MTU of network %s have changed. Guests run on it: the change takes effect here when no guest "
                "is left on it",
                name,
            )

    def _require_free(self, vif: Vif) -> None:
        """Raises HardwareNotOffered if the network would capture traffic of the host."""
        routes = self._routes()
        for subnet in gateway_subnets(vif):
            taken = overlapping(subnet.cidr, routes)
            if taken is not None:
                raise HardwareNotOffered(f"network {vif.network_id}: its range {subnet.cidr} overlaps {taken}")


def _lookup(connection: Any, network_id: str) -> Any:
    """Returns the network, or None if there is none."""
    try:
        return connection.networkLookupByUUIDString(network_id)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NETWORK:
            return None
        raise


def _is_on(connection: Any, instance_uuid: str, vif: Vif) -> bool:
    """Whether the domain exists and has the interface on its network now. The caller's data may be older."""
    domain = lookup(connection, instance_uuid)
    if domain is None:
        return False
    own = (network_name(vif.network_id), vif.mac_address)
    return own in interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def _shape(xml: str) -> Shape:
    root = ET.fromstring(xml)
    mtu = root.find("mtu")
    return Shape(
        addresses=tuple(sorted((each.get("address"), each.get("prefix")) for each in root.findall("ip"))),
        forwarders=tuple(each.get("addr") for each in root.findall("dns/forwarder")),
        mtu=None if mtu is None else mtu.get("size"),
    )


def _serve(network: Any, vif: Vif, hostname: str) -> None:
    """Ensure that the network has a DHCP entry with the port's address in the served subnet, and no other entry for the
    port.
    """
    served, address = dhcp_subnet(vif), _served_address(vif)
    hosts = _hosts(network)
    if any((host.get("mac"), host.get("ip")) == (vif.mac_address, address) for host in hosts):
        return
    _forget(network, lambda host: host.get("mac") == vif.mac_address or host.get("ip") == address)
    if served is None or address is None:
        return
    parent = _serving(network, served)
    if parent is None:
        LOG.warning("Network %s cannot serve %s before it is made anew", network.name(), served.cidr)
        return
    host = {"mac": vif.mac_address, "ip": address}
    # A name stands for one guest; a second guest of the same name is reached only by its address.
    if hostname and hostname not in {each.get("name") for each in hosts}:
        host["name"] = hostname
    text = ET.tostring(ET.Element("host", host), encoding="unicode")
    network.update(libvirt.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, _HOSTS, parent, text, _BOTH)


def _served_address(vif: Vif) -> str | None:
    """Returns the address that libvirt gives the interface, or None."""
    served = dhcp_subnet(vif)
    return next((each.ip_address for each in vif.addresses if served and each.subnet_id == served.id), None)


def _serving(network: Any, served: VifSubnet) -> int | None:
    """Returns the index of a subnet in a running network; None if libvirt cannot serve it now.

    libvirt serves one subnet of a network, and another subnet may still have guests.
    """
    elements = ET.fromstring(network.XMLDesc()).findall("ip")
    if any(each.find("dhcp/host") is not None and each.get("address") != served.gateway_ip for each in elements):
        return None
    return next((place for place, each in enumerate(elements) if each.get("address") == served.gateway_ip), None)


def _forget(network: Any, matches: Callable[[ET.Element], bool]) -> None:
    for host in _hosts(network):
        if matches(host):
            text = ET.tostring(host, encoding="unicode")
            flags = _BOTH if network.isActive() else libvirt.VIR_NETWORK_UPDATE_AFFECT_CONFIG
            network.update(libvirt.VIR_NETWORK_UPDATE_COMMAND_DELETE, _HOSTS, -1, text, flags)


def _forget_macs(network: Any, macs: Collection[str]) -> None:
    _forget(network, lambda host: host.get("mac") in macs)


def _hosts(network: Any) -> list[ET.Element]:
    return ET.fromstring(network.XMLDesc()).findall("ip/dhcp/host")


def _is_used(connection: Any, name: str, domain_uuid: str) -> bool:
    """Whether another domain than this one uses the network, running or not."""
    for domain in connection.listAllDomains():
        if domain.UUIDString() == domain_uuid:
            continue
        try:
            interfaces = interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                raise
        else:
            if any(each == name for each, _ in interfaces):
                return True
    return False


def _local_networks(connection: Any) -> list[str]:
    names = [network.name() for network in connection.listAllNetworks()]
    return [name for name in names if name.startswith(_PREFIX) and name != NETWORK]


def _remove(network: Any) -> None:
    LOG.info("Removing network %s: no guest is on it", network.name())
    if network.isActive():
        network.destroy()
    network.undefine()


def interfaces_of(xml: str) -> list[tuple[str, str]]:
    """Returns (network name, MAC address) of a domain's interfaces on libvirt's networks."""
    interfaces = []
    for interface in ET.fromstring(xml).findall("devices/interface[@type='network']"):
        source, mac = interface.find("source"), interface.find("mac")
        if source is not None and mac is not None:
            interfaces.append((source.get("network", ""), mac.get("address", "")))
    return interfaces
