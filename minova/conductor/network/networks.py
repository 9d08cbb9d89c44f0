"""Networks and subnets: made, changed and deleted, each in one transaction."""

import ipaddress
from collections import Counter
from collections.abc import Sequence

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import NetworksApi, SubnetsApi
from minova.db.models import Network as NetworkRow
from minova.db.networks import networks, subnets
from minova.db.quotas import OverQuota, give
from minova.objects.network import addresses
from minova.objects.network.network import LOCAL, Network, Subnet


class Networks(NetworksApi):
    def __init__(self, worker: Worker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def create_network(self, ctx: RequestContext, network: Network) -> Network:
        """Raises SegmentInUse if another network has its physical network or VLAN, Forbidden if the quota is used
        up.
        """

        def work(session: Session) -> Network:
            self._quotas.take(session, network.project_id, {"networks": 1})
            return networks.add(session, network, self._worker.at())

        try:
            return self._quotas.run(work)
        except OverQuota as error:
            raise refused(error) from None
        except IntegrityError:
            raise errors.SegmentInUse(
                f"Unable to create the network. {_segment(network)} is in use by another network."
            ) from None

    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        """Raises RevisionNumberConstraintFailed if the network has changed since `network` was read. Raises
        InvalidSharedSetting if it is no longer shared but ports of other projects are on it.
        """

        def work(session: Session) -> Network:
            row = require(session, network.id)
            if row.shared and not network.shared and networks.has_ports_of_others(session, row):
                raise errors.InvalidSharedSetting(
                    f"Unable to reconfigure sharing settings for network {network.id}. Multiple tenants are using it."
                )
            written = networks.replace(session, network, self._worker.at())
            current = networks.find(session, network.id)
            if current is None:
                raise not_found(network.id)
            if not written:
                raise changed("network", network.id)
            return current

        return self._worker.run(work)

    def delete_network(self, ctx: RequestContext, network_id: str) -> None:
        def work(session: Session) -> None:
            row = require(session, network_id)
            if networks.has_ports(session, row.id):
                raise errors.NetworkInUse(
                    f"Unable to complete operation on network {network_id}. There are one or more ports still in use on the network."
                )
            gone: Counter[tuple[str, str]] = Counter({(row.project_id, "networks"): 1})
            for project_id, count in networks.remove(session, row.id).items():
                gone[project_id, "subnets"] += count
            for (project_id, resource), count in sorted(gone.items()):
                give(session, project_id, {resource: count})

        self._worker.run(work)


class Subnets(SubnetsApi):
    """`local_ranges`: the ranges in which subnets of local networks may lie; empty: any range."""

    def __init__(self, worker: Worker, quotas: Quotas, local_ranges: Sequence[str] = ()) -> None:
        self._worker = worker
        self._quotas = quotas
        try:
            self._local_ranges = [ipaddress.ip_network(text) for text in local_ranges]
        except ValueError as error:
            raise errors.InvalidConfiguration(f"[networks] local_ranges: {error}") from None

    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        """`any_range`: a local network may have any range if `local_ranges` is empty.

        Raises BadRequest if the range is not allowed for local networks. Raises OverlappingSubnets if a subnet of the
        network has addresses of the range. For a local network, the subnets of all other local networks count, too.
        """

        def work(session: Session) -> Subnet:
            network = networks.find(session, subnet.network_id)
            if network is not None and network.network_type == LOCAL:
                networks.lock_local(session)
            row = require(session, subnet.network_id)
            if row.network_type == LOCAL:
                self._require_local_range(subnet, any_range=any_range)
            self._check_overlap(session, row, subnet)
            self._quotas.take(session, subnet.project_id, {"subnets": 1})
            return subnets.add(session, subnet, row.id, self._worker.at())

        try:
            return self._quotas.run(work)
        except OverQuota as error:
            raise refused(error) from None

    def _check_overlap(self, session: Session, row: NetworkRow, subnet: Subnet) -> None:
        others = [other.cidr for other in subnets.of_network(session, row.id)]
        overlapped = addresses.overlap(subnet.cidr, others)
        if overlapped is not None:
            raise errors.OverlappingSubnets(
                f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} "
                f"overlaps with another subnet: {overlapped}."
            )
        if row.network_type != LOCAL:
            return
        # The text does not name the other subnet, because it may be another project's.
        if addresses.overlap(subnet.cidr, subnets.ranges_of_local(session)) is not None:
            raise errors.OverlappingSubnets(
                f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} overlaps with a subnet of another "
                "local network. Local networks share the addresses of their hosts: choose another range."
            )

    def _require_local_range(self, subnet: Subnet, *, any_range: bool) -> None:
        """Hosts have routes to local networks. Outside the allowed ranges, such a route could divert traffic of the
        cloud itself.
        """
        block = ipaddress.ip_network(subnet.cidr)
        if self._local_ranges and not addresses.is_within(block, self._local_ranges):
            ranges = ", ".join(map(str, self._local_ranges))
            raise errors.BadRequest(
                f"Invalid input for cidr. Reason: '{subnet.cidr}' is not in a range of local networks: {ranges}."
            )
        if not any_range:
            addresses.check_local_range(block, limited=not self._local_ranges)

    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        def work(session: Session) -> Subnet:
            network_id = subnets.network_of(session, subnet.id)
            if network_id is None or networks.lock(session, network_id) is None:
                raise subnet_not_found(subnet.id)
            if subnet.gateway_ip is not None and subnets.has_address(session, subnet.id, subnet.gateway_ip):
                raise errors.IpAddressAlreadyAllocated(
                    f"Gateway ip {subnet.gateway_ip} is allocated to a port of subnet {subnet.id}."
                )
            written = subnets.replace(session, subnet, self._worker.at())
            current = subnets.find(session, subnet.id)
            if current is None:
                raise subnet_not_found(subnet.id)
            if not written:
                raise changed("subnet", subnet.id)
            return current

        return self._worker.run(work)

    def delete_subnet(self, ctx: RequestContext, subnet_id: str) -> None:
        def work(session: Session) -> None:
            network_id = subnets.network_of(session, subnet_id)
            if network_id is None or networks.lock(session, network_id) is None:
                raise subnet_not_found(subnet_id)
            subnet = subnets.find(session, subnet_id)
            if subnet is None:
                raise subnet_not_found(subnet_id)
            if subnets.is_used(session, subnet_id):
                raise errors.SubnetInUse(
                    f"Unable to complete operation on subnet {subnet_id}: One or more ports have an IP allocation from this subnet."
                )
            subnets.remove(session, subnet_id)
            give(session, subnet.project_id, {"subnets": 1})

        self._worker.run(work)


def require(session: Session, network_id: str) -> NetworkRow:
    """Returns the locked row. Raises NetworkNotFound."""
    row = networks.lock(session, network_id)
    if row is None:
        raise not_found(network_id)
    return row


def not_found(network_id: str) -> errors.NetworkNotFound:
    return errors.NetworkNotFound(f"Network {network_id} could not be found.")


def subnet_not_found(subnet_id: str) -> errors.SubnetNotFound:
    return errors.SubnetNotFound(f"Subnet {subnet_id} could not be found.")


def changed(kind: str, identity: str) -> errors.RevisionNumberConstraintFailed:
    return errors.RevisionNumberConstraintFailed(f"The {kind} {identity} has changed meanwhile. Please try again.")


def _segment(network: Network) -> str:
    if network.segmentation_id is None:
        return f"The physical network {network.physical_network}"
    return f"The VLAN {network.segmentation_id} on physical network {network.physical_network}"
