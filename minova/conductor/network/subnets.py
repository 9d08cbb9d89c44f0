"""Subnets: made, changed and deleted, each in one transaction."""

import ipaddress
from collections import Counter
from collections.abc import Collection
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network import subnet_pools
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.local_ranges import LocalRanges
from minova.conductor.network.networks import not_found
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import SubnetsApi
from minova.db.engine import when_committed
from minova.db.models import Network as NetworkRow
from minova.db.networks import networks as rows
from minova.db.networks import ports
from minova.db.networks import subnets as subnet_rows
from minova.db.quotas import give
from minova.objects.network import addresses
from minova.objects.network.network import LOCAL, Subnet
from minova.races import Race, repeat_lost

# A port of the network was removed while it got an address.
PORT_GONE = Race(IntegrityError, tries=3)


class Subnets(SubnetsApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas, ranges: LocalRanges, hints: InterfaceNotifier) -> None:
        self._worker = worker
        self._quotas = quotas
        self._hints = hints
        self._ranges = ranges

    def create_subnets(
        self, ctx: RequestContext, subnets: tuple[Subnet, ...], any_range: bool = False
    ) -> tuple[Subnet, ...]:
        """`any_range`: an exclusive range need not be private.

        A subnet of a pool gets a range of it. Raises OverlappingSubnets if a subnet of the network has addresses of a range. Raises the errors of
        `LocalRanges.require` for an exclusive range. Raises RevisionNumberConstraintFailed if a network has become
        reachable at the same time.
        """

        def work(session: Session) -> tuple[Subnet, ...]:
            locked = self._lock_networks(session, {subnet.network_id for subnet in subnets})
            pools = subnet_pools.lock_of(session, subnets)
            # Before the work that it limits.
            for project_id, count in sorted(Counter(subnet.project_id for subnet in subnets).items()):
                self._quotas.take(session, project_id, {"subnets": count})
            created_subnets = []
            for requested in subnets:
                row, is_exclusive = locked[requested.network_id]
                subnet = subnet_pools.with_range(session, requested, pools, row)
                _require_no_overlap(session, row, subnet)
                if is_exclusive:
                    self._ranges.require(session, row, [subnet.cidr], any_range=any_range)
                created_subnets.append(
                    subnet_rows.add(session, subnet, row.id, self._worker.at(), subnet_pools.row_id(pools, subnet))
                )
                if subnet.is_automatic:
                    _give_to_ports(session, subnet, row.id)
            for network_id in sorted(locked):
                when_committed(session, partial(self._hints.network_changed, network_id))
            return tuple(created_subnets)

        return repeat_lost(lambda: self._quotas.counted(work), [PORT_GONE])

    def _lock_networks(self, session: Session, network_ids: Collection[str]) -> dict[str, tuple[NetworkRow, bool]]:
        """Returns the locked networks by id, each with whether its ranges are exclusive."""
        are_exclusive: dict[str, bool] = {}
        for network_id in sorted(network_ids):
            network = rows.find(session, network_id)
            if network is None:
                raise not_found(network_id)
            is_local = network.network_type == LOCAL
            are_exclusive[network_id] = is_local and self._ranges.are_exclusive(reachable=network.reachable)
        if any(are_exclusive.values()):
            self._ranges.lock(session)
        locked = rows.lock_several(session, are_exclusive.keys())
        for network_id, is_exclusive in are_exclusive.items():
            if network_id not in locked:
                raise not_found(network_id)
            if locked[network_id].row.reachable and not is_exclusive:
                raise changed("network", network_id)
        return {network_id: (network.row, are_exclusive[network_id]) for network_id, network in locked.items()}

    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        def work(session: Session) -> Subnet:
            network_id = subnet_rows.network_of(session, subnet.id)
            if network_id is None or rows.lock(session, network_id) is None:
                raise subnet_not_found(subnet.id)
            if subnet.gateway_ip is not None and subnet_rows.has_address(session, subnet.id, subnet.gateway_ip):
                raise errors.IpAddressAlreadyAllocated(
                    f"Gateway ip {subnet.gateway_ip} is allocated to a port of subnet {subnet.id}."
                )
            when_committed(session, lambda: self._hints.network_changed(network_id))
            written = subnet_rows.replace(session, subnet, self._worker.at())
            current = subnet_rows.find(session, subnet.id)
            if current is None:
                raise subnet_not_found(subnet.id)
            if not written:
                raise changed("subnet", subnet.id)
            return current

        return self._worker.run(work)

    def delete_subnet(self, ctx: RequestContext, subnet_id: str, revision: int | None = None) -> None:
        def work(session: Session) -> None:
            network_id = subnet_rows.network_of(session, subnet_id)
            if network_id is None or rows.lock(session, network_id) is None:
                raise subnet_not_found(subnet_id)
            subnet = subnet_rows.find(session, subnet_id)
            if subnet is None:
                raise subnet_not_found(subnet_id)
            require_revision(subnet, revision)
            if subnet.is_automatic:  # its ports have them as long as it is there, as in Neutron
                subnet_rows.take_from_ports(session, subnet_id)
            elif subnet_rows.is_used(session, subnet_id):
                raise errors.SubnetInUse(
                    f"Unable to complete operation on subnet {subnet_id}: One or more ports have an IP allocation from this subnet."
                )
            when_committed(session, lambda: self._hints.network_changed(network_id))
            subnet_rows.remove(session, subnet_id)
            give(session, subnet.project_id, {"subnets": 1})

        self._worker.run(work)


def _give_to_ports(session: Session, subnet: Subnet, network_id: int) -> None:
    """Give the ports of the network the addresses that their guests make themselves. The network is locked: it gets no
    other port meanwhile. A port that is removed meanwhile is a race.
    """
    block = ipaddress.ip_network(subnet.cidr)
    macs = ports.macs_of_network(session, network_id)
    row_id = subnet_rows.row_id(session, subnet.id)
    addresses_by_port = {port_id: [(row_id, addresses.automatic_address(block, mac))] for port_id, mac in macs}
    ports.allocate_several(session, addresses_by_port)


def _require_no_overlap(session: Session, row: NetworkRow, subnet: Subnet) -> None:
    """Raises OverlappingSubnets if a subnet of the same network has addresses of the range."""
    overlapped = addresses.overlap(subnet.cidr, [other.cidr for other in subnet_rows.of_network(session, row.id)])
    if overlapped is not None:
        raise errors.OverlappingSubnets(
            f"Invalid input for operation: Requested subnet with cidr: {subnet.cidr} for network: {subnet.network_id} "
            f"overlaps with another subnet: {overlapped}."
        )


def subnet_not_found(subnet_id: str) -> errors.SubnetNotFound:
    return errors.SubnetNotFound(f"Subnet {subnet_id} could not be found.")
