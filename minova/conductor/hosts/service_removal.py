"""Removes a service for good, with Nova's rules; for a compute, everything that identified its host."""

import logging
from datetime import datetime

import msgspec
from sqlalchemy import ColumnElement, delete
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.db.hosts import compute_nodes, identity, services
from minova.db.models import AggregateHost, Service
from minova.db.networks import held_ports
from minova.db.recovery import unexpected
from minova.db.servers import instances, migrations, tasks
from minova.placement import changes
from minova.placement.allocations import claims
from minova.placement.providers import of_node as providers

LOG = logging.getLogger(__name__)


def remove_service(session: Session, service_uuid: str, at: datetime, now: ColumnElement[float]) -> tuple[str, str]:
    """Returns its host and binary.

    Raises NotFound if there is no such service, Conflict if its host has instances, migrations or builds.
    """
    row = services.by_uuid(session, service_uuid)
    if row is None:
        raise errors.NotFound(f"Service {service_uuid} not found.")
    if row.binary == COMPUTE:
        names = list(identity.nodes_of(session, row.host))
        _require_unused(session, row.host, names)
        for name in names:
            remove_node(session, row.host, name, now)
        # Nothing will remove what moves have left there. Its allocations are gone with its nodes.
        for migration in migrations.owed_by(session, row.host):
            status = "completed" if migration.is_evacuation else migration.status
            ended = msgspec.structs.replace(migration, status=status, cleanup_host=None)
            migrations.write(session, ended, at, now)
        held_ports.release(session, unexpected.guests_on(session, row.host))
        unexpected.forget_host(session, row.host)
        session.connection().execute(delete(AggregateHost).where(AggregateHost.host == row.host))
    LOG.info("Deleting the service %s of host %s", row.binary, row.host)
    session.connection().execute(delete(Service).where(Service.id == row.id))
    return row.host, row.binary


def remove_node(session: Session, host: str, name: str, now: ColumnElement[float]) -> None:
    """Delete the node's row and provider, with the allocations there. A node that does not exist is no error."""
    row = compute_nodes.find(session, host, name, lock=True)
    if row is None:
        return
    LOG.info("Deleting compute node %s of host %s", name, host)
    changes.append(session, [row.id], now)
    claims.release(session, claims.consumers_of(session, row.uuid), now)
    providers.delete(session, row.uuid)
    compute_nodes.remove(session, row)


def _require_unused(session: Session, host: str, nodes: list[str]) -> None:
    if instances.count_on(session, [host]):
        raise errors.Conflict(
            "Unable to delete compute service that is hosting instances. Migrate or delete the instances first."
        )
    if any(migrations.in_progress_on(session, host, name) for name in nodes):
        raise errors.Conflict(
            "Unable to delete compute service that has in-progress migrations. Complete the migrations or delete the "
            "instances first."
        )
    if tasks.builds_on(session, host) or any(identity.holdings(session, host, name) for name in nodes):
        raise errors.Conflict("Unable to delete compute service on which instances are being built. Try again later.")
