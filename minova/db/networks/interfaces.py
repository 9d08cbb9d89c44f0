"""The interfaces of servers, whichever service has their networks."""

from datetime import datetime

from sqlalchemy.orm import Session

from minova.db.networks import neutron_ports, ports


def release(session: Session, instance_uuid: str, at: datetime) -> dict[str, int]:
    """The server has none any more; ports that were made for it go. {project: how many of minova's own went}."""
    neutron_ports.release(session, instance_uuid, at)
    return ports.release(session, instance_uuid)
