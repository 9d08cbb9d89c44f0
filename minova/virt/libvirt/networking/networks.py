"""Networks of guests and what this host serves on them (`minova.virt.namespaces`).

A `local` network is a bridge of libvirt without any address, and a namespace with gateway, DHCP, resolver, metadata and address
translation. On a flat network or VLAN with DHCP, the namespace serves guests of this host on a bridge of the host.

A network is made with the first guest that needs it and removed with the last one. Libvirt keeps the bridge, as a virtual network
that leads nowhere: it comes back with the host, and domains name it.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from minova.errors import HardwareNotOffered, HypervisorError
from minova.objects.network.network import LOCAL
from minova.objects.network.vif import Vif, bridge_name, network_name
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.networking.bridges import interfaces_in
from minova.virt.libvirt.networking.repair import Repair
from minova.virt.namespaces.host_networks import HostNetworks
from minova.virt.namespaces.host_routes import KernelRoute, overlapping, routes_of_host
from minova.virt.namespaces.network import LocalNetwork, NetworkRecord, host_of, network_of

LOG = logging.getLogger(__name__)
_PREFIX = network_name("")
# A network of an earlier form, whose bridge had the address of the metadata service. Namespaces have it now, and no guest reaches
# it on the host.
_FORMER_METADATA = "minova-metadata"


def network_xml(vif: Vif) -> str:
    """Returns the bridge of a network, without addresses, and so without dnsmasq of libvirt."""
    root = ET.Element("network")
    ET.SubElement(root, "name").text = network_name(vif.network_id)
    ET.SubElement(root, "uuid").text = vif.network_id
    ET.SubElement(root, "bridge", name=bridge_name(vif.network_id), stp="off", delay="0")
    ET.SubElement(root, "mtu", size=str(vif.mtu))
    ET.SubElement(root, "dns", enable="no")
    return ET.tostring(root, encoding="unicode")


class LocalNetworks:
    """Safe for threads. Errors of libvirt and of `namespaces` are raised as they are.

    `routes` returns the routes of the host, without those of bridges of local networks.
    `metadata`: whether guests have the metadata service.
    `mappings`: {segment: bridge of the host that carries the flat network or VLAN}.
    `interfaces` returns the names of the host's interfaces.
    """

    def __init__(
        self,
        namespaces: HostNetworks,
        routes: Callable[[], Sequence[KernelRoute]] = routes_of_host,
        *,
        metadata: bool = True,
        mappings: Mapping[str, str] = {},
        interfaces: Callable[[], Collection[str]] = interfaces_in,
    ) -> None:
        self._namespaces = namespaces
        self._mappings = mappings
        self._interfaces = interfaces
        self._routes = routes
        self._metadata = metadata
        self.lost = Repair()
        self._refusal = ""
        # {name of a network: the waiting MTU that was logged last}
        self._logged_changes: dict[str, int] = {}
        self._lock = threading.Lock()

    def plug(self, connection: Any, vifs: Iterable[Vif], domain_uuid: str, hostname: str) -> None:
        """Start the networks, and let them give these interfaces their addresses. Idempotent: missing parts are made
        again.

        The domain must be defined. Raises HardwareNotOffered if the host cannot have a route to a reachable network, or
        cannot serve a value of it.
        """
        with self._lock:
            for vif in vifs:
                if vif.network_type == LOCAL:
                    self._make(connection, vif, domain_uuid)
                elif self._network_of(vif).subnets:
                    self._make_namespace(vif)
                else:
                    continue  # a bridge of the host, and nothing to serve there
                self._serve(vif, hostname)

    def unplug(
        self, connection: Any, domain_uuid: str, interfaces: Iterable[tuple[str, str]], undefine: Callable[[], None]
    ) -> None:
        """Removes a domain from its networks, and removes networks without any other domain.

        `interfaces` are (`source_of` of the network, MAC address). `undefine` runs under the same lock, so that of two domains
        removed at the same time, the second does not count the first. It runs last, so that after a crash the domain is
        still there to be removed again.
        """
        macs: dict[str, set[str]] = {}
        for name, mac in interfaces:
            macs.setdefault(name, set()).add(mac)
        with self._lock:
            for name, of_domain in macs.items():
                if name.startswith(_PREFIX):
                    self._leave(connection, name, of_domain, is_used=_is_used(connection, name, domain_uuid))
                elif name in self._mappings.values():
                    self._leave_bridge(name, of_domain)
            undefine()

    def source_of(self, vif: Vif) -> str:
        """Returns what a domain's interface names: the network of libvirt, or the bridge of the host; empty: this host has
        no bridge for it.
        """
        return network_name(vif.network_id) if vif.network_type == LOCAL else self._over(vif)

    def _over(self, vif: Vif) -> str:
        return "" if vif.network_type == LOCAL else self._mappings.get(vif.segment, "")

    def _network_of(self, vif: Vif) -> LocalNetwork:
        """Without a bridge for it, there is nothing to serve."""
        over = self._over(vif)
        network = network_of(vif, metadata=self._metadata, over=over)
        return network if over or vif.network_type == LOCAL else msgspec.structs.replace(network, subnets=())

    def unplug_interface(self, connection: Any, domain: Any, name: str, mac: str, undefine: Callable[[], None]) -> None:
        """As `unplug`, for one interface: its domain stays, and may have another interface on the network. `undefine`
        removes the interface from the definition.
        """
        with self._lock:
            own = interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            stays = any(each == name and other != mac for each, other in own)
            if name.startswith(_PREFIX):
                self._leave(connection, name, {mac}, is_used=stays or _is_used(connection, name, domain.UUIDString()))
            elif name in self._mappings.values():
                self._leave_bridge(name, {mac})
            undefine()

    def _leave_bridge(self, bridge: str, macs: set[str]) -> None:
        """The namespace goes with the last interface that it serves: guests of others may use the bridge. Where the
        helper does not answer, `repair` does it later: the domain must go, and perhaps nothing is served there.
        """
        try:
            self._forget_on_bridge(bridge, macs)
        except HypervisorError as error:
            LOG.warning("The namespace for guests on bridge %s is removed later: %s", bridge, error)

    def _forget_on_bridge(self, bridge: str, macs: set[str]) -> None:
        for network_id, record in self._namespaces.records().items():
            if record.network.over != bridge:
                continue
            if {host.mac for host in record.hosts} <= macs:
                self._namespaces.remove(network_id)
            else:
                self._namespaces.forget(network_id, macs)

    def _leave(self, connection: Any, name: str, macs: set[str], *, is_used: bool) -> None:
        network_id = name.removeprefix(_PREFIX)
        if is_used:
            self._namespaces.forget(network_id, macs)
            return
        self._namespaces.remove(network_id)
        network = _lookup(connection, network_id)
        if network is not None:
            _remove(network)

    def serve(self, connection: Any, guests: Mapping[str, Sequence[Vif]]) -> None:
        """Let the networks be as these interfaces say: their subnets and addresses may have changed. A network that is
        not made is left to `repair`.
        """
        served = [(uuid, vif) for uuid, vifs in guests.items() for vif in vifs if not vif.from_neutron]
        if not served:
            return
        with self._lock:
            records = self._namespaces.records()
            for instance_uuid, vif in served:
                record = records.get(vif.network_id)
                if self._differs(record, vif) and self._is_on(connection, instance_uuid, vif):
                    self._try(vif)
                    records = self._namespaces.records()

    def _differs(self, record: NetworkRecord | None, vif: Vif) -> bool:
        network = self._network_of(vif)
        if record is None:
            return bool(network.over and network.subnets)
        host = host_of(vif, vif.hostname)
        own = next((each for each in record.hosts if each.mac == vif.mac_address), None)
        if host is not None and own is not None and not host.name:
            own = msgspec.structs.replace(own, name="")  # only the instance of `plug` has the name
        return host != own or record.network != network

    def _is_on(self, connection: Any, instance_uuid: str, vif: Vif) -> bool:
        """Whether the domain exists and has the interface on its network now. The caller's data may be older."""
        domain = lookup(connection, instance_uuid)
        if domain is None:
            return False
        own = (self.source_of(vif), vif.mac_address)
        return own in interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    def _try(self, vif: Vif) -> None:
        """A failure does not prevent the changes of others."""
        try:
            self._make_namespace(vif)
            self._serve(vif, vif.hostname)
        except (HypervisorError, HardwareNotOffered) as error:
            LOG.error("Network %s cannot be changed yet: %s", network_name(vif.network_id), error)

    def repair(self, connection: Any, guests: Mapping[str, Sequence[Vif]]) -> None:
        """Make lost parts of the networks of these running guests again, and log it. Remove networks that a crash has
        left.
        """
        with self._lock:
            self._track()
            broken, records = self._namespaces.broken(), self._namespaces.records()
            checked: set[str] = set()
            for instance_uuid, vifs in guests.items():
                for vif in vifs:
                    if vif.from_neutron or not self._is_on(connection, instance_uuid, vif):
                        continue
                    is_first = vif.network_id not in checked
                    checked.add(vif.network_id)
                    missing = broken.get(vif.network_id, "") if vif.network_id in records else "its namespace"
                    if vif.network_type == LOCAL:
                        self._try_repair(connection, instance_uuid, vif, missing if is_first else None)
                    elif is_first and vif.network_id in broken:
                        LOG.warning("Network %s has lost %s: it is made again", network_name(vif.network_id), missing)
                        self._try(vif)
            self._sweep(connection, records)

    def _track(self) -> None:
        """A refusal is logged once for each reason, and does not prevent repairs."""
        refusal = ""
        try:
            self._namespaces.track(sorted({*self._mappings.values()}))
        except ValueError as error:
            refusal = str(error)
        if refusal and refusal != self._refusal:
            LOG.error("Connections over the bridges of flat networks and VLANs are not tracked apart: %s", refusal)
        self._refusal = refusal

    def _try_repair(self, connection: Any, instance_uuid: str, vif: Vif, lost: str | None) -> None:
        """Repair one interface. A failure does not prevent the repair of others."""
        try:
            if lost is not None:
                self._repair(connection, vif, lost)
            self.lost.plug(connection, instance_uuid, vif)
        except (libvirt.libvirtError, HypervisorError) as error:
            if not connection.isAlive():
                raise
            LOG.error("Network %s cannot be repaired yet: %s", network_name(vif.network_id), error)
        except HardwareNotOffered as error:
            LOG.error("Guests stay without their network: %s", error)

    def _repair(self, connection: Any, vif: Vif, lost: str) -> None:
        """`lost`: what is missing of its namespace; empty: nothing."""
        network = _lookup(connection, vif.network_id)
        if network is None or not network.isActive():
            LOG.warning("Network %s is lost, and guests are on it: it is made again", network_name(vif.network_id))
        elif lost and not _is_former(network) and self._network_of(vif).subnets:
            LOG.warning("Network %s has lost %s: it is made again", network_name(vif.network_id), lost)
        # Exclude no domain from the check: the guest itself uses the network.
        if self._make_bridge(connection, vif, "") or lost:
            self._make_namespace(vif)

    def _sweep(self, connection: Any, records: Mapping[str, NetworkRecord]) -> None:
        """Remove namespaces without a network of libvirt: left by a crash, or by its removal by hand. Where there is a
        bridge, guests that libvirt has lost may be on it. Remove what earlier releases gave the host. `records` are those of this
        libvirt alone.
        """
        networks = {network.name(): network for network in connection.listAllNetworks()}
        if _FORMER_METADATA in networks:
            _remove(networks[_FORMER_METADATA])
        present_interfaces = self._interfaces()
        for network_id, record in records.items():
            if record.network.over:
                self._sweep_bridge(connection, record)
                continue
            name = network_name(network_id)
            if (
                name not in networks
                and bridge_name(network_id) not in present_interfaces
                and not _is_used(connection, name, "")
            ):
                self._namespaces.remove(network_id)

    def _sweep_bridge(self, connection: Any, record: NetworkRecord) -> None:
        """Forget interfaces that no domain has any more, and with the last one the namespace."""
        present_macs = {mac for _, _, mac in _interfaces_of_all(connection)}
        absent_macs = {host.mac for host in record.hosts} - present_macs
        if absent_macs or not record.hosts:
            self._forget_on_bridge(record.network.over, absent_macs)

    def try_out(self, connection: Any, vif: Vif) -> None:
        """Make the network of an interface, and remove it unless a domain uses it. Raises as `plug`."""
        with self._lock:
            name = network_name(vif.network_id)
            try:
                self._make(connection, vif, "")
            finally:
                if not _is_used(connection, name, ""):
                    self._leave(connection, name, set(), is_used=False)

    def _make(self, connection: Any, vif: Vif, domain_uuid: str) -> None:
        self._make_bridge(connection, vif, domain_uuid)
        self._make_namespace(vif)

    def _make_namespace(self, vif: Vif) -> None:
        self._require_free(vif)
        with _offered(vif):
            self._namespaces.ensure(self._network_of(vif))

    def _serve(self, vif: Vif, hostname: str) -> None:
        host = host_of(vif, hostname)
        with _offered(vif):
            if host is None:
                self._namespaces.forget(vif.network_id, {vif.mac_address})
            else:
                self._namespaces.enter(vif.network_id, host)

    def _make_bridge(self, connection: Any, vif: Vif, domain_uuid: str) -> bool:
        """Make the bridge, or start it again. Returns whether it was necessary."""
        self._require_free(vif)
        network = _lookup(connection, vif.network_id)
        if network is not None and _is_former(network):
            self._move_over(connection, network, vif)
            return True
        if network is not None and _mtu(network) != vif.mtu:
            if _is_used(connection, network.name(), domain_uuid):
                self._log_change(network.name(), vif.mtu)
            else:
                _remove(network)
                network = None
        if network is not None and network.isActive():
            return False
        if network is None:
            network = connection.networkDefineXML(network_xml(vif))
            network.setAutostart(1)
        LOG.info("Starting network %s", network.name())
        network.create()
        return True

    def _move_over(self, connection: Any, network: Any, vif: Vif) -> None:
        """Give a network of an earlier release, whose bridge had the addresses of the gateways, a namespace. Its guests
        run on, without the network for the time between.

        The gateway keeps its MAC address, which guests have noted. After a crash on the way `repair` does the rest.
        """
        LOG.info("Network %s moves to a namespace", network.name())
        mac = ET.fromstring(network.XMLDesc()).find("mac")
        _remove(network)
        new_network = connection.networkDefineXML(network_xml(vif))
        new_network.setAutostart(1)
        new_network.create()
        with _offered(vif):
            self._namespaces.ensure(self._network_of(vif), "" if mac is None else mac.get("address", "").lower())
        for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
            self.lost.plug_all(connection, domain, vif.network_id)

    def _log_change(self, name: str, mtu: int) -> None:
        """Log once for each change that it waits for the guests."""
        if self._logged_changes.get(name) != mtu:
            self._logged_changes[name] = mtu
            LOG.warning(
                "The MTU of network %s has changed. Guests run on it: the change takes effect here when no guest is left "
                "on it",
                name,
            )

    def _require_free(self, vif: Vif) -> None:
        """Raises HardwareNotOffered if a route to a reachable network would capture traffic of the host."""
        network = self._network_of(vif)
        if not network.reachable:
            return
        routes = [route for route in self._routes() if route.interface != network.uplink]
        for subnet in network.routed_subnets:
            overlap = overlapping(subnet.cidr, routes)
            if overlap is not None:
                raise HardwareNotOffered(f"network {vif.network_id}: its range {subnet.cidr} overlaps {overlap}")


