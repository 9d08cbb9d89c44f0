"""What a host is told of a `local` network, and the names and addresses that follow from it.

    guest -- tap -- bridge mn... -- mp... | guests (gateway, DHCP, DNS, metadata) -- host | mu... -- host, its routes
                    in the host           |        in the namespace of the network        |  in the host

The two ends of the way to the host have link-local addresses of LINK, which no network may have.
"""

import ipaddress
import re
import uuid
from collections.abc import Iterable

import msgspec

from minova.objects.network.vif import Vif, bridge_name, network_name

# The addresses of the links between the host and its namespaces: two for each network.
LINK = ipaddress.IPv4Network("169.254.0.0/18")
MAX_NETWORKS = LINK.num_addresses // 2
# Prefixes of interfaces of the host: to the bridge of a network ("port"), and to its namespace ("uplink").
PORT, UPLINK = "mp", "mu"
# The interfaces inside a namespace.
GUESTS, HOST = "guests", "host"
# Ranges that have a meaning of their own in each namespace.
_RESERVED = tuple(
    ipaddress.IPv4Network(block) for block in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,15}")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
MAX_SUBNETS, MAX_HOSTS = 64, 1 << 16


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """An IPv4 subnet with a gateway. `resolvers`: the servers that its resolver asks; none: those of the host."""

    cidr: str
    gateway: str
    dhcp: bool = True
    resolvers: tuple[str, ...] = ()


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A guest's interface, the address that DHCP gives it, and the name of the guest. `domain`: in which alone the
    resolver knows the name; empty: it knows the bare name.
    """

    mac: str
    address: str
    name: str = ""
    domain: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.domain}" if self.name and self.domain else self.name


class LocalNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """`reachable`: the host has routes to it. `metadata`: its guests have the metadata service."""

    network_id: str
    mtu: int = 1500
    subnets: tuple[Subnet, ...] = ()
    reachable: bool = False
    metadata: bool = True

    @property
    def bridge(self) -> str:
        return bridge_name(self.network_id)

    @property
    def port(self) -> str:
        return PORT + self.bridge[2:]

    @property
    def uplink(self) -> str:
        return UPLINK + self.bridge[2:]

    @property
    def mac(self) -> str:
        """Returns the MAC address of the gateway: on each host the same one, and the same one after a reboot, so that
        guests need not learn another one.
        """
        return "06:" + ":".join(re.findall("..", self.network_id.replace("-", "")[:10]))


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A network as the host has it. `index` is a number that no other network of the host has, below MAX_NETWORKS.
    `mac`: of the gateway.
    """

    network: LocalNetwork
    index: int
    mac: str
    hosts: tuple[Host, ...] = ()

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


def network_of(vif: Vif, *, metadata: bool) -> LocalNetwork:
    """Returns the network of an interface, with its IPv4 subnets that have a gateway."""
    subnets = tuple(
        Subnet(cidr=each.cidr, gateway=each.gateway_ip, dhcp=each.enable_dhcp, resolvers=_askable(each.dns_nameservers))
        for each in vif.subnets
        if each.gateway_ip is not None and ipaddress.ip_network(each.cidr).version == 4
    )
    return LocalNetwork(
        network_id=vif.network_id, mtu=vif.mtu, subnets=subnets, reachable=vif.reachable, metadata=metadata
    )


def host_of(vif: Vif, hostname: str) -> Host | None:
    """Returns the interface with its first address in a subnet with DHCP; None if it has none."""
    served = vif.dhcp_address
    if served is None:
        return None
    return Host(mac=vif.mac_address, address=served.ip_address, name=hostname, domain=vif.dns_domain)


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
    if str(uuid.UUID(network.network_id)) != network.network_id:
        raise ValueError(f"{network.network_id!r} is no id of a network")
    if not 68 <= network.mtu <= 65535:
        raise ValueError(f"a network has no MTU of {network.mtu}")
    if len(network.subnets) > MAX_SUBNETS:
        raise ValueError(f"a network has at most {MAX_SUBNETS} subnets on a host")
    for subnet in network.subnets:
        _require_subnet(subnet)


def _require_subnet(subnet: Subnet) -> None:
    block = ipaddress.IPv4Network(subnet.cidr)
    if str(block) != subnet.cidr or any(block.overlaps(each) for each in _RESERVED):
        raise ValueError(f"{subnet.cidr} is no range of a network")
    gateway = ipaddress.IPv4Address(subnet.gateway)
    if str(gateway) != subnet.gateway or gateway not in block:
        raise ValueError(f"{subnet.gateway} is no gateway of {subnet.cidr}")
    for each in subnet.resolvers:
        if str(ipaddress.ip_address(each)) != each or "%" in each or not _is_askable(each):
            raise ValueError(f"{each} is no resolver")


def require_host(host: Host) -> None:
    """Raises ValueError as `require_network`."""
    require_mac(host.mac)
    if str(ipaddress.IPv4Address(host.address)) != host.address:
        raise ValueError(f"{host.address!r} is no address")
    for name in (host.name, host.domain):
        if name and _NAME.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a host or a domain")


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
