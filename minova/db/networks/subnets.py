"""Subnets: queries and writes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import bindparam, delete, exists, func, insert, not_, or_, select, update
from sqlalchemy.orm import Session

from minova.codecs import Decoder
from minova.db import models
from minova.db.networks import tags
from minova.db.networks.pages import Page, rows_of
from minova.db.sql import chunked
from minova.objects.network.network import LOCAL, AllocationPool, HostRoute, Subnet

Row, Net, PoolRow = models.Subnet, models.Network, models.SubnetPool
# Built once: every new port reads them.
_OF_NETWORK = select(Row).where(Row.network_id == bindparam("network")).order_by(Row.id)
_POOLS = Decoder(tuple[AllocationPool, ...])
_ROUTES = Decoder(tuple[HostRoute, ...])
_PLAIN = (
    "name",
    "description",
    "project_id",
    "ip_version",
    "cidr",
    "gateway_ip",
    "enable_dhcp",
    "ipv6_address_mode",
    "ipv6_ra_mode",
    "revision_number",
    "created_at",
    "updated_at",
)
_CHANGING = ("name", "description", "gateway_ip", "enable_dhcp")


def find(session: Session, uuid: str) -> Subnet | None:
    row = session.scalar(select(Row).where(Row.uuid == uuid).execution_options(populate_existing=True))
    return None if row is None else _to_objects(session, [row])[0]


def visible(
    session: Session,
    project_id: str | None,
    filters: Mapping[str, Sequence[Any]],
    page: Page,
    *,
    shared: bool | None = None,
) -> list[Subnet]:
    """Returns the subnets of the networks that a project may see. None: all. `shared`: only those of networks that every
    project sees, or only the others. Raises LookupError if the marker is unknown.
    """
    query = select(Row).join(Net, Net.id == Row.network_id)
    if shared is not None:
        of_all = or_(Net.shared, Net.external)
        query = query.where(of_all if shared else not_(of_all))
    if project_id is not None:
        query = query.where(or_(Row.project_id == project_id, Net.project_id == project_id, Net.shared, Net.external))
    return _to_objects(session, rows_of(session, query, Row, by_row(session, filters), page))


def by_row(session: Session, filters: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Returns the filters with the row ids of networks and pools in place of their uuids."""
    row_filters = dict(filters)
    for name, column, table in (("network_id", "network_id", Net), ("subnetpool_id", "pool_id", PoolRow)):
        if name in filters:
            row_filters[column] = session.scalars(select(table.id).where(table.uuid.in_(row_filters.pop(name)))).all()
    return row_filters


def of_network(session: Session, network_id: int) -> list[models.Subnet]:
    return list(session.scalars(_OF_NETWORK, {"network": network_id}, execution_options={"populate_existing": True}))


def ranges_of_local(session: Session, *, without: int, reachable: bool) -> list[str]:
    """Returns the ranges of all `local` networks, or of the `reachable` ones, except the network `without` (row id)."""
    query = select(Row.cidr).join(Net, Net.id == Row.network_id).where(Net.network_type == LOCAL, Net.id != without)
    return list(session.scalars(query.where(Net.reachable) if reachable else query))


def add(session: Session, subnet: Subnet, network_id: int, at: datetime, pool_id: int | None = None) -> Subnet:
    """`pool_id`: row id of its subnet pool."""
    new_subnet = msgspec.structs.replace(subnet, created_at=at, updated_at=at, revision_number=1)
    values = {name: getattr(new_subnet, name) for name in _PLAIN} | {"pool_id": pool_id}
    session.connection().execute(
        insert(Row).values(uuid=new_subnet.id, network_id=network_id, **values, **_lists(new_subnet))
    )
    return new_subnet


def replace(session: Session, subnet: Subnet, at: datetime) -> bool:
    """Returns False if the subnet's revision is no longer `subnet.revision_number`."""
    values = {name: getattr(subnet, name) for name in _CHANGING}
    statement = update(Row).where(Row.uuid == subnet.id, Row.revision_number == subnet.revision_number)
    changed = statement.values(revision_number=subnet.revision_number + 1, updated_at=at, **values, **_lists(subnet))
    result: Any = session.connection().execute(changed)
    return bool(result.rowcount)