@contextmanager
def _offered(vif: Vif) -> Iterator[None]:
    """Raises HardwareNotOffered if the host refuses a value of the network or the interface."""
    try:
        yield
    except ValueError as error:
        raise HardwareNotOffered(f"network {vif.network_id}: {error}") from error


def _is_former(network: Any) -> bool:
    """Whether it is of an earlier release: libvirt served it."""
    root = ET.fromstring(network.XMLDesc())
    return root.find("forward") is not None or root.find("ip") is not None


def _mtu(network: Any) -> int:
    mtu = ET.fromstring(network.XMLDesc()).find("mtu")
    return 1500 if mtu is None else int(mtu.get("size", "1500"))


def _lookup(connection: Any, network_id: str) -> Any:
    """Returns the network, or None if there is none."""
    try:
        return connection.networkLookupByUUIDString(network_id)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NETWORK:
            return None
        raise


def _is_used(connection: Any, name: str, domain_uuid: str) -> bool:
    """Whether another domain than this one uses the network, running or not."""
    return any(each == name and uuid != domain_uuid for uuid, each, _ in _interfaces_of_all(connection))


def _interfaces_of_all(connection: Any) -> Iterator[tuple[str, str, str]]:
    """Yields (UUID of the domain, source, MAC address) of the interfaces of all domains, running or not."""
    for domain in connection.listAllDomains():
        try:
            interfaces = interfaces_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:  # gone since it was listed
                raise
        else:
            yield from ((domain.UUIDString(), source, mac) for source, mac in interfaces)


def _remove(network: Any) -> None:
    LOG.info("Removing network %s: no guest is on it", network.name())
    if network.isActive():
        network.destroy()
    network.undefine()


def interfaces_of(xml: str) -> list[tuple[str, str]]:
    """Returns (source, MAC address) of a domain's interfaces on libvirt's networks and on bridges of the host: the name of
    the network or of the bridge.
    """
    interfaces = []
    for interface in ET.fromstring(xml).findall("devices/interface"):
        kind, source, mac = interface.get("type", ""), interface.find("source"), interface.find("mac")
        if kind in {"network", "bridge"} and source is not None and mac is not None:
            interfaces.append((source.get(kind, ""), mac.get("address", "")))
    return interfaces
