"""Networks and subnets: made, changed and deleted, each in one transaction."""

from collections import Counter

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.local_ranges import LocalRanges
from minova.conductor.quotas import Quotas, refused
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import NetworksApi, SubnetsApi
from minova.db.engine import when_committed
from minova.db.models import Network as NetworkRow
from minova.db.networks import networks, subnets
from minova.db.quotas import OverQuota, give
from minova.objects.network import addresses
from minova.objects.network.network import LOCAL, Network, Subnet


class Networks(NetworksApi):
    def __init__(self, worker: Worker, quotas: Quotas, ranges: LocalRanges, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints
        self._ranges = ranges

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
        InvalidSharedSetting if it is no longer shared but ports of other projects are on it. Raises BadRequest or
        OverlappingSubnets if it is reachable now but its ranges are not allowed, or those of another reachable network.
        """

        def work(session: Session) -> Network:
            if network.reachable:
                self._ranges.lock(session)
            row = require(session, network.id)
            if network.reachable and not row.reachable:
                # An administrator decides about it.
                cidrs = [subnet.cidr for subnet in subnets.of_network(session, row.id)]
                self._ranges.require(session, row, cidrs, any_range=True)
            if row.shared and not network.shared and networks.has_ports_of_others(session, row):
                raise errors.InvalidSharedSetting(
                    f"Unable to reconfigure sharing settings for network {network.id}. Multiple tenants are using it."
                )
            when_committed(session, lambda: self._hints.network_changed(network.id))
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
    def __init__(self, worker: Worker, quotas: Quotas, ranges: LocalRanges, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints
        self._ranges = ranges

    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        """`any_range`: an exclusive range need not be private.

        Raises OverlappingSubnets if a subnet of the network has addresses of the range. Raises the errors of
        `LocalRanges.require` for an exclusive range. Raises RevisionNumberConstraintFailed if the network has become
        reachable at the same time.
        """

        def work(session: Session) -> Subnet:
            network = networks.find(session, subnet.network_id)
            if network is None:
                raise not_found(subnet.network_id)
            is_exclusive = network.network_type == LOCAL and self._ranges.are_exclusive(reachable=network.reachable)
            if is_exclusive:
                self._ranges.lock(session)
            row = require(session, subnet.network_id)
            if row.reachable and not is_exclusive:
                raise changed("network", network.id)
            _require_no_overlap(session, row, subnet)
            if is_exclusive:
                self._ranges.require(session, row, [subnet.cidr], any_range=any_range)
            self._quotas.take(session, subnet.project_id, {"subnets": 1})
            when_committed(session, lambda: self._hints.network_changed(network.id))
            return subnets.add(session, subnet, row.id, self._worker.at())

        try:
            return self._quotas.run(work)
        except OverQuota as error:
            raise refused(error) from None

    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        def work(session: Session) -> Subnet:
            network_id = subnets.network_of(session, subnet.id)
            if network_id is None or networks.lock(session, network_id) is None:
                raise subnet_not_found(subnet.id)
            if subnet.gateway_ip is not None and subnets.has_address(session, subnet.id, subnet.gateway_ip):
                raise errors.IpAddressAlreadyAllocated(
                    f"Gateway ip {subnet.gateway_ip} is allocated to a port of subnet {subnet.id}."
                )
            when_committed(session, lambda: self._hints.network_changed(network_id))
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
            when_committed(session, lambda: self._hints.network_changed(network_id))
            subnets.remove(session, subnet_id)
            give(session, subnet.project_id, {"subnets": 1})

        self._worker.run(work)


def _require_no_overlap(session: Session, row: NetworkRow, subnet: Subnet) -> None:
    """Raises OverlappingSubnets if a subnet of the same network has addresses of the range."""
    overlapped = addresses.overlap(subnet.cidr, [other.cidr for other in subnets.of_network(session, row.id)])
    if overlapped is not None:
        raise errors.OverlappingSubnets(
            f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} "
            f"overlaps with another subnet: {overlapped}."
        )


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
