"""A network for the tests of interfaces that servers get and lose, and the arguments of those actions."""

import uuid
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from minova.db import models
from minova.db.networks import networks, ports, subnets
from minova.objects.actions.action import ServerAction
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.network import addresses
from minova.objects.network.network import AllocationPool, Network, Port, Subnet
from tests.fakes.action_arguments import asked_with

PROJECT = "p"
NAME = "of interfaces"
_AT = datetime(2026, 1, 1, tzinfo=UTC)


def network_of(session: Session, project_id: str = PROJECT) -> models.Network:
    """Made with the first call, with one subnet."""
    row = session.scalar(select(models.Network).where(models.Network.name == NAME))
    if row is not None:
        return row
    network = Network(id=str(uuid.uuid4()), name=NAME, project_id=project_id)
    networks.add(session, network, _AT)
    row = session.scalars(select(models.Network).where(models.Network.uuid == network.id)).one()
    subnet = Subnet(
        id=str(uuid.uuid4()),
        network_id=network.id,
        project_id=project_id,
        ip_version=4,
        cidr="10.99.0.0/24",
        gateway_ip="10.99.0.1",
        allocation_pools=(AllocationPool(start="10.99.0.2", end="10.99.0.254"),),
    )
    subnets.add(session, subnet, row.id, _AT)
    return row


def arguments(session: Session, action: ServerAction, instance_uuid: str) -> dict[str, Any]:
    """What the conductor gets for the action. For a detachment the server gets an interface, if it has none."""
    if action is ATTACH_INTERFACE:
        return {"interface": {"id": str(uuid.uuid4()), "network_id": network_of(session).uuid}}
    if action is DETACH_INTERFACE:
        attached = ports.of_instance(session, instance_uuid)
        return {"port_id": attached[0].id if attached else given(session, instance_uuid)}
    return asked_with(action)


def given(session: Session, instance_uuid: str) -> str:
    """The id of a port that the server has, as if it had been created with it."""
    network = network_of(session)
    count = session.scalar(select(func.count()).select_from(models.Port)) or 0
    port = Port(
        id=str(uuid.uuid4()),
        network_id=network.uuid,
        project_id=PROJECT,
        mac_address=addresses.mac_of(0xFF0000 + count),
        device_id=instance_uuid,
        device_owner="compute:nova",
        created_at=_AT,
        updated_at=_AT,
    )
    (row,) = ports.add_several(session, [port], [network.id], [0])
    (subnet,) = subnets.of_network(session, network.id)
    ports.allocate_several(session, {row: [(subnet.id, f"10.99.0.{200 + count}")]})
    return port.id
