"""A network as its host gets it, and the names and addresses that the host derives.

    guest -- tap -- bridge mn... -- mp... | guests (gateway, DHCP, DNS, metadata) -- host | mu... -- host, its routes
                    in the host           |        in the namespace of the network        |  in the host

The two ends of the way to the host have link-local addresses of LINK, which no network may have.
"""

import ipaddress
import re
import uuid
from collections.abc import Iterable

import msgspec

from minova.objects.guests.guest_metadata import ADDRESS
from minova.objects.network.addresses import OF_EACH_HOST
from minova.objects.network.network import AUTOMATIC, MODES, STATEFUL
from minova.objects.network.vif import DHCP, Vif, bridge_name, network_name, tap_name

# The addresses of the links between the host and its namespaces: two for each network.
LINK = ipaddress.IPv4Network("169.254.0.0/18")
MAX_NETWORKS = LINK.num_addresses // 2
# Prefixes of interfaces of the host: to the bridge of a network ("port"), and to its namespace ("uplink").
PORT, UPLINK = "mp", "mu"
# The interfaces inside a namespace.
GUESTS, HOST = "guests", "host"
# Ranges that have a meaning of their own in each namespace.
_RESERVED = OF_EACH_HOST
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_TAP = re.compile(r"tap[0-9a-f-]{1,12}")
_OPTION = re.compile(r"[A-Za-z0-9+-]{1,64}")
_VALUE = re.compile(r"[ -~]{0,255}")
MAX_SUBNETS, MAX_HOSTS, MAX_OPTIONS = 64, 1 << 16, 64


class HostSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet that the host serves, or whose gateway it is.

    `gateway`: empty: there is none. Of a `local` network, the namespace has its address; of another one, a router outside.
    `dhcp`: guests get their addresses by DHCP; of IPv6, as `mode` says.
    `mode`: slaac, dhcpv6-stateful or dhcpv6-stateless; empty: IPv4.
    `resolvers`: of the subnet; none: those of the host.
    `routes`: (destination, next hop) of further routes that guests get.
    """

    cidr: str
    gateway: str = ""
    dhcp: bool = True
    mode: str = ""
    resolvers: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()

    @property
    def version(self) -> int:
        return ipaddress.ip_network(self.cidr).version

    @property
    def prefix(self) -> int:
        return ipaddress.ip_network(self.cidr).prefixlen


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A further option of DHCP for one interface. `name`: as dnsmasq calls it, or its number."""

    name: str
    value: str
    version: int = 4


class GuestInterface(msgspec.Struct, frozen=True, kw_only=True):
    """A guest's interface.

    `address`, `address6`: which DHCP gives it; empty: none.
    `automatic`: those that it makes itself from what the server advertises.
    `name`: of the guest. `domain`: in which alone the resolver knows the name; empty: it knows the bare name.
    `tap`: its device on the host.
    """

    mac: str
    address: str = ""
    address6: str = ""
    automatic: tuple[str, ...] = ()
    name: str = ""
    domain: str = ""
    tap: str = ""
    options: tuple[Option, ...] = ()

    @property
    def served_identity(self) -> tuple[str, str, str]:
        """Returns what a server must forget before it gives it to another interface."""
        return self.mac, self.address, self.address6

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(each for each in (self.address, self.address6, *self.automatic) if each)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.domain}" if self.name and self.domain else self.name


class LocalNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """`reachable`: the host has routes to it. `metadata`: its guests have the metadata service.

    `over`: the bridge of the host that carries a flat network or a VLAN; empty: the network is a `local` one.
    """

    network_id: str
    mtu: int = 1500
    subnets: tuple[HostSubnet, ...] = ()
    reachable: bool = False
    metadata: bool = True
    over: str = ""

    @property
    def bridge(self) -> str:
        return self.over or bridge_name(self.network_id)

    @property
    def routed_subnets(self) -> tuple[HostSubnet, ...]:
        """Returns the IPv4 subnets whose gateway the namespace is."""
        return tuple(each for each in self.subnets if each.version == 4 and self.is_gateway_of(each))

    @property
    def linked_subnets(self) -> tuple[HostSubnet, ...]:
        """Returns the other IPv4 subnets: their guests find the server by the address of the metadata service, on their
        link.
        """
        return tuple(each for each in self.subnets if each.version == 4 and not self.is_gateway_of(each))

    @property
    def six(self) -> tuple[HostSubnet, ...]:
        return tuple(each for each in self.subnets if each.version == 6)

    @property
    def has_dhcp4(self) -> bool:
        return any(each.dhcp and not each.mode for each in self.subnets)

    @property
    def addresses_inside(self) -> tuple[str, ...]:
        """Returns the addresses of the namespace on the link of the guests, with their prefixes; without the link-local one.

        In an IPv6 range without a gateway of ours it has the first address, which no port can have: dnsmasq advertises
        ranges in which it has an address. In an IPv4 range it needs none.
        """
        addresses = [f"{each.gateway}/{each.prefix}" for each in self.routed_subnets]
        addresses += [f"{ADDRESS}/32"] if self.linked_subnets else []
        for each in self.six:
            own = each.gateway if self.is_gateway_of(each) else str(ipaddress.ip_network(each.cidr).network_address)
            addresses.append(f"{own}/{each.prefix}")
        return tuple(addresses)

    def is_gateway_of(self, subnet: HostSubnet) -> bool:
        return bool(subnet.gateway) and not self.over

    @property
    def port(self) -> str:
        return PORT + bridge_name(self.network_id)[2:]

    @property
    def uplink(self) -> str:
        return UPLINK + bridge_name(self.network_id)[2:]

    @property
    def mac(self) -> str:
        """Returns the MAC address of the gateway: on each host the same one, and the same one after a reboot, so that
        guests need not learn another one.
        """
        return "06:" + ":".join(re.findall("..", self.network_id.replace("-", "")[:10]))


class NetworkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A network as the host has it. `index` is a number that no other network of the host has, below MAX_NETWORKS.
    `mac`: of the gateway. `owner`: the libvirtd whose guests are on it; empty: a release without owners has made it.
    """

    network: LocalNetwork
    index: int
    mac: str
    owner: str = ""
    hosts: tuple[GuestInterface, ...] = ()

    @property
    def taps(self) -> list[str]:
        """Returns the devices of guests, as far as they are known."""
        return [host.tap for host in self.hosts if host.tap]

    @property
    def host_end(self) -> str:
        return str(LINK[2 * self.index])

    @property
    def network_end(self) -> str:
        return str(LINK[2 * self.index + 1])

    @property
    def zone(self) -> int:
        """Returns the zone of connection tracking of the bridge in the host."""
        return self.index + 1


def network_of(vif: Vif, *, metadata: bool, over: str = "") -> LocalNetwork:
    """Returns the network of an interface, with the subnets that its hosts serve, or whose gateway they are. `over`: the
    bridge of the host that carries it.
    """
    subnets = tuple(
        HostSubnet(
            cidr=each.cidr,
            gateway=each.gateway_ip or "",
            dhcp=bool(each.served),
            mode=each.ipv6_mode if each.ip_version == 6 else "",
            resolvers=_askable(each.dns_nameservers),
            routes=tuple((route.destination, route.nexthop) for route in each.host_routes),
        )
        for each in vif.subnets
        if each.served or (not over and each.gateway_ip is not None and each.ip_version == 4)
    )
    return LocalNetwork(
        network_id=vif.network_id, mtu=vif.mtu, subnets=subnets, reachable=vif.reachable, metadata=metadata, over=over
    )


def host_of(vif: Vif, hostname: str) -> GuestInterface | None:
    """Returns the interface with its addresses in subnets that the host serves; None if it has none.

    It has no name if a resolver cannot have the hostname of the guest, which Nova allows more. Options that no server can
    give are left out: rows of earlier releases may have them.
    """
    served = vif.served_addresses
    if not served:
        return None
    by_mode: dict[str, list[str]] = {}
    for address, mode in served:
        by_mode.setdefault(mode, []).append(address.ip_address)
    return GuestInterface(
        mac=vif.mac_address,
        address=by_mode.get(DHCP, [""])[0],
        address6=by_mode.get(STATEFUL, [""])[0],
        automatic=tuple(each for mode in AUTOMATIC for each in by_mode.get(mode, ())),
        name=hostname if _NAME.fullmatch(hostname) else "",
        domain=vif.dns_domain,
        tap=tap_name(vif.port_id),
        options=tuple(
            Option(name=each.opt_name, value=each.opt_value, version=each.ip_version)
            for each in vif.extra_dhcp_opts
            if _VALUE.fullmatch(each.opt_value)
        ),
    )


def _askable(resolvers: Iterable[str]) -> tuple[str, ...]:
    """Leaves out what no resolver of another machine can have: rows of earlier releases may name it."""
    return tuple(each for each in resolvers if _is_askable(each))


def _is_askable(text: str) -> bool:
    address = ipaddress.ip_address(text)
    return not (address.is_loopback or address.is_unspecified or address.is_multicast or address.is_link_local)


def require_network(network: LocalNetwork) -> None:
    """Raises ValueError if a value could mean anything else than a network: the values become configuration and
    arguments of programs that run with rights.
    """
    require_network_id(network.network_id)
    if not 68 <= network.mtu <= 65535:
        raise ValueError(f"a network has no MTU of {network.mtu}")
    if len(network.subnets) > MAX_SUBNETS:
        raise ValueError(f"a network has at most {MAX_SUBNETS} subnets on a host")
    for subnet in network.subnets:
        _require_subnet(subnet)


def _require_subnet(subnet: HostSubnet) -> None:
    block = ipaddress.ip_network(subnet.cidr)
    if str(block) != subnet.cidr or any(block.version == each.version and block.overlaps(each) for each in _RESERVED):
        raise ValueError(f"{subnet.cidr} is no range of a network")
    if (block.version == 6) is not bool(subnet.mode) or subnet.mode not in ("", *MODES):
        raise ValueError(f"{subnet.mode!r} is no mode of {subnet.cidr}")
    if subnet.gateway and (_address(subnet.gateway) not in block):
        raise ValueError(f"{subnet.gateway} is no gateway of {subnet.cidr}")
    for each in subnet.resolvers:
        if "%" in each or not _is_askable(str(_address(each))):
            raise ValueError(f"{each} is no resolver")
    for destination, hop in subnet.routes:
        if str(ipaddress.ip_network(destination)) != destination or _address(hop).version != block.version:
            raise ValueError(f"{destination} by {hop} is no route")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Raises ValueError unless the text is the usual form of an address."""
    address = ipaddress.ip_address(text)
    if str(address) != text or "%" in text:
        raise ValueError(f"{text!r} is no address")
    return address


