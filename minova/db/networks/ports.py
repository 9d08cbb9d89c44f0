"""Ports and their addresses: queries and writes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, bindparam, delete, insert, or_, select, update
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.models.networks import PENDING_DELETE
from minova.db.networks import security_groups, tags
from minova.db.networks.pages import Page, rows_of
from minova.db.networks.subnets import by_row
from minova.db.networks.vif_rules import OPTIONS, pairs_of
from minova.db.sql import chunked, in_list
from minova.objects.network.network import FixedIp, Port
from minova.objects.servers.states import VmState

Row, Net, Allocation = models.Port, models.Network, models.IpAllocation
Group, Binding = models.SecurityGroup, models.PortSecurityGroup
_PLAIN = (
    "name",
    "description",
    "project_id",
    "admin_state_up",
    "mac_address",
    "device_id",
    "device_owner",
    "host",
    "status",
    "tag",
    "port_security_enabled",
    "revision_number",
    "created_at",
    "updated_at",
)
_CHANGING = (
    "name",
    "description",
    "admin_state_up",
    "mac_address",
    "device_id",
    "device_owner",
    "host",
    "port_security_enabled",
)
# Built once: every new port runs them.
_ADD = insert(Row).returning(Row.id, sort_by_parameter_order=True)
_ALLOCATE = insert(Allocation)
_MACS = select(Row.mac_address).where(in_list(Row.mac_address))
_NOTE_LAST = update(models.Subnet).where(models.Subnet.id == bindparam("subnet")).values(last_address=bindparam("last"))
_TAKEN = select(Allocation.address).where(Allocation.subnet_id == bindparam("subnet"), in_list(Allocation.address))


def find(session: Session, uuid: str) -> Port | None:
    """Returns None if there is no such port, or it is being deleted."""
    query = select(Row).where(Row.uuid == uuid, Row.status != PENDING_DELETE)
    row = session.scalar(query.execution_options(populate_existing=True))
    return None if row is None else _to_objects(session, [row])[0]


def of_instance(session: Session, instance_uuid: str) -> list[Port]:
    """Returns a server's ports in the order of its interfaces, without those that are being deleted."""
    query = (
        select(Row).where(Row.instance_uuid == instance_uuid, Row.status != PENDING_DELETE).order_by(Row.nic, Row.id)
    )
    return _to_objects(session, list(session.scalars(query)))


def visible(
    session: Session,
    project_id: str | None,
    filters: Mapping[str, Sequence[Any]],
    page: Page,
    addresses: Mapping[str, Sequence[str]] = {},
) -> list[Port]:
    """Returns the ports that a project may see: its own, and those on its networks. None: all.

    `addresses`: {`ip_address` or `subnet_id`: allowed values}.

    Raises LookupError if the marker is unknown.
    """
    query = select(Row).join(Net, Net.id == Row.network_id).where(Row.status != PENDING_DELETE)
    if project_id is not None:
        query = query.where(or_(Row.project_id == project_id, Net.project_id == project_id))
    values: dict[str, Sequence[Any]] = by_row(session, filters)
    if groups := values.pop("security_groups", None):
        with_one = select(Binding.port_id).join(Group, Group.id == Binding.group_id).where(Group.uuid.in_(groups))
        query = query.where(Row.id.in_(with_one))
    if addresses:
        values["id"] = session.scalars(select(Allocation.port_id).where(*_of_addresses(addresses))).all()
    return _to_objects(session, rows_of(session, query, Row, values, page))


