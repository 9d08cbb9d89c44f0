"""Addresses that a guest has whose row the database does not have: they are held, so that no other server gets them.

A held port is hidden, as one that waits for its deletion, and belongs to no server and no project. Its uniqueness is the
one of all ports: of the MAC address in the cloud, of the address in its subnet.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.models.networks import PENDING_DELETE
from minova.db.networks import ports
from minova.objects.vif import Vif

OWNER = "minova:held"
Row = models.Port


def hold(session: Session, instance_uuid: str, vifs: Sequence[Vif], at: datetime) -> list[str]:
    """Holds the MAC addresses and the addresses of these interfaces, except those that exist as ports. Idempotent.

    Returns what is not free any more.
    """
    lost: list[str] = []
    networks = _locked(session, {vif.network_id for vif in vifs})
    for vif in sorted(vifs, key=lambda one: one.port_id):
        if vif.network_id not in networks or ports.exists(session, vif.port_id):
            continue
        if ports.macs_among(session, [vif.mac_address]):
            lost.append(vif.mac_address)
            continue
        port_id = _add(session, instance_uuid, vif, networks[vif.network_id], at)
        free, taken = _free(session, vif)
        lost += taken
        ports.allocate_several(session, {port_id: free})
    return lost


def release(session: Session, instance_uuids: Iterable[str]) -> None:
    """Gives up what is held for these guests."""
    query = select(Row.id).where(Row.device_owner == OWNER, Row.device_id.in_(sorted(instance_uuids)))
    for port_id in session.scalars(query.order_by(Row.id)).all():
        ports.remove(session, port_id)


def _locked(session: Session, network_uuids: Iterable[str]) -> dict[str, int]:
    """Locks the networks that exist. Returns their row ids."""
    query = select(models.Network.uuid, models.Network.id).where(models.Network.uuid.in_(sorted(network_uuids)))
    return {row.uuid: row.id for row in session.execute(query.order_by(models.Network.id).with_for_update())}


def _add(session: Session, instance_uuid: str, vif: Vif, network_id: int, at: datetime) -> int:
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
        "host": "",
        "status": PENDING_DELETE,
        "revision_number": 0,
        "created_at": at,
        "updated_at": at,
    }
    session.connection().execute(insert(Row).values(**values))
    port_id = session.scalar(select(Row.id).where(Row.uuid == vif.port_id))
    assert port_id is not None  # it was just written
    return port_id


def _free(session: Session, vif: Vif) -> tuple[list[tuple[int, str]], list[str]]:
    """Returns the interface's addresses that are free, with the row ids of their subnets, and those that are taken."""
    query = select(models.Subnet.uuid, models.Subnet.id)
    wanted = [address.subnet_id for address in vif.addresses]
    subnets = {row.uuid: row.id for row in session.execute(query.where(models.Subnet.uuid.in_(wanted)))}
    free: list[tuple[int, str]] = []
    taken: list[str] = []
    for address in vif.addresses:
        subnet_id = subnets.get(address.subnet_id)
        if subnet_id is None:
            continue
        if ports.taken_among(session, subnet_id, [address.ip_address]):
            taken.append(address.ip_address)
        else:
            free.append((subnet_id, address.ip_address))
    return free, taken
