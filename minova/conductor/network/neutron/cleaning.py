"""Cleaning in Neutron: ports of interfaces that servers no longer have, and ports of servers that have left their
hosts.

A port that Neutron refuses to change delays no other port. The rows are read again before each request, because a port
may have been given to another server, or a server to another host, during an earlier request.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select

from minova import errors
from minova.conductor.network.neutron.limits import InstanceLocks, RetryQueue
from minova.conductor.tasks.worker import TaskWorker
from minova.db.models import Instance, NeutronPort
from minova.db.networks import neutron_ports
from minova.db.recovery import unexpected
from minova.neutron_client import Document, NeutronClient
from minova.objects.network.port_marks import interface_of, is_marked

LOG = logging.getLogger(__name__)
# The most servers in one round.
LIMIT = 50
# After this time the cleaning is repeated once, when every earlier request has ended.
AGAIN = timedelta(minutes=5)
_FREE = {"device_id": "", "device_owner": "", "binding:host_id": ""}


class NeutronCleaning:
    """For use in one thread. `ticks`: seconds, monotonic."""

    def __init__(
        self,
        worker: TaskWorker,
        client: NeutronClient,
        instance_locks: InstanceLocks,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._client = client
        self._instance_locks = instance_locks
        self._releases: RetryQueue[str] = RetryQueue("Neutron has not yet let go of all ports of instance", ticks)
        self._unbinds: RetryQueue[int] = RetryQueue("Neutron has not yet unbound the port of interface", ticks)

    # -- interfaces that servers no longer have --------------------------------------------------------------------

    def clean(self) -> None:
        """Removes them in Neutron. Failed removals are repeated, after a longer pause each time."""
        before = self._worker.at() - AGAIN
        with self._worker.db.read() as session:
            uuids = neutron_ports.to_clean(session, before, LIMIT + self._releases.failing)
        self._releases.run(self._releases.due(uuids, LIMIT), self._clean)

    def _clean(self, instance_uuid: str) -> None:
        with self._worker.db.read() as session:
            if unexpected.newer_among(session, [instance_uuid]):
                return  # the guest may have interfaces that this database, restored from a backup, does not know
            rows = neutron_ports.all_of(session, instance_uuid)
            lives = session.scalar(
                select(Instance.id).where(Instance.uuid == instance_uuid, Instance.deleted_at.is_(None))
            )
        ports = {port["id"]: port for port in self._client.ports(device_id=instance_uuid)}
        released_rows = [row for row in rows if row.released_at is not None]
        done = list(released_rows)
        refused: errors.MinovaError | None = None
        for row in released_rows:
            try:
                self._give_back(row, ports.pop(row.port_id or "", None))
            except errors.MinovaError as error:
                done.remove(row)
                refused = error
        projects = {row.project_id for row in rows}
        try:
            if lives is None and len(released_rows) == len(rows):
                self._sweep(instance_uuid, projects, ports)
            else:
                self._sweep_attachments(instance_uuid, projects, ports)
        except errors.MinovaError as error:
            done, refused = [], error
        self._worker.run(
            lambda session: neutron_ports.cleaned(session, done, self._worker.at(), self._worker.at() - AGAIN)
        )
        if refused is not None:
            raise refused

    def _give_back(self, row: NeutronPort, port: Document | None) -> None:
        if port is None or self._is_held(port["id"]):
            return
        if row.made_for_instance:
            self._client.delete_port(port["id"])
            return
        try:
            self._client.update_port(port["id"], _FREE)
        except errors.NotFound:
            LOG.debug("Port %s has gone already", port["id"])

    def _sweep(self, instance_uuid: str, projects: set[str], ports: dict[str, Document]) -> None:
        """Delete ports that no row names, because a process died before it could record them."""
        for uuid, port in ports.items():
            if is_marked(port, instance_uuid) and port.get("tenant_id") in projects and not self._is_held(uuid):
                LOG.warning("Port %s of instance %s is left over and is deleted", uuid, instance_uuid)
                self._client.delete_port(uuid)

    def _sweep_attachments(self, instance_uuid: str, projects: set[str], ports: dict[str, Document]) -> None:
        """Delete ports that the API has made for interfaces of an existing server, but that no interface has. A port
        that is being made now has a row that was written before it; nothing is deleted before that row has expired.
        """
        api_ports = {uuid: port for uuid, port in ports.items() if interface_of(port) is None}
        with self._worker.db.read() as session:
            is_young = neutron_ports.expects(session, instance_uuid, self._worker.at() - AGAIN)
        if api_ports and not is_young:
            self._sweep(instance_uuid, projects, api_ports)

    def _is_held(self, port_id: str) -> bool:
        with self._worker.db.read() as session:
            return bool(neutron_ports.ports_of_servers(session, [port_id]))

    def release_orphans(self) -> None:
        """Release interfaces of servers that were deleted by a conductor of the last release, which does not know
        Neutron.
        """
        self._worker.run(lambda session: neutron_ports.release_orphans(session, self._worker.at(), LIMIT))

    # -- servers without hosts -------------------------------------------------------------------------------------

    def unbind(self) -> None:
        """Unbinds the ports of shelved and failed servers, which keep their ports without a host."""
        with self._worker.db.read() as session:
            hostless_ports = neutron_ports.without_host(session, LIMIT + self._unbinds.failing)
        rows = {row.id: row for row in hostless_ports}
        self._unbinds.run(self._unbinds.due(rows.keys(), LIMIT), lambda row_id: self._unbind(rows[row_id]))

    def _unbind(self, row: NeutronPort) -> None:
        """Sent only once, so that little time passes after the check. If a conductor binds the port at this moment, it
        is bound again.
        """
        with self._instance_locks.exclusively(row.instance_uuid):
            with self._worker.db.read() as session:
                if not neutron_ports.is_without_host(session, row):
                    return
            try:
                self._client.update_port(str(row.port_id), {"binding:host_id": ""}, tries=1)
            except errors.NotFound:
                LOG.debug("Port %s has gone already", row.port_id)
            if self._worker.run(lambda session: neutron_ports.unbound(session, row)):
                return
            with self._worker.db.read() as session:
                host = neutron_ports.host_of(session, row.id)
            if host is not None:
                LOG.warning("Port %s was unbound while host %s took it, and is bound again", row.port_id, host)
                self._client.update_port(str(row.port_id), {"binding:host_id": host})
