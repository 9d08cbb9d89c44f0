"""The answers of the Network API, only for its description: tests/functional/api/test_openapi.py compares them.

Each field is optional, because `fields` in a query selects fields. Fields about providers and hosts are for
administrators.
"""

from typing import Any, TypeAlias

import msgspec

UNSET = msgspec.UNSET
Text: TypeAlias = str | msgspec.UnsetType
Nullable: TypeAlias = str | msgspec.UnsetType | None
Number: TypeAlias = int | msgspec.UnsetType
Truth: TypeAlias = bool | msgspec.UnsetType
Texts: TypeAlias = tuple[str, ...] | msgspec.UnsetType


class StandardAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ISO 8601, UTC."""

    id: Text = UNSET
    description: Text = UNSET
    project_id: Text = UNSET
    tenant_id: Text = UNSET
    revision_number: Number = UNSET
    created_at: Text = UNSET
    updated_at: Text = UNSET


class NetworkAnswer(StandardAttributes, frozen=True, kw_only=True):
    """`mtu` in bytes."""

    name: Text = UNSET
    tags: Texts = UNSET
    admin_state_up: Truth = UNSET
    status: Text = UNSET
    shared: Truth = UNSET
    external: Truth = msgspec.field(name="router:external", default=UNSET)
    mtu: Number = UNSET
    port_security_enabled: Truth = UNSET
    availability_zone_hints: Texts = UNSET
    availability_zones: Texts = UNSET
    ipv4_address_scope: Nullable = UNSET
    ipv6_address_scope: Nullable = UNSET
    subnets: Texts = UNSET
    network_type: Text = msgspec.field(name="provider:network_type", default=UNSET)
    physical_network: Nullable = msgspec.field(name="provider:physical_network", default=UNSET)
    segmentation_id: int | msgspec.UnsetType | None = msgspec.field(name="provider:segmentation_id", default=UNSET)
    reachable: Truth = msgspec.field(name="minova:reachable", default=UNSET)


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    start: str
    end: str


class HostRouteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    destination: str
    nexthop: str


class SubnetAnswer(StandardAttributes, frozen=True, kw_only=True):
    name: Text = UNSET
    tags: Texts = UNSET
    network_id: Text = UNSET
    ip_version: Number = UNSET
    cidr: Text = UNSET
    gateway_ip: Nullable = UNSET
    enable_dhcp: Truth = UNSET
    allocation_pools: tuple[PoolAnswer, ...] | msgspec.UnsetType = UNSET
    dns_nameservers: Texts = UNSET
    host_routes: tuple[HostRouteAnswer, ...] | msgspec.UnsetType = UNSET
    ipv6_address_mode: Nullable = UNSET
    ipv6_ra_mode: Nullable = UNSET
    service_types: Texts = UNSET
    subnetpool_id: Nullable = UNSET


class SubnetPoolAnswer(StandardAttributes, frozen=True, kw_only=True):
    name: Text = UNSET
    tags: Texts = UNSET
    prefixes: Texts = UNSET
    ip_version: Number = UNSET
    default_prefixlen: Number = UNSET
    min_prefixlen: Number = UNSET
    max_prefixlen: Number = UNSET
    default_quota: int | msgspec.UnsetType | None = UNSET
    is_default: Truth = UNSET
    shared: Truth = UNSET
    address_scope_id: Nullable = UNSET


class FixedIpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    subnet_id: str
    ip_address: str


class PairAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ip_address: str
    mac_address: str


class DhcpOptionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    opt_name: str
    opt_value: str
    ip_version: int


class PortAnswer(StandardAttributes, frozen=True, kw_only=True):
    name: Text = UNSET
    tags: Texts = UNSET
    network_id: Text = UNSET
    admin_state_up: Truth = UNSET
    status: Text = UNSET
    mac_address: Text = UNSET
    fixed_ips: tuple[FixedIpAnswer, ...] | msgspec.UnsetType = UNSET
    device_id: Text = UNSET
    device_owner: Text = UNSET
    security_groups: Texts = UNSET
    port_security_enabled: Truth = UNSET
    allowed_address_pairs: tuple[PairAnswer, ...] | msgspec.UnsetType = UNSET
    extra_dhcp_opts: tuple[DhcpOptionAnswer, ...] | msgspec.UnsetType = UNSET
    vnic_type: Text = msgspec.field(name="binding:vnic_type", default=UNSET)
    host_id: Nullable = msgspec.field(name="binding:host_id", default=UNSET)
    profile: dict[str, Any] | msgspec.UnsetType = msgspec.field(name="binding:profile", default=UNSET)
    vif_type: Text = msgspec.field(name="binding:vif_type", default=UNSET)
    vif_details: dict[str, Any] | msgspec.UnsetType = msgspec.field(name="binding:vif_details", default=UNSET)


class SecurityGroupRuleAnswer(StandardAttributes, frozen=True, kw_only=True):
    tags: Texts = UNSET
    security_group_id: Text = UNSET
    direction: Text = UNSET
    ethertype: Text = UNSET
    protocol: Nullable = UNSET
    port_range_min: int | msgspec.UnsetType | None = UNSET
    port_range_max: int | msgspec.UnsetType | None = UNSET
    remote_ip_prefix: Nullable = UNSET
    normalized_cidr: Nullable = UNSET
    remote_group_id: Nullable = UNSET
    remote_address_group_id: Nullable = UNSET


class AddressGroupAnswer(StandardAttributes, frozen=True, kw_only=True):
    name: Text = UNSET
    tags: Texts = UNSET
    addresses: Texts = UNSET


class SecurityGroupAnswer(StandardAttributes, frozen=True, kw_only=True):
    name: Text = UNSET
    tags: Texts = UNSET
    stateful: Truth = UNSET
    shared: Truth = UNSET
    security_group_rules: tuple[SecurityGroupRuleAnswer, ...] | msgspec.UnsetType = UNSET


class ExtensionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    alias: str
    name: str
    description: str
    updated: str
    links: tuple[str, ...]


class LinkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    rel: str
    href: str


class LimitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """-1 means no limit."""

    network: int
    subnet: int
    port: int
    security_group: int
    security_group_rule: int
    address_group: int
    subnetpool: int
    router: int
    floatingip: int
    rbac_policy: int


class ProjectLimitsAnswer(LimitsAnswer, frozen=True, kw_only=True):
    project_id: str
    tenant_id: str


class UsageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    limit: int
    used: int
    reserved: int


def page(name: str, kind: Any) -> dict[str, Any]:
    """Returns the answer of a listing."""
    return {name: list[kind], f"{name}_links?": list[LinkAnswer]}
