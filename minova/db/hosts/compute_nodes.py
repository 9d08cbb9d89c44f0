"""Compute nodes as the conductor writes them. `generation` counts the writes."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Update, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.codecs import Decoder
from minova.db.models import ComputeNode
from minova.db.servers import pci_devices
from minova.db.sql import chunked
from minova.objects.hosts import compute_node as objects
from minova.objects.hosts.bounds import MAX_NODES
from minova.objects.hosts.pci import PciDevice
from minova.objects.network.addresses import is_address

# Devices have their own table. The stamp only orders the writes: a new stamp alone is not a change.
_STAMP = ("writer_epoch", "write_number")
_OWN = ("id", "generation", "pci_devices", "acknowledged", *_STAMP)
_NODE = Decoder(objects.ComputeNode)
_FIELDS = [name for name in objects.ComputeNode.__struct_fields__ if name not in _OWN]
# The columns that claims and removals change between audits.
_USAGE = (
    "vcpus_used",
    "memory_mb_used",
    "local_gb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "current_workload",
    "running_vms",
    "stats",
    "numa_topology",
    "pci_device_pools",
)

# Built once: every audit of every node runs them.
_FIND = select(ComputeNode).where(
    ComputeNode.host == bindparam("host"), ComputeNode.hypervisor_hostname == bindparam("node")
)
_LOCK = _FIND.with_for_update().execution_options(populate_existing=True)
_KEY = select(ComputeNode.id, ComputeNode.uuid, ComputeNode.generation).where(
    ComputeNode.host == bindparam("host"), ComputeNode.hypervisor_hostname == bindparam("node")
)
_NAMES = select(ComputeNode.hypervisor_hostname).where(ComputeNode.host == bindparam("host")).order_by(ComputeNode.id)
_TABLE: Any = ComputeNode.__table__


def _usage_update(*conditions: ColumnElement[bool], stamp: Sequence[str] = ()) -> Update:
    """Uses the core table and is built once: each boot writes a node twice."""
    names = (*_USAGE, "updated_at", *stamp)
    values = {_TABLE.c[name]: bindparam(f"b_{name}", type_=_TABLE.c[name].type) for name in names}
    return (
        update(_TABLE)
        .where(_TABLE.c.host == bindparam("b_host"), _TABLE.c.hypervisor_hostname == bindparam("b_node"), *conditions)
        .values({**values, _TABLE.c.generation: _TABLE.c.generation + 1})
    )


_WRITE_USAGE = _usage_update()
# Updates only if the row has no later write than this one.
_WRITE_NUMBERED_USAGE = _usage_update(
    or_(
        _TABLE.c.writer_epoch.is_(None),
        _TABLE.c.writer_epoch < bindparam("b_writer_epoch"),
        and_(
            _TABLE.c.writer_epoch == bindparam("b_writer_epoch"), _TABLE.c.write_number <= bindparam("b_write_number")
        ),
    ),
    stamp=_STAMP,
)


class NodeKey(NamedTuple):
    """The part of a node's row that only the database knows."""

    id: int
    uuid: str
    generation: int


def find(session: Session, host: str, nodename: str, *, lock: bool = False) -> ComputeNode | None:
    return session.scalar(_LOCK if lock else _FIND, {"host": host, "node": nodename})


def find_key(session: Session, host: str, nodename: str) -> NodeKey | None:
    row = session.execute(_KEY, {"host": host, "node": nodename}).one_or_none()
    return None if row is None else NodeKey(*row)


def names_of(session: Session, host: str) -> tuple[str, ...]:
    return tuple(session.connection().execute(_NAMES, {"host": host}).scalars())


def of_hosts(session: Session, hosts: Sequence[str]) -> dict[int, str]:
    """Returns {id: uuid} of the nodes of these hosts."""
    uuids: dict[int, str] = {}
    for chunk in chunked(hosts):
        query = select(ComputeNode.id, ComputeNode.uuid).where(ComputeNode.host.in_(chunk))
        uuids.update({row[0]: row[1] for row in session.execute(query)})
    return uuids


class EnsuredNode(NamedTuple):
    """A node's locked row, and whether it was created now."""

    row: ComputeNode
    is_new: bool


def addresses(session: Session) -> list[str]:
    """Returns the addresses of hosts, as they report them: those that are IP addresses."""
    texts = session.scalars(select(ComputeNode.host_ip).where(ComputeNode.host_ip.is_not(None)).distinct())
    return sorted(text for text in texts if text is not None and is_address(text))


