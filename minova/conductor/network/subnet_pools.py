"""Subnet pools: made, changed and deleted, each in one transaction; and the ranges that they give to new subnets.

Every transaction locks networks before pools, and pools before usages.
"""

import ipaddress
from collections import Counter
from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.network.revisions import changed, require_revision
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.networks import SubnetPoolsApi
from minova.db.models import Network as NetworkRow
from minova.db.models import SubnetPool as Row
from minova.db.networks import subnet_pools as rows
from minova.db.networks import subnets
from minova.db.quotas import give
from minova.objects.network import addresses
from minova.objects.network.network import Subnet
from minova.objects.network.subnet_pools import (
    SubnetPool,
    check_length,
    free_range,
    is_free,
    require_prefixes,
    units,
)

_SECOND_DEFAULT = (
    "A default subnetpool for this IP family has already been set. Only one default may exist per IP family"
)


class SubnetPools(SubnetPoolsApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def create_subnet_pools(self, ctx: RequestContext, pools: tuple[SubnetPool, ...]) -> tuple[SubnetPool, ...]:
        def work(session: Session) -> tuple[SubnetPool, ...]:
            for project_id, count in sorted(Counter(pool.project_id for pool in pools).items()):
                self._quotas.take(session, project_id, {"subnetpool": count})
            for pool in pools:
                rows.add(session, pool, self._worker.at())
            return tuple(_require(rows.find(session, pool.id), pool.id) for pool in pools)

        try:
            return self._quotas.counted(work)
        except IntegrityError:
            raise errors.BadRequest(f"Bad subnetpool request: {_SECOND_DEFAULT}.") from None

    def update_subnet_pool(self, ctx: RequestContext, pool: SubnetPool) -> SubnetPool:
        def work(session: Session) -> SubnetPool:
            require_prefixes(rows.to_object(_lock(session, pool.id)), pool.prefixes)
            if not rows.replace(session, pool, self._worker.at()):
                raise changed("subnet pool", pool.id)
            return _require(rows.find(session, pool.id), pool.id)

        try:
            return self._worker.run(work)
        except IntegrityError:
            raise errors.BadRequest(f"Bad subnetpool request: {_SECOND_DEFAULT}.") from None

    def delete_subnet_pool(self, ctx: RequestContext, pool_id: str, revision: int | None = None) -> None:
        def work(session: Session) -> None:
            row = _lock(session, pool_id)
            require_revision(row, revision)
            if rows.is_used(session, row.id):
                raise errors.SubnetPoolDeleteError(
                    "Unable to delete subnet pool: Subnet pool has existing allocations."
                )
            project_id = row.project_id
            rows.remove(session, pool_id)
            give(session, project_id, {"subnetpool": 1})

        self._worker.run(work)


def lock_of(session: Session, requested: Collection[Subnet]) -> Mapping[str, Row]:
    """Returns the locked pools of these subnets by id. Raises SubnetPoolNotFound."""
    pool_ids = {subnet.subnetpool_id for subnet in requested if subnet.subnetpool_id is not None}
    locked = rows.lock_several(session, pool_ids)
    for missing in sorted(pool_ids - locked.keys()):
        raise _not_found(missing)
    return locked


def row_id(pools: Mapping[str, Row], subnet: Subnet) -> int | None:
    return None if subnet.subnetpool_id is None else pools[subnet.subnetpool_id].id


def with_range(session: Session, subnet: Subnet, pools: Mapping[str, Row], network: NetworkRow) -> Subnet:
    """Returns the subnet with its range. The network and the pools are locked.

    Raises NetworkSubnetPoolAffinityError if the network has subnets of the same IP version that are not of the same pool.
    Raises SubnetAllocationError if the range is not free, or none is; SubnetPoolQuotaExceeded; BadRequest if the pool has no
    ranges of this length.
    """
    pool_id = row_id(pools, subnet)
    of_network = subnets.of_network(session, network.id)
    # As in Neutron: of a pool's subnets no others, and beside other subnets none of a pool.
    if any(other.ip_version == subnet.ip_version and other.pool_id != pool_id for other in of_network):
        raise errors.NetworkSubnetPoolAffinityError(
            "Subnets hosted on the same network must be allocated from the same subnet pool."
        )
    if subnet.subnetpool_id is None:
        return subnet
    row = pools[subnet.subnetpool_id]
    ranges = rows.ranges_of(session, row.id)
    placed = _placed(rows.to_object(row), subnet, [cidr for _, cidr in ranges])
    if row.default_quota:
        used = sum(units(cidr) for project_id, cidr in ranges if project_id == subnet.project_id)
        if used + units(placed.cidr) > row.default_quota:
            raise errors.SubnetPoolQuotaExceeded("Per-project subnet pool prefix quota exceeded.")
    return placed


def _placed(pool: SubnetPool, subnet: Subnet, taken: Collection[str]) -> Subnet:
    if subnet.prefixlen is None:
        check_length(pool, ipaddress.ip_network(subnet.cidr).prefixlen)
        if not is_free(pool, subnet.cidr, taken):
            raise errors.SubnetAllocationError(
                "Failed to allocate subnet: Cannot allocate requested subnet from the available set of prefixes."
            )
        return subnet
    check_length(pool, subnet.prefixlen)
    cidr = free_range(pool, subnet.prefixlen, taken)
    if cidr is None:
        raise errors.SubnetAllocationError(
            f"Failed to allocate subnet: Insufficient prefix space to allocate subnet size /{subnet.prefixlen}."
        )
    block = addresses.parse_cidr(cidr, subnet.ip_version)
    gateway = addresses.default_gateway(block) if subnet.gateway_ip == "" else subnet.gateway_ip
    if gateway is not None:
        gateway = addresses.check_gateway(block, gateway)
    return msgspec.structs.replace(
        subnet,
        cidr=cidr,
        prefixlen=None,
        gateway_ip=gateway,
        allocation_pools=addresses.default_pools(block, gateway),
    )


def _lock(session: Session, pool_id: str) -> Row:
    locked = rows.lock_several(session, [pool_id])
    if pool_id not in locked:
        raise _not_found(pool_id)
    return locked[pool_id]


def _require(pool: SubnetPool | None, pool_id: str) -> SubnetPool:
    if pool is None:
        raise _not_found(pool_id)
    return pool


def _not_found(pool_id: str) -> errors.SubnetPoolNotFound:
    return errors.SubnetPoolNotFound(f"Subnet pool {pool_id} could not be found.")
