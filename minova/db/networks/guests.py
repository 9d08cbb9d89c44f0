"""Which instance has an address on a `local` network: there no two ports of the cloud have the same one."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from minova.db.models import Instance, IpAllocation, Network, Port
from minova.objects.network import LOCAL


def on_host(session: Session, host: str, address: str) -> str | None:
    """Its uuid; None: no instance of this host has the address."""
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
    uuids = session.scalars(query.distinct()).all()
    # Were there two, neither could be told from the other.
    return uuids[0] if len(uuids) == 1 else None
