"""Finds the instance that has an address on a network. No two ports of a network have the same address."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, IpAllocation, Network, Port


def on_host(session: Session, host: str, address: str, network_id: str) -> str | None:
    """Returns the uuid of the instance of this host that has the address on this network; None if there is none."""
    query = (
        select(Instance.uuid)
        .join(Port, Port.instance_uuid == Instance.uuid)
        .join(IpAllocation, IpAllocation.port_id == Port.id)
        .join(Network, Network.id == Port.network_id)
        .where(
            IpAllocation.address == address,
            Network.uuid == network_id,
            Instance.host == host,
            Instance.deleted_at.is_(None),
        )
    )
    return session.scalar(query)