def network_of(session: Session, uuid: str) -> str | None:
    """Returns the uuid of the subnet's network."""
    return session.scalar(select(Net.uuid).join(Row, Row.network_id == Net.id).where(Row.uuid == uuid))


def with_usage(session: Session, network_uuids: Sequence[str]) -> dict[str, list[tuple[Subnet, int]]]:
    """Returns {network: its subnets, each with the number of addresses that ports have}."""
    allocation = models.IpAllocation
    subnets_by_network: dict[str, list[tuple[Subnet, int]]] = {}
    for chunk in chunked(network_uuids):
        rows = session.scalars(
            select(Row).join(Net, Net.id == Row.network_id).where(Net.uuid.in_(chunk)).order_by(Row.id)
        ).all()
        count = select(allocation.subnet_id, func.count()).group_by(allocation.subnet_id)
        used: dict[int, int] = {}
        for some in chunked([row.id for row in rows]):
            used |= {
                row_id: int(number) for row_id, number in session.execute(count.where(allocation.subnet_id.in_(some)))
            }
        for row, subnet in zip(rows, _to_objects(session, rows), strict=True):
            subnets_by_network.setdefault(subnet.network_id, []).append((subnet, used.get(row.id, 0)))
    return subnets_by_network


def is_used(session: Session, uuid: str) -> bool:
    allocation = models.IpAllocation
    query = exists().where(allocation.subnet_id == Row.id, Row.uuid == uuid)
    return bool(session.scalar(select(query)))


def has_address(session: Session, uuid: str, address: str) -> bool:
    """Whether a port has this address of the subnet."""
    allocation = models.IpAllocation
    query = exists().where(allocation.subnet_id == Row.id, Row.uuid == uuid, allocation.address == address)
    return bool(session.scalar(select(query)))


def row_id(session: Session, uuid: str) -> int:
    return int(session.scalars(select(Row.id).where(Row.uuid == uuid)).one())


def take_from_ports(session: Session, uuid: str) -> None:
    """Takes the addresses of the subnet from all ports."""
    allocation = models.IpAllocation
    of_subnet = select(Row.id).where(Row.uuid == uuid).scalar_subquery()
    session.connection().execute(delete(allocation).where(allocation.subnet_id == of_subnet))


def remove(session: Session, uuid: str) -> None:
    tags.remove(session, [uuid])
    session.connection().execute(delete(Row).where(Row.uuid == uuid))


def pools_of(row: models.Subnet) -> tuple[AllocationPool, ...]:
    return _POOLS.from_builtins(row.allocation_pools)


def _pool_ids(session: Session, row_ids: Collection[int]) -> dict[int, str]:
    ids_by_row: dict[int, str] = {}
    for chunk in chunked(sorted(row_ids)):
        query = select(PoolRow.id, PoolRow.uuid).where(PoolRow.id.in_(chunk))
        ids_by_row.update((row_id, uuid) for row_id, uuid in session.execute(query))
    return ids_by_row


def _lists(subnet: Subnet) -> dict[str, Any]:
    return {
        "allocation_pools": [msgspec.to_builtins(pool) for pool in subnet.allocation_pools],
        "dns_nameservers": list(subnet.dns_nameservers),
        "host_routes": [msgspec.to_builtins(route) for route in subnet.host_routes],
        "service_types": list(subnet.service_types),
    }


def _to_objects(session: Session, rows: Sequence[models.Subnet]) -> list[Subnet]:
    ids = {row.network_id for row in rows}
    networks = {row.id: row for row in session.scalars(select(Net).where(Net.id.in_(ids)))} if ids else {}
    pools = _pool_ids(session, {row.pool_id for row in rows if row.pool_id is not None})
    return [
        Subnet(
            id=row.uuid,
            network_id=networks[row.network_id].uuid,
            shared=networks[row.network_id].shared,
            allocation_pools=pools_of(row),
            dns_nameservers=tuple(row.dns_nameservers),
            host_routes=_ROUTES.from_builtins(row.host_routes),
            service_types=tuple(row.service_types or ()),
            subnetpool_id=None if row.pool_id is None else pools[row.pool_id],
            **{name: getattr(row, name) for name in _PLAIN},
        )
        for row in rows
    ]