def require_network_id(text: str) -> None:
    """Raises ValueError as `require_network`."""
    if not is_network_id(text):
        raise ValueError(f"{text!r} is no id of a network")


def is_network_id(text: str) -> bool:
    """Whether it is a UUID in its usual form. Names of namespaces and folders are made of it: with a suffix it would name those
    of another host of the machine.
    """
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def require_host(host: GuestInterface) -> None:
    """Raises ValueError as `require_network`."""
    require_mac(host.mac)
    if host.address and _address(host.address).version != 4:
        raise ValueError(f"{host.address!r} is no address of IPv4")
    if any(_address(each).version != 6 for each in (host.address6, *host.automatic) if each):
        raise ValueError(f"interface {host.mac} has no addresses of IPv6")
    if len(host.automatic) > MAX_SUBNETS or len(host.options) > MAX_OPTIONS:
        raise ValueError(f"interface {host.mac} has too many addresses or options")
    for name in (host.name, host.domain):
        if name and _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a host or a domain")
    if host.tap and _TAP.fullmatch(host.tap) is None:
        raise ValueError(f"{host.tap!r} is no device of a guest")
    for option in host.options:
        if _OPTION.fullmatch(option.name) is None or _VALUE.fullmatch(option.value) is None:
            raise ValueError(f"{option.name!r} is no option of DHCP, or its value is none")


def require_interface(name: str) -> None:
    """Raises ValueError as `require_network`."""
    if _INTERFACE.fullmatch(name) is None or set(name) == {"."}:
        raise ValueError(f"{name!r} is no name of an interface")


def require_mac(mac: str) -> None:
    """Raises ValueError as `require_network`."""
    if _MAC.fullmatch(mac) is None:
        raise ValueError(f"{mac!r} is no MAC address")


def namespace_name(network_id: str, suffix: str = "") -> str:
    """Returns the name that `ip netns` shows."""
    return network_name(network_id) + suffix
