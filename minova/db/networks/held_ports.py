"""Addresses that a guest has whose row the database does not have: they are held, so that no other server gets them.

A held port is hidden, as one that waits for its deletion, and belongs to no server and no project. Its uniqueness is the
one of all ports: of the MAC address in the cloud, of the address in its subnet.
"""

import ipaddress
import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.models.networks import PENDING_DELETE
from minova.db.networks import ports
from minova.objects.network.vif import Vif

OWNER = "minova:held"
# The most guests of one host for which anything is held, and how many addresses each may have on average.
MAX_GUESTS = 1000
GUESTS_OF_UNKNOWN_NODES = 100
ADDRESSES_OF_GUEST = 4
Row = models.Port


def hold(session: Session, instance_uuid: str, vifs: Sequence[Vif], at: datetime, host: str = "") -> list[str]:
    """Holds the MAC addresses and the addresses of these interfaces, except those that exist as ports. Idempotent.
    `host`: which has reported them, see `has_room`.

    Returns what is not free any more.
    """
    lost_addresses: list[str] = []
    networks = _locked(session, {vif.network_id for vif in vifs})
    for vif in sorted(vifs, key=lambda vif: vif.port_id):
        if vif.network_id not in networks or ports.exists(session, vif.port_id):
            continue
        if ports.macs_among(session, [vif.mac_address]):
            lost_addresses.append(vif.mac_address)
            continue
        port_id = _add(session, instance_uuid, vif, networks[vif.network_id], at, host)
        free, taken_addresses = _free(session, vif, networks[vif.network_id])
        lost_addresses += taken_addresses
        ports.allocate_several(session, {port_id: free})
    return lost_addresses


def most_guests(session: Session, host: str) -> int:
    """Returns how many guests the nodes of a host can have: each needs a virtual CPU. A host whose nodes the database does
    not know yet may have GUESTS_OF_UNKNOWN_NODES.
    """
    model = models.ComputeNode
    rows = session.execute(select(model.vcpus, model.cpu_allocation_ratio).where(model.host == host))
    counts: list[int] = [math.ceil(row.vcpus * max(1.0, row.cpu_allocation_ratio)) for row in rows]
    return min(MAX_GUESTS, sum(counts)) if counts else GUESTS_OF_UNKNOWN_NODES


def has_room(session: Session, host: str, instance_uuid: str, vifs: Sequence[Vif]) -> bool:
    """Whether the interfaces of one more guest may be held for this host: not more guests than its nodes can have, with
    ADDRESSES_OF_GUEST addresses each on average. A stolen host can report any guest.
    """
    conditions = Row.device_owner == OWNER, Row.host == host, Row.device_id != instance_uuid
    guests = session.scalar(select(func.count(Row.device_id.distinct())).where(*conditions)) or 0
    model = models.IpAllocation
    query = select(func.count()).select_from(model).join(Row, Row.id == model.port_id).where(*conditions)
    addresses = (session.scalar(query) or 0) + sum(len(vif.addresses) for vif in vifs)
    most = most_guests(session, host)
    return guests < most and addresses <= most * ADDRESSES_OF_GUEST


def lock(session: Session, instance_uuids: Iterable[str]) -> None:
    """Locks what is held for these guests."""
    query = select(Row.id).where(Row.device_owner == OWNER, Row.device_id.in_(sorted(instance_uuids)))
    session.execute(query.order_by(Row.id).with_for_update()).all()


def release(session: Session, instance_uuids: Iterable[str]) -> None:
    """Gives up what is held for these guests."""
    query = select(Row.id).where(Row.device_owner == OWNER, Row.device_id.in_(sorted(instance_uuids)))
    for port_id in session.scalars(query.order_by(Row.id)).all():
        ports.remove(session, port_id)


def _locked(session: Session, network_uuids: Iterable[str]) -> dict[str, int]:
    """Locks the networks that exist. Returns their row ids."""
    query = select(models.Network.uuid, models.Network.id).where(models.Network.uuid.in_(sorted(network_uuids)))
    return {row.uuid: row.id for row in session.execute(query.order_by(models.Network.id).with_for_update())}


def _add(session: Session, instance_uuid: str, vif: Vif, network_id: int, at: datetime, host: str) -> int:
    values = {
        "uuid": vif.port_id,
        "network_id": network_id,
        "name": "",
        "description": "",
        "project_id": "",
        "admin_state_up": True,
        "mac_address": vif.mac_address,
        "device_id": instance_uuid,
        "device_owner": OWNER,
        "host": host,
        "status": PENDING_DELETE,
        "revision_number": 0,
        "created_at": at,
        "updated_at": at,
    }
    session.connection().execute(insert(Row).values(**values))
    port_id = session.scalar(select(Row.id).where(Row.uuid == vif.port_id))
    assert port_id is not None  # it was just written
    return port_id


def _free(session: Session, vif: Vif, network_id: int) -> tuple[list[tuple[int, str]], list[str]]:
    """Returns the interface's addresses that are free, with the row ids of their subnets, and those that are taken.
    Leaves out addresses that are not in a subnet of the network.
    """
    model = models.Subnet
    query = select(model.uuid, model.id, model.cidr).where(model.network_id == network_id)
    subnet_uuids = [address.subnet_id for address in vif.addresses]
    subnets = {row.uuid: row for row in session.execute(query.where(model.uuid.in_(subnet_uuids)))}
    free: list[tuple[int, str]] = []
    taken_addresses: list[str] = []
    for subnet_uuid, address in sorted({(address.subnet_id, address.ip_address) for address in vif.addresses}):
        subnet = subnets.get(subnet_uuid)
        if subnet is None or not _is_in(address, subnet.cidr):
            continue
        if ports.taken_among(session, subnet.id, [address]):
            taken_addresses.append(address)
        else:
            free.append((subnet.id, address))
    return free, taken_addresses


def _is_in(address: str, cidr: str) -> bool:
    """Whether the text is an address of the subnet, in the form in which addresses are stored."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return str(parsed) == address and parsed in ipaddress.ip_network(cidr)
