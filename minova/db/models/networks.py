"""Networks, subnets, ports and their addresses. Written by the conductor."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, false, true
from sqlalchemy.orm import Mapped, mapped_column

from minova.db.models.base import Base, Lockable, Uuid


class Network(Lockable, Base):
    """A transaction that changes anything on a network locks the network's row first.

    `segment`: the VLAN or the physical network. Only one network may have it.
    """

    __tablename__ = "networks"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    admin_state_up: Mapped[bool]
    shared: Mapped[bool]
    external: Mapped[bool]
    mtu: Mapped[int]
    network_type: Mapped[str] = mapped_column(String(16))
    physical_network: Mapped[str | None] = mapped_column(String(64))
    segmentation_id: Mapped[int | None]
    segment: Mapped[str | None] = mapped_column(String(80), unique=True)
    reachable: Mapped[bool] = mapped_column(default=False, server_default=false())
    port_security_enabled: Mapped[bool] = mapped_column(default=True, server_default=true())
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class SubnetPool(Lockable, Base):
    """A transaction that gives a subnet a range of the pool locks the pool's row, after those of networks.

    `default_for`: the IP version whose default pool it is.
    """

    __tablename__ = "subnet_pools"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    prefixes: Mapped[list[Any]]
    ip_version: Mapped[int]
    default_prefixlen: Mapped[int]
    min_prefixlen: Mapped[int]
    max_prefixlen: Mapped[int]
    default_quota: Mapped[int | None]
    default_for: Mapped[int | None] = mapped_column(unique=True)
    shared: Mapped[bool]
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Subnet(Base):
    """`last_address`: the address that was allocated last. The search for the next free address begins after it.
    `pool_id`: the row of its subnet pool.
    """

    __tablename__ = "subnets"
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    network_id: Mapped[int] = mapped_column(ForeignKey("networks.id"), index=True)
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str] = mapped_column(index=True)
    ip_version: Mapped[int]
    cidr: Mapped[str] = mapped_column(String(50))
    gateway_ip: Mapped[str | None] = mapped_column(String(45))
    enable_dhcp: Mapped[bool]
    allocation_pools: Mapped[list[Any]]
    dns_nameservers: Mapped[list[Any]]
    host_routes: Mapped[list[Any]]
    ipv6_address_mode: Mapped[str | None] = mapped_column(String(16))
    ipv6_ra_mode: Mapped[str | None] = mapped_column(String(16))
    last_address: Mapped[str | None] = mapped_column(String(45))
    service_types: Mapped[list[Any] | None]
    pool_id: Mapped[int | None] = mapped_column(index=True)
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


# The status of a port that was deleted while a guest is using it.
PENDING_DELETE = "PENDING_DELETE"


class Port(Lockable, Base):
    """`mac_address` is unique in the cloud. A port with status PENDING_DELETE is hidden, and keeps its addresses until the guest
    has released it.

    `instance_uuid`: the server that uses the port, as its interface number `nic`. `device_id` is the value that users
    may write.
    `made_for_instance`: the port is deleted with the server.
    `tag`: of that interface.
    """

    __tablename__ = "ports"
    __table_args__ = (
        Index("ports_network_id", "network_id", "id"),
        Index("ports_project_id", "project_id", "id"),
        Index("ports_device_id", "device_id"),
        Index("ports_instance_uuid", "instance_uuid"),
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(Uuid, unique=True)
    network_id: Mapped[int] = mapped_column(ForeignKey("networks.id"))
    name: Mapped[str]
    description: Mapped[str]
    project_id: Mapped[str]
    admin_state_up: Mapped[bool]
    mac_address: Mapped[str] = mapped_column(String(17), unique=True)
    device_id: Mapped[str]
    device_owner: Mapped[str]
    instance_uuid: Mapped[str | None] = mapped_column(Uuid)
    nic: Mapped[int | None]
    made_for_instance: Mapped[bool] = mapped_column(default=False, server_default=false())
    tag: Mapped[str | None] = mapped_column(String(60))
    host: Mapped[str]
    status: Mapped[str] = mapped_column(String(16))
    port_security_enabled: Mapped[bool] = mapped_column(default=True, server_default=true())
    allowed_address_pairs: Mapped[list[Any] | None]
    has_address_pairs: Mapped[bool] = mapped_column(default=False, server_default=false())
    extra_dhcp_opts: Mapped[list[Any] | None]
    binding_profile: Mapped[dict[str, Any] | None]
    revision_number: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class IpAllocation(Base):
    """The primary key ensures that no address of a subnet is allocated twice."""

    __tablename__ = "ip_allocations"
    subnet_id: Mapped[int] = mapped_column(ForeignKey("subnets.id"), primary_key=True)
    address: Mapped[str] = mapped_column(String(45), primary_key=True)
    port_id: Mapped[int] = mapped_column(ForeignKey("ports.id"), index=True)


class NetworkTag(Base):
    """`resource_id`: of a network, subnet, subnet pool, port, security group or its rule, or address group. Tags are removed with it."""

    __tablename__ = "network_tags"
    __table_args__ = (Index("network_tags_tag", "tag"),)
    resource_id: Mapped[str] = mapped_column(Uuid, primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)
