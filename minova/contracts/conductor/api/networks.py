"""Calls of the API about minova's own networks."""

from typing import Protocol

from minova.context import RequestContext
from minova.contracts.base import call
from minova.contracts.conductor.audiences import BY_API
from minova.objects.network.address_groups import AddressGroup
from minova.objects.network.network import (
    AddressRequest,
    Network,
    NewPort,
    Port,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from minova.objects.network.subnet_pools import SubnetPool

_NEW_IN_PORTS = {"port.extra_dhcp_opts": "1.9", "port.binding_profile": "1.9"}


@BY_API
class NetworksApi(Protocol):
    @call(since="1.9", refused_when_disk_full=True)
    def create_networks(self, ctx: RequestContext, *, networks: tuple[Network, ...]) -> tuple[Network, ...]:
        """Make all of them or none. Raises SegmentInUse if another network has the physical network of one, or this VLAN of
        it.
        """
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_network(self, ctx: RequestContext, *, network: Network) -> Network:
        """Replace the fields that may change. Raises RevisionNumberConstraintFailed if the network has changed since it
        was read.
        """
        ...

    @call(since="1.7", added={"revision": "1.9"})
    def delete_network(self, ctx: RequestContext, *, network_id: str, revision: int | None = None) -> None:
        """Delete the network with its subnets. Raises NetworkInUse if it has ports, PreconditionFailed if it has another
        revision than the request requires.
        """
        ...


@BY_API
class SubnetsApi(Protocol):
    @call(since="1.9", refused_when_disk_full=True)
    def create_subnets(
        self, ctx: RequestContext, *, subnets: tuple[Subnet, ...], any_range: bool = False
    ) -> tuple[Subnet, ...]:
        """Make all of them or none. `any_range`: see `Subnets.create_subnets`. Raises OverlappingSubnets if another subnet has
        addresses of a range.
        """
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_subnet(self, ctx: RequestContext, *, subnet: Subnet) -> Subnet:
        """Same as `update_network`. Raises IpAddressAlreadyAllocated if a port has the address of the gateway."""
        ...

    @call(since="1.7", added={"revision": "1.9"})
    def delete_subnet(self, ctx: RequestContext, *, subnet_id: str, revision: int | None = None) -> None:
        """Raises SubnetInUse if ports have addresses of it. `revision`: as in `delete_network`."""
        ...


@BY_API
class SubnetPoolsApi(Protocol):
    @call(since="1.9", refused_when_disk_full=True)
    def create_subnet_pools(self, ctx: RequestContext, *, pools: tuple[SubnetPool, ...]) -> tuple[SubnetPool, ...]:
        """Make all of them or none. Raises BadRequest if there is a default pool of the IP version already."""
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def update_subnet_pool(self, ctx: RequestContext, *, pool: SubnetPool) -> SubnetPool:
        """Same as `update_network`."""
        ...

    @call(since="1.9")
    def delete_subnet_pool(self, ctx: RequestContext, *, pool_id: str, revision: int | None = None) -> None:
        """Raises SubnetPoolDeleteError if subnets have ranges of it."""
        ...


@BY_API
class PortsApi(Protocol):
    @call(since="1.7", fields=_NEW_IN_PORTS, refused_when_disk_full=True)
    def create_port(self, ctx: RequestContext, *, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """`fixed_ips` None: the next free address of each IP version. If `mac_address` is empty, a free one is chosen.

        Raises IpAddressGenerationFailure if no address is left. Raises IpAddressAlreadyAllocated or MacAddressInUse if
        another port has the address.
        """
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def create_ports(self, ctx: RequestContext, *, ports: tuple[NewPort, ...]) -> tuple[Port, ...]:
        """Same as `create_port`: makes all of them or none."""
        ...

    @call(since="1.7", fields=_NEW_IN_PORTS, refused_when_disk_full=True)
    def update_port(self, ctx: RequestContext, *, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        """Same as `update_network`. `fixed_ips` None: the addresses stay. Raises the same errors as `create_port`."""
        ...


@BY_API
class DeletePortsApi(Protocol):
    @call(since="1.7", added={"revision": "1.9"})
    def delete_port(self, ctx: RequestContext, *, port_id: str, revision: int | None = None) -> None:
        """Delete the port and free its addresses. `revision`: as in `delete_network`."""
        ...


@BY_API
class SecurityGroupsApi(Protocol):
    @call(since="1.7", refused_when_disk_full=True)
    def ensure_default_security_group(self, ctx: RequestContext, *, project_id: str) -> None:
        """Make the default group of the project if it has none. Idempotent."""
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def create_security_groups(
        self, ctx: RequestContext, *, groups: tuple[SecurityGroup, ...]
    ) -> tuple[SecurityGroup, ...]:
        """Make groups with rules that allow all outgoing traffic: all of them or none. Raises Forbidden if the quota is
        used up.
        """
        ...

    @call(since="1.7", refused_when_disk_full=True)
    def update_security_group(self, ctx: RequestContext, *, group: SecurityGroup) -> SecurityGroup:
        """Change the group's name and description; otherwise same as `update_network`."""
        ...

    @call(since="1.7", added={"revision": "1.9"})
    def delete_security_group(self, ctx: RequestContext, *, group_id: str, revision: int | None = None) -> None:
        """Delete the group, and the rules of other groups that refer to it. Raises SecurityGroupInUse if a port has
        it. `revision`: as in `delete_network`.
        """
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def create_security_group_rules(
        self, ctx: RequestContext, *, rules: tuple[SecurityGroupRule, ...]
    ) -> tuple[SecurityGroupRule, ...]:
        """Make all of them or none. Raises SecurityGroupRuleExists if its group has such a rule already,
        DuplicateSecurityGroupRuleInPost if two of them are the same.
        """
        ...

    @call(since="1.7", added={"revision": "1.9"})
    def delete_security_group_rule(self, ctx: RequestContext, *, rule_id: str, revision: int | None = None) -> None:
        """The change applies at once to ports in use. `revision`: as in `delete_network`."""
        ...


@BY_API
class AddressGroupsApi(Protocol):
    @call(since="1.9", refused_when_disk_full=True)
    def create_address_groups(
        self, ctx: RequestContext, *, address_groups: tuple[AddressGroup, ...]
    ) -> tuple[AddressGroup, ...]:
        """Make all of them or none. Raises Forbidden if the quota is used up."""
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def update_address_group(self, ctx: RequestContext, *, address_group: AddressGroup) -> AddressGroup:
        """Change name and description; otherwise same as `update_network`."""
        ...

    @call(since="1.9", refused_when_disk_full=True)
    def change_addresses(
        self, ctx: RequestContext, *, group_id: str, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
    ) -> AddressGroup:
        """The change applies at once to ports in use. Raises AddressesAlreadyExist or AddressesNotFound, and then changes
        nothing.
        """
        ...

    @call(since="1.9")
    def delete_address_group(self, ctx: RequestContext, *, group_id: str, revision: int | None = None) -> None:
        """Raises AddressGroupInUse if a rule names it. `revision`: as in `delete_network`."""
        ...


@BY_API
class NetworkTagsApi(Protocol):
    @call(since="1.9", refused_when_disk_full=True)
    def update_network_tags(
        self,
        ctx: RequestContext,
        *,
        kind: str,
        resource_id: str,
        add: tuple[str, ...] = (),
        remove: tuple[str, ...] | None = (),
    ) -> tuple[str, ...]:
        """Change the tags of a resource of networks, for example a port or a rule, and return them. `remove` None: all others than
        `add`. Idempotent.

        Raises TagResourceNotFound, or BadRequest if there would be too many.
        """
        ...
