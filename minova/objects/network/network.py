"""Networks, subnets and ports as they are stored and sent, with Neutron's names. Addresses are canonical texts."""

from datetime import datetime
from typing import Any

import msgspec

from minova.objects.network.dhcp_options import DhcpOption

# A network that exists on each host separately: the host's minova-compute sets it up and translates its addresses.
LOCAL = "local"
FLAT = "flat"
VLAN = "vlan"
DEFAULT_MTU = 1500
# Directions of a security group's rules, and their versions of IP.
INGRESS, EGRESS = "ingress", "egress"
IP_VERSIONS = {"IPv4": 4, "IPv6": 6}
# Neutron's modes of IPv6 subnets. In AUTOMATIC ones a port has the address that its guest makes from its MAC address.
STATEFUL = "dhcpv6-stateful"
AUTOMATIC = ("slaac", "dhcpv6-stateless")
MODES = (STATEFUL, *AUTOMATIC)
# The name of the group that each project gets with its first port.
DEFAULT_GROUP = "default"
# Neutron's limits of tags: their number on one resource, and the length of each.
MAX_TAGS, MAX_TAG = 50, 255
# The maximum number of security groups of a port.
MAX_GROUPS = 16
# The maximum number of addresses of a port: Neutron's max_fixed_ips_per_port.
MAX_ADDRESSES = 5


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """`shared`: every project may use it. `external`: every project may see it; only networks of earlier versions are. `revision_number` grows with each
    change.

    `reachable`: of a `local` network: its hosts have routes to its subnets, so no other reachable network may have
    addresses of their ranges.
    `port_security_enabled`: of new ports that do not choose it.
    """

    id: str
    name: str = ""
    description: str = ""
    project_id: str
    admin_state_up: bool = True
    shared: bool = False
    external: bool = False
    mtu: int = DEFAULT_MTU
    network_type: str = LOCAL
    physical_network: str | None = None
    segmentation_id: int | None = None
    reachable: bool = False
    port_security_enabled: bool = True
    subnets: tuple[str, ...] = ()
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def usable_by(self, project_id: str, *, is_admin: bool) -> bool:
        """Whether servers and ports of the project may use the network."""
        return is_admin or self.shared or self.project_id == project_id

    def visible_to(self, project_id: str, *, is_admin: bool) -> bool:
        return self.external or self.usable_by(project_id, is_admin=is_admin)


class AllocationPool(msgspec.Struct, frozen=True, kw_only=True):
    """Both ends are part of it."""

    start: str
    end: str


class HostRoute(msgspec.Struct, frozen=True, kw_only=True):
    destination: str
    nexthop: str


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway_ip` None: there is none. `shared`: whether its network is shared.

    `prefixlen`: in a request without a `cidr`: the length of the range that the conductor chooses from the subnet pool; then an
    empty `gateway_ip` is the first address of that range.
    `service_types`: values of `device_owner` of the ports that get addresses of it; empty: all ports.
    """

    id: str
    network_id: str
    name: str = ""
    description: str = ""
    project_id: str
    ip_version: int
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    allocation_pools: tuple[AllocationPool, ...] = ()
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[HostRoute, ...] = ()
    ipv6_address_mode: str | None = None
    ipv6_ra_mode: str | None = None
    shared: bool = False
    service_types: tuple[str, ...] = ()
    subnetpool_id: str | None = None
    prefixlen: int | None = None
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def serves(self, device_owner: str) -> bool:
        """Whether a port with this owner gets addresses of the subnet."""
        return not self.service_types or device_owner in self.service_types

    @property
    def is_automatic(self) -> bool:
        """Whether guests make their addresses in the subnet themselves."""
        return (self.ipv6_address_mode or self.ipv6_ra_mode) in AUTOMATIC


class FixedIp(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    ip_address: str


class AddressRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requests an address of a subnet, or the next free address of the subnet. Without a subnet: of the subnet that has
    the address. With neither: the next free address of the first subnet that has one.
    """

    subnet_id: str | None = None
    ip_address: str | None = None


class AddressPair(msgspec.Struct, frozen=True, kw_only=True):
    """Additional addresses from which a guest may send. `ip_address`: may be a range. `mac_address`
    empty: the port's.
    """

    ip_address: str
    mac_address: str = ""


class SecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic that a rule allows. `protocol` None: any. The port range also holds ICMP's type and code.

    `remote_ip_prefix`, `remote_group_id`, `remote_address_group_id`: the remote addresses; all None: any.
    """

    id: str
    security_group_id: str
    project_id: str
    direction: str
    ethertype: str = "IPv4"
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None
    description: str = ""
    revision_number: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    """`is_default`: new ports of its project get it."""

    id: str
    name: str = ""
    description: str = ""
    project_id: str
    is_default: bool = False
    rules: tuple[SecurityGroupRule, ...] = ()
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """`mac_address` empty, in a request: one is generated.

    `network_owner`: the project of its network, which also sees the port.
    `security_groups`: ids; None, in a request: the default group of its project.
    `tag`: of the server's interface.
    `binding_profile`: what administrators note there. No host reads it.
    """

    id: str
    network_id: str
    name: str = ""
    description: str = ""
    project_id: str
    admin_state_up: bool = True
    mac_address: str = ""
    tag: str | None = None
    fixed_ips: tuple[FixedIp, ...] = ()
    device_id: str = ""
    device_owner: str = ""
    host: str = ""
    status: str = "DOWN"
    network_owner: str = ""
    port_security_enabled: bool = True
    allowed_address_pairs: tuple[AddressPair, ...] = ()
    security_groups: tuple[str, ...] | None = None
    extra_dhcp_opts: tuple[DhcpOption, ...] = ()
    binding_profile: dict[str, Any] = {}
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None


class NewPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port to be made. `fixed_ips` None: the next free address of each IP version. `tags`: its tags."""

    port: Port
    fixed_ips: tuple[AddressRequest, ...] | None = None
    tags: tuple[str, ...] = ()