def ensure(session: Session, node: objects.ComputeNode, at: datetime) -> EnsuredNode:
    """Returns the node's locked row. Creates the row if there is none.

    If another node of the host has the same uuid, the node was renamed: its row gets the new name. If a node of another
    host has the uuid, which happens after a renaming, this node gets a new uuid.

    Raises BadRequest if the host has as many nodes as a host can serve.
    """
    row = find(session, node.host, node.hypervisor_hostname, lock=True)
    if row is not None:
        return EnsuredNode(row, is_new=False)
    _require_place(session, node)
    is_new = True
    try:
        with session.begin_nested():
            values = {**_values(objects.with_clamped_figures(node), _FIELDS), "generation": 1, "created_at": at}
            session.connection().execute(insert(ComputeNode).values(**values))
    except IntegrityError:  # two first audits at the same time
        is_new = False
    row = find(session, node.host, node.hypervisor_hostname, lock=True) or _renamed(session, node)
    if row is None:
        return ensure(session, msgspec.structs.replace(node, uuid=str(uuid.uuid4())), at)
    return EnsuredNode(row, is_new)


def _require_place(session: Session, node: objects.ComputeNode) -> None:
    """Raises BadRequest: a stolen host could make nodes without end, which each scheduler would read."""
    count = session.scalar(select(func.count()).select_from(ComputeNode).where(ComputeNode.host == node.host)) or 0
    if count >= MAX_NODES and _renamed(session, node) is None:
        raise errors.BadRequest(f"Host {node.host} has {count} nodes, and a host serves {MAX_NODES} at most")


def _renamed(session: Session, node: objects.ComputeNode) -> ComputeNode | None:
    query = select(ComputeNode).where(ComputeNode.uuid == node.uuid, ComputeNode.host == node.host).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def is_stale(row: ComputeNode, node: objects.ComputeNode) -> bool:
    """Whether the row has a later write than this one. Raises Superseded if this write is by an earlier process of the
    host than the row's last write.
    """
    if not node.writer_epoch or row.writer_epoch is None:
        return False
    if node.writer_epoch < row.writer_epoch:
        raise errors.Superseded(
            f"Node {node.hypervisor_hostname} of host {node.host} is written by a later minova-compute now"
        )
    return node.writer_epoch == row.writer_epoch and node.write_number < (row.write_number or 0)


def note_write(session: Session, row: ComputeNode, node: objects.ComputeNode) -> None:
    """Stamps the locked row with this write, so that older writes are stale from now on."""
    if node.writer_epoch:
        row.writer_epoch, row.write_number = node.writer_epoch, node.write_number
        session.flush()


def write_if_changed(session: Session, row: ComputeNode, node: objects.ComputeNode, at: datetime) -> bool:
    """Writes the whole node to its locked row. Returns False if nothing differs."""
    before, node = to_object(row), objects.with_clamped_figures(node)
    differing = [name for name in _FIELDS if name != "uuid" and getattr(before, name) != getattr(node, name)]
    if not pci_devices.write(session, row.id, node.pci_devices) and not differing:
        return False
    for name in differing:
        setattr(row, name, getattr(node, name))
    row.generation += 1
    row.updated_at = at
    session.flush()
    return True


def write_usage(session: Session, node: objects.ComputeNode, at: datetime) -> bool:
    """Writes what instances use of the node. Returns False if the node has no row, or the row has a later write than
    this one.

    Raises Superseded if a later process of the host has written the row.
    """
    values = {f"b_{name}": value for name, value in _values(objects.with_clamped_figures(node), _USAGE).items()}
    values |= {"b_host": node.host, "b_node": node.hypervisor_hostname, "b_updated_at": at}
    if node.writer_epoch:
        values |= {f"b_{name}": getattr(node, name) for name in _STAMP}
    statement = _WRITE_NUMBERED_USAGE if node.writer_epoch else _WRITE_USAGE
    result: Any = session.connection().execute(statement, values)
    if not result.rowcount and (row := find(session, node.host, node.hypervisor_hostname)) is not None:
        is_stale(row, node)
    # Only an audit can add or remove devices: a node without devices has none to write.
    if result.rowcount and node.pci_devices and _id_of(session, node) == node.id:
        pci_devices.write(session, node.id, node.pci_devices)
    return bool(result.rowcount)


def _id_of(session: Session, node: objects.ComputeNode) -> int:
    """Returns the id of the row of this host and name. The id in the message may belong to another host, or to a row
    that is gone.
    """
    return int(session.execute(_KEY, {"host": node.host, "node": node.hypervisor_hostname}).one().id)


def remove(session: Session, row: ComputeNode) -> None:
    session.connection().execute(delete(ComputeNode).where(ComputeNode.id == row.id))


def to_object(row: ComputeNode, devices: Sequence[PciDevice] = ()) -> objects.ComputeNode:
    values = {name: getattr(row, name) for name in ("id", "generation", *_FIELDS)}
    values["bridges"] = values["bridges"] or {}
    return msgspec.structs.replace(_NODE.from_builtins(values), pci_devices=tuple(devices))


def as_written(node: objects.ComputeNode, row: ComputeNode | NodeKey) -> objects.ComputeNode:
    """The node as `to_object` would read it from this row after the write."""
    return msgspec.structs.replace(
        objects.with_clamped_figures(node),
        id=row.id,
        uuid=row.uuid,
        generation=row.generation,
        pci_devices=(),
        writer_epoch=0,
        write_number=0,
        acknowledged=0,
    )


def _values(node: objects.ComputeNode, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(node, name) for name in names}
