"""Finds the instance that has an address on a `local` network. No two ports of a network have the same address."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, IpAllocation, Network, Port
from minova.objects.network.network import LOCAL


def on_host(session: Session, host: str, address: str, network_id: str) -> str | None:
    """Returns the uuid of the instance of this host that has the address on this network. Returns None if there is
    none, or, with an empty `network_id`, several networks with the address.
    """
    query = (
        select(Instance.uuid)
        .join(Port, Port.instance_uuid == Instance.uuid)
        .join(IpAllocation, IpAllocation.port_id == Port.id)
        .join(Network, Network.id == Port.network_id)
        .where(
            IpAllocation.address == address,
            Network.network_type == LOCAL,
            Instance.host == host,
            Instance.deleted_at.is_(None),
        )
    )
    if network_id:
        query = query.where(Network.uuid == network_id)
    uuids = session.scalars(query.distinct()).all()
    # If two instances have it, they cannot be told apart.
    return uuids[0] if len(uuids) == 1 else None
