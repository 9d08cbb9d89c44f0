"""Networks, subnets and ports as they are stored and sent, with Neutron's names. Addresses are canonical texts."""

from datetime import datetime

import msgspec

# A network that exists on each host by itself: the host's minova-compute keeps it, and translates its addresses.
LOCAL = "local"
FLAT = "flat"
VLAN = "vlan"
NETWORK_TYPES = (LOCAL, FLAT, VLAN)
DEFAULT_MTU = 1500
# Directions of a security group's rules, and their versions of IP.
INGRESS, EGRESS = "ingress", "egress"
IP_VERSIONS = {"IPv4": 4, "IPv6": 6}
# The name of the group that a project has from its first port on.
DEFAULT_GROUP = "default"
# Of one port.
MOST_GROUPS = 16
# Likewise, addresses: Neutron's max_fixed_ips_per_port.
MOST_ADDRESSES = 5


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """`shared`: every project uses it. `external`: every project sees it. `revision_number` grows with each change."""

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
    subnets: tuple[str, ...] = ()
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def usable_by(self, project_id: str, *, is_admin: bool) -> bool:
        """Whether servers and ports of the project may be on it."""
        return is_admin or self.shared or self.project_id == project_id

    def visible_to(self, project_id: str, *, is_admin: bool) -> bool:
        return self.external or self.usable_by(project_id, is_admin=is_admin)


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Both ends belong to it."""

    start: str
    end: str


class HostRoute(msgspec.Struct, frozen=True, kw_only=True):
    destination: str
    nexthop: str


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """`gateway_ip` None: it has none. `shared`: its network is."""

    id: str
    network_id: str
    name: str = ""
    description: str = ""
    project_id: str
    ip_version: int
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    allocation_pools: tuple[Pool, ...] = ()
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[HostRoute, ...] = ()
    ipv6_address_mode: str | None = None
    ipv6_ra_mode: str | None = None
    shared: bool = False
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None


class FixedIp(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    ip_address: str


class AddressRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a subnet, or the next free one of it; without a subnet, of the one that has the address. With neither, the next
    free one of the first subnet that has one.
    """

    subnet_id: str | None = None
    ip_address: str | None = None


class AddressPair(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses from which a guest may send beside its own. `ip_address`: also a range. `mac_address` empty: the port's."""

    ip_address: str
    mac_address: str = ""


class SecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is let through. `protocol` None: any. The port range is ICMP's type and code, too.

    `remote_ip_prefix`, `remote_group_id`: whose addresses; both None: any.
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
    description: str = ""
    revision_number: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    """`is_default`: the one that new ports of its project have."""

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
    """`mac_address` empty, in a request: one is chosen. `network_owner`: the project of its network, which sees it too.

    `security_groups`: ids; None, in a request: the default group of its project. `tag`: of the server's interface.
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
    revision_number: int = 1
    created_at: datetime | None = None
    updated_at: datetime | None = None
