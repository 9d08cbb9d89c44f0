"""Networks: queries and writes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, exists, insert, not_, or_, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.networks import tags
from minova.db.networks.pages import Page, rows_of
from minova.db.sql import chunked, in_list
from minova.objects.network.network import FLAT, LOCAL, VLAN, Network

Row = models.Network
_COLUMNS = tuple(name for name in Network.__struct_fields__ if name not in ("id", "subnets"))
# The columns that a change may set.
_CHANGING = ("name", "description", "admin_state_up", "shared", "external", "mtu", "reachable", "port_security_enabled")
# Built once: every server with interfaces reads its networks, and every new port locks one.
_FIND = (
    select(Row, models.Subnet.uuid)
    .outerjoin(models.Subnet, models.Subnet.network_id == Row.id)
    .where(Row.uuid == bindparam("uuid"))
    .order_by(models.Subnet.id)
)
_LOCK = select(Row).where(in_list(Row.uuid)).order_by(Row.id).with_for_update()
_SUBNETS = select(models.Subnet).where(in_list(models.Subnet.network_id)).order_by(models.Subnet.id)


def find(session: Session, uuid: str) -> Network | None:
    rows = session.execute(_FIND, {"uuid": uuid}, execution_options={"populate_existing": True}).all()
    return None if not rows else _to_object(rows[0][0], [subnet for _, subnet in rows if subnet is not None])


def visible(
    session: Session,
    project_id: str | None,
    filters: Mapping[str, Sequence[Any]],
    page: Page,
    *,
    shared: bool | None = None,
) -> list[Network]:
    """Returns the networks that a project may see; None: all. `shared`: only those that every project sees, or only the
    others. Raises LookupError if the marker is unknown.
    """
    query = select(Row)
    if shared is not None:
        of_all = or_(Row.shared, Row.external)
        query = query.where(of_all if shared else not_(of_all))
    if project_id is not None:
        query = query.where(or_(Row.project_id == project_id, Row.shared, Row.external))
    return _to_objects(session, rows_of(session, query, Row, filters, page))


def usable(session: Session, project_id: str, limit: int) -> list[Network]:
    """Returns the networks that servers of a project may use: its own networks and the shared ones."""
    query = select(Row).where(or_(Row.project_id == project_id, Row.shared)).order_by(Row.id).limit(limit)
    return _to_objects(session, list(session.scalars(query)))


def add(session: Session, network: Network, at: datetime) -> Network:
    new_network = msgspec.structs.replace(network, created_at=at, updated_at=at, revision_number=1, subnets=())
    values = {name: getattr(new_network, name) for name in _COLUMNS}
    session.connection().execute(insert(Row).values(uuid=new_network.id, segment=segment_of(new_network), **values))
    return new_network


def segment_of(network: Network) -> str | None:
    """Returns what only one network may have: a physical network without tags, or one of its VLANs."""
    if network.network_type == FLAT:
        return f"flat:{network.physical_network}"
    if network.network_type == VLAN:
        return f"vlan:{network.physical_network}:{network.segmentation_id}"
    return None


def replace(session: Session, network: Network, at: datetime) -> bool:
    """Returns False if the network's revision is no longer `network.revision_number`."""
    values = {name: getattr(network, name) for name in _CHANGING}
    statement = update(Row).where(Row.uuid == network.id, Row.revision_number == network.revision_number)
    changed = statement.values(revision_number=network.revision_number + 1, updated_at=at, **values)
    result: Any = session.connection().execute(changed)
    return bool(result.rowcount)


def lock(session: Session, uuid: str) -> models.Network | None:
    """Until the transaction ends, nothing else can be put on the network and it cannot be removed."""
    return session.scalar(
        select(Row).where(Row.uuid == uuid).with_for_update().execution_options(populate_existing=True)
    )


class LockedNetwork(NamedTuple):
    row: models.Network
    subnets: list[models.Subnet]


def lock_several(session: Session, uuids: AbstractSet[str]) -> dict[str, LockedNetwork]:
    """Locks those of these networks that exist, in the order of all writers. Returns them by uuid."""
    if not uuids:
        return {}
    options = {"populate_existing": True}
    rows = session.scalars(_LOCK, {"some": sorted(uuids)}, execution_options=options)
    locked = {row.id: LockedNetwork(row, []) for row in rows}
    # Not in the statement that locks: PostgreSQL would not show a subnet that was made while it waited for the lock.
    if locked:
        for subnet in session.scalars(_SUBNETS, {"some": sorted(locked)}, execution_options=options):
            locked[subnet.network_id].subnets.append(subnet)
    return {network.row.uuid: network for network in locked.values()}


def lock_local(session: Session) -> None:
    """Locks all `local` networks."""
    session.execute(select(Row.id).where(Row.network_type == LOCAL).order_by(Row.id).with_for_update()).all()


def hosts_of(session: Session, uuids: Collection[str]) -> set[str]:
    """Returns the hosts of the servers that have ports on these networks."""
    instance, port = models.Instance, models.Port
    query = select(instance.host).join(port, port.instance_uuid == instance.uuid).join(Row, Row.id == port.network_id)
    hosts: set[str] = set()
    for chunk in chunked(sorted(uuids)):
        hosts |= {host for host in session.scalars(query.where(Row.uuid.in_(chunk)).distinct()) if host}
    return hosts


def has_ports(session: Session, network_id: int) -> bool:
    return bool(session.scalar(select(exists().where(models.Port.network_id == network_id))))


def has_ports_of_others(session: Session, network: models.Network) -> bool:
    """Whether the network has ports of projects that do not own it."""
    port = models.Port
    query = exists().where(port.network_id == network.id, port.project_id != network.project_id)
    return bool(session.scalar(select(query)))


def remove(session: Session, network_id: int) -> Mapping[str, int]:
    """Removes the network with its subnets. Returns {project: number of its removed subnets}. The network must be
    locked and have no ports.
    """
    owners: dict[str, int] = {}
    for project_id in session.scalars(select(models.Subnet.project_id).where(models.Subnet.network_id == network_id)):
        owners[project_id] = owners.get(project_id, 0) + 1
    tags.remove(session, select(models.Subnet.uuid).where(models.Subnet.network_id == network_id))
    tags.remove(session, select(Row.uuid).where(Row.id == network_id))
    session.connection().execute(delete(models.Subnet).where(models.Subnet.network_id == network_id))
    session.connection().execute(delete(Row).where(Row.id == network_id))
    return owners


def _to_objects(session: Session, rows: Iterable[models.Network]) -> list[Network]:
    rows = list(rows)
    subnets: dict[int, list[str]] = {}
    for chunk in chunked([row.id for row in rows]):
        query = select(models.Subnet.network_id, models.Subnet.uuid).where(models.Subnet.network_id.in_(chunk))
        for network_id, uuid in session.execute(query.order_by(models.Subnet.id)):
            subnets.setdefault(network_id, []).append(uuid)
    return [_to_object(row, subnets.get(row.id, ())) for row in rows]


def _to_object(row: models.Network, subnets: Iterable[str]) -> Network:
    return Network(id=row.uuid, subnets=tuple(subnets), **{name: getattr(row, name) for name in _COLUMNS})