def _of_addresses(addresses: Mapping[str, Sequence[str]]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if "ip_address" in addresses:
        conditions.append(Allocation.address.in_(addresses["ip_address"]))
    if "subnet_id" in addresses:
        subnets = select(models.Subnet.id).where(models.Subnet.uuid.in_(addresses["subnet_id"]))
        conditions.append(Allocation.subnet_id.in_(subnets))
    return conditions


def _documents(port: Port) -> dict[str, Any]:
    """Returns the columns that have lists and dictionaries."""
    pairs = [msgspec.to_builtins(pair) for pair in port.allowed_address_pairs]
    options = [msgspec.to_builtins(option) for option in port.extra_dhcp_opts]
    return {
        "allowed_address_pairs": pairs,
        "has_address_pairs": bool(pairs),
        "extra_dhcp_opts": options or None,
        "binding_profile": port.binding_profile or None,
    }


def replace(session: Session, port: Port, at: datetime) -> bool:
    """Returns False if the port's revision is no longer `port.revision_number`."""
    values = {name: getattr(port, name) for name in _CHANGING} | _documents(port)
    statement = update(Row).where(Row.uuid == port.id, Row.revision_number == port.revision_number)
    changed = statement.values(revision_number=port.revision_number + 1, updated_at=at, **values)
    result: Any = session.connection().execute(changed)
    return bool(result.rowcount)


def lock(session: Session, uuid: str) -> models.Port | None:
    return session.scalar(
        select(Row).where(Row.uuid == uuid).with_for_update().execution_options(populate_existing=True)
    )


def exists(session: Session, uuid: str) -> bool:
    """Whether the port exists, also one that is being deleted."""
    return session.scalar(select(Row.id).where(Row.uuid == uuid)) is not None


def is_attached(session: Session, uuid: str) -> bool:
    """Whether a server has the port."""
    return session.scalar(select(Row.instance_uuid).where(Row.uuid == uuid)) is not None


def lock_several(session: Session, uuids: Collection[str]) -> None:
    if uuids:
        session.execute(select(Row.id).where(Row.uuid.in_(uuids)).order_by(Row.id).with_for_update()).all()


def add_several(
    session: Session, ports: Sequence[Port], network_ids: Sequence[int], nics: Sequence[int | None]
) -> list[int]:
    """Adds the ports to the networks with these row ids. Returns the row ids of the ports.

    A port with an interface number is created for the server whose uuid is its `device_id`.
    """
    rows = [
        {name: getattr(port, name) for name in _PLAIN}
        | _documents(port)
        | {"uuid": port.id, "network_id": network_id, "nic": nic, "made_for_instance": nic is not None}
        | {"instance_uuid": port.device_id if nic is not None else None}
        for port, network_id, nic in zip(ports, network_ids, nics, strict=True)
    ]
    if not rows:
        return []
    added = session.connection().execute(_ADD, rows)
    return [int(row_id) for row_id in added.scalars()]


def server_of(session: Session, uuid: str) -> str | None:
    """Returns the server that has the port; None if no server has it, or there is no such port."""
    return session.scalar(select(Row.instance_uuid).where(Row.uuid == uuid))


def numbers_of(session: Session, instance_uuid: str) -> list[int]:
    """The numbers of a server's interfaces."""
    return [int(nic or 0) for nic in session.scalars(select(Row.nic).where(Row.instance_uuid == instance_uuid))]


def give_to(session: Session, port_id: int, instance_uuid: str, nic: int, owner: str, tag: str | None = None) -> None:
    """Attaches the port to the server."""
    values = {"instance_uuid": instance_uuid, "nic": nic, "device_id": instance_uuid, "device_owner": owner, "tag": tag}
    session.connection().execute(update(Row).where(Row.id == port_id).values(**values))


_FREE = {"instance_uuid": None, "nic": None, "device_id": "", "device_owner": "", "tag": None}


class DetachedPort(NamedTuple):
    """A port that was taken from a server. `groups`: ids of its security groups."""

    project_id: str
    removed: bool
    groups: tuple[str, ...]


def take_from(session: Session, uuid: str, instance_uuid: str) -> DetachedPort | None:
    """Takes the port from the server. Removes the port if it was created for the server or is being deleted. Returns
    None if the server does not have it.
    """
    row = lock(session, uuid)
    if row is None or row.instance_uuid != instance_uuid:
        return None
    groups = tuple(group for _, group in security_groups.of_ports(session, [row.id]).get(row.id, ()))
    detached = DetachedPort(row.project_id, removed=_goes(row), groups=groups)
    if detached.removed:
        remove(session, row.id)
    else:
        session.connection().execute(update(Row).where(Row.id == row.id).values(**_FREE))
    return detached


def _goes(row: models.Port) -> bool:
    """Whether the port is removed when it is taken from its server."""
    return row.made_for_instance or row.status == PENDING_DELETE


def mark_pending_delete(session: Session, uuid: str) -> None:
    """Marks a port of a server as deleted: from now on it waits only until the guest has released it."""
    session.connection().execute(update(Row).where(Row.uuid == uuid).values(status=PENDING_DELETE))


def only_pending_delete_on_network(session: Session, network_uuid: str) -> bool:
    """Whether the network has ports, and all of them are being deleted."""
    return _are_pending_delete(session, Row.network_id.in_(select(Net.id).where(Net.uuid == network_uuid)))


def only_pending_delete_of_subnet(session: Session, subnet_uuid: str) -> bool:
    """As `only_pending_delete_on_network`, for the ports with addresses of the subnet."""
    port_ids = select(Allocation.port_id).join(models.Subnet, models.Subnet.id == Allocation.subnet_id)
    return _are_pending_delete(session, Row.id.in_(port_ids.where(models.Subnet.uuid == subnet_uuid)))


def only_pending_delete_of_group(session: Session, group_uuid: str) -> bool:
    """As `only_pending_delete_on_network`, for the ports with the security group."""
    of_port, group = models.PortSecurityGroup, models.SecurityGroup
    having = select(of_port.port_id).join(group, group.id == of_port.group_id)
    return _are_pending_delete(session, Row.id.in_(having.where(group.uuid == group_uuid)))


def _are_pending_delete(session: Session, ports: ColumnElement[bool]) -> bool:
    query = select(Row.id).where(ports)
    if session.scalar(query.where(Row.status != PENDING_DELETE).limit(1)) is not None:
        return False
    return session.scalar(query.limit(1)) is not None


def pending_delete_of(session: Session, instance_uuid: str, mac_address: str | None = None) -> list[str]:
    """Returns the ids of a server's ports that are being deleted: all, or the one with this MAC address."""
    query = select(Row.uuid).where(Row.instance_uuid == instance_uuid, Row.status == PENDING_DELETE)
    if mac_address is not None:
        query = query.where(Row.mac_address == mac_address)
    return list(session.scalars(query.order_by(Row.id)))


def release(session: Session, instance_uuids: Collection[str]) -> Counter[str]:
    """Takes all ports from these servers. Removes those that were created for them or are being deleted. Returns
    {project: number of removed ports}.
    """
    freed: Counter[str] = Counter()
    for chunk in chunked(sorted(instance_uuids)):
        query = select(Row).where(Row.instance_uuid.in_(chunk)).order_by(Row.id).with_for_update()
        rows = session.scalars(query.execution_options(populate_existing=True)).all()
        removed = [row for row in rows if _goes(row)]
        freed.update(row.project_id for row in removed)
        _remove_all(session, [row.id for row in removed])
        kept_ids = [row.id for row in rows if not _goes(row)]
        if kept_ids:
            session.connection().execute(update(Row).where(Row.id.in_(kept_ids)).values(**_FREE))
    return freed


def deleted_servers(session: Session, limit: int) -> list[str]:
    """Returns deleted servers that still have ports, because a conductor of release 0.1.0 has deleted them."""
    orphans = select(Row.instance_uuid).join(models.Instance, models.Instance.uuid == Row.instance_uuid)
    query = orphans.where(models.Instance.deleted_at.is_not(None)).distinct().limit(limit)
    return [str(uuid) for uuid in session.scalars(query)]


def remove(session: Session, port_id: int) -> None:
    _remove_all(session, [port_id])


def _remove_all(session: Session, port_ids: Sequence[int]) -> None:
    for chunk in chunked(port_ids):
        tags.remove(session, select(Row.uuid).where(Row.id.in_(chunk)))
        security_groups.take_from_ports(session, chunk)
        session.connection().execute(delete(Allocation).where(Allocation.port_id.in_(chunk)))
        session.connection().execute(delete(Row).where(Row.id.in_(chunk)))


def macs_of_network(session: Session, network_id: int) -> list[tuple[int, str]]:
    """Returns (row id, MAC address) of the ports of a network."""
    query = select(Row.id, Row.mac_address).where(Row.network_id == network_id).order_by(Row.id)
    return [(int(port_id), mac) for port_id, mac in session.execute(query)]


def macs_among(session: Session, macs: Sequence[str]) -> set[str]:
    """Returns those of these MAC addresses that ports have."""
    return set(session.scalars(_MACS, {"some": list(macs)}))


# -- addresses: the network of the subnet is locked ----------------------------------------------------------------------


def taken_among(session: Session, subnet_id: int, addresses: Sequence[str]) -> set[str]:
    return set(session.scalars(_TAKEN, {"subnet": subnet_id, "some": list(addresses)}))


def taken_addresses(session: Session, subnet_id: int) -> Collection[str]:
    return set(session.scalars(select(Allocation.address).where(Allocation.subnet_id == subnet_id)))


def allocate_several(session: Session, addresses: Mapping[int, Iterable[tuple[int, str]]]) -> None:
    """`addresses`: {row id of the port: [(row id of the subnet, address)]}."""
    rows = [
        {"subnet_id": subnet_id, "address": address, "port_id": port_id}
        for port_id, of_port in addresses.items()
        for subnet_id, address in of_port
    ]
    if rows:
        session.connection().execute(_ALLOCATE, rows)


def give_back(session: Session, port_id: int, addresses: Iterable[tuple[int, str]]) -> None:
    for subnet_id, address in addresses:
        removal = delete(Allocation).where(Allocation.subnet_id == subnet_id, Allocation.address == address)
        session.connection().execute(removal.where(Allocation.port_id == port_id))


def addresses_of_port(session: Session, port_id: int) -> list[tuple[int, str]]:
    """Returns (row id of the subnet, address) of each address of a port."""
    query = select(Allocation.subnet_id, Allocation.address).where(Allocation.port_id == port_id)
    return [(int(subnet_id), address) for subnet_id, address in session.execute(query)]


def note_last(session: Session, subnet_id: int, address: str) -> None:
    """Records the last allocated address. The search for the next one begins after it."""
    session.connection().execute(_NOTE_LAST, {"subnet": subnet_id, "last": address})


def _to_objects(session: Session, rows: Sequence[models.Port]) -> list[Port]:
    fixed: dict[int, list[FixedIp]] = {}
    for chunk in chunked([row.id for row in rows]):
        query = (
            select(Allocation.port_id, models.Subnet.uuid, Allocation.address)
            .join(models.Subnet, models.Subnet.id == Allocation.subnet_id)
            .where(Allocation.port_id.in_(chunk))
            .order_by(models.Subnet.id, Allocation.address)
        )
        for port_id, subnet, address in session.execute(query):
            fixed.setdefault(port_id, []).append(FixedIp(subnet_id=subnet, ip_address=address))
    groups = security_groups.of_ports(session, {row.id for row in rows})
    servers = _servers(session, [row.instance_uuid for row in rows if row.instance_uuid is not None])
    ids = {row.network_id for row in rows}
    networks = {row.id: row for row in session.scalars(select(Net).where(Net.id.in_(ids)))} if ids else {}
    return [
        Port(
            id=row.uuid,
            network_id=networks[row.network_id].uuid,
            network_owner=networks[row.network_id].project_id,
            fixed_ips=tuple(fixed.get(row.id, ())),
            security_groups=tuple(uuid for _, uuid in groups.get(row.id, ())),
            allowed_address_pairs=pairs_of(row),
            extra_dhcp_opts=OPTIONS.from_builtins(row.extra_dhcp_opts or []),
            binding_profile=row.binding_profile or {},
            **{name: getattr(row, name) for name in _PLAIN} | servers.get(row.instance_uuid or "", {}),
        )
        for row in rows
    ]


def _servers(session: Session, uuids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Returns what a port shows of its server: its host, and whether it is active."""
    binding_by_server: dict[str, dict[str, str]] = {}
    for chunk in chunked(uuids):
        query = select(models.Instance.uuid, models.Instance.host, models.Instance.vm_state)
        for uuid, host, vm_state in session.execute(query.where(models.Instance.uuid.in_(chunk))):
            binding_by_server[uuid] = {
                "host": host or "",
                "status": "ACTIVE" if vm_state == VmState.ACTIVE.value else "DOWN",
            }
    return binding_by_server
