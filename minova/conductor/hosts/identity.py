"""Decides which compute may speak for a host: the machine with the host's identity, and only one of its processes at a
time.

registers -> identity agrees? no -> HostIdentityConflict: the compute ends, and says what to do
          -> another process? lives -> HostInUse: the compute tries again
                              gone  -> take over: epoch + 1; messages of the earlier process raise Superseded
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.liveness import COMPUTE
from minova.db.engine import Database
from minova.db.hosts import identity as hosts
from minova.db.hosts import services
from minova.db.models import Service
from minova.objects.hosts.compute_node import AvailableResources
from minova.objects.hosts.service import HostIdentity

LOG = logging.getLogger(__name__)

# For this share of service_down_time a conductor remembers which process serves a host. Below 1, so that a silent process, which
# another one may have replaced, is looked up again.
FRESH_SHARE = 3 / 4
RENAME = "minova-manage host rename"


# -- decisions ---------------------------------------------------------------------------------------------------------


def identity_refusal(
    host: str,
    identity: HostIdentity,
    *,
    known_id: str | None,
    nodes: Mapping[str, str],
    owner: str | None,
) -> str | None:
    """Returns why this identity does not belong to the host; None if it does.

    `known_id`: the identity that the host has.
    `nodes`: {name: uuid} of its rows.
    `owner`: another host that has this identity.
    """
    compute_id = identity.compute_id
    if compute_id is not None and owner is not None:
        return (
            f"The compute_id {compute_id} of this machine belongs to host {owner}, and [DEFAULT] host is now {host}. "
            f"Set [DEFAULT] host = {owner} again, or stop minova-compute and run on a controller: {RENAME} {owner} {host}. "
            f"If this machine was copied from {owner}, remove the file compute_id here."
        )
    if compute_id is None:
        if known_id is None:
            return None
        return (
            f"Host {host} has the compute_id {known_id}, and this machine has no file compute_id. If it is the same machine, "
            f"write {known_id} into the file compute_id in its [DEFAULT] state_path; if it replaces {host}, delete the service of {host} first "
            "(minova service delete); else give it another [DEFAULT] host."
        )
    if known_id is not None and known_id != compute_id:
        return (
            f"Host {host} has the compute_id {known_id}, and this machine's is {compute_id}. Give this machine another [DEFAULT] "
            f"host; if it replaces {host}, delete the service of {host} first (minova service delete)."
        )
    if known_id is None and len(nodes) == 1 and compute_id not in nodes.values():
        (node_uuid,) = nodes.values()
        return (
            f"The node of host {host} is {node_uuid}, and this machine's compute_id is {compute_id}. If it is the same machine, "
            f"write {node_uuid} into the file compute_id in its [DEFAULT] state_path; else give this machine another [DEFAULT] host."
        )
    return None


def vanishing_refusal(host: str, reported: Iterable[str], held: Mapping[str, Iterable[str]]) -> str | None:
    """Returns why nodes must not vanish; None if they may.

    `reported`: the nodes that the driver reports.
    `held`: {name: what it holds} of the nodes that hold something.
    """
    present = sorted(reported)
    for name, what in sorted(held.items()):
        if name not in present and (what := tuple(what)):
            return (
                f"Node {name} of host {host} has {', '.join(what)}, and the hypervisor reports "
                f"{', '.join(present) or 'no node'} instead. Give the hypervisor its former host name again, or stop "
                "minova-compute and run on a controller: "
                f"{RENAME} {host} {host} --node {present[0] if len(present) == 1 else 'NEW_NAME'}"
            )
    return None


def suggested_id(nodes: Mapping[str, str], new: str) -> str:
    """Returns the identity for a host that has none: its node's uuid, as in Nova, or `new`."""
    return next(iter(nodes.values())) if len(nodes) == 1 else new


# -- rows --------------------------------------------------------------------------------------------------------------


def require_nodes_stay(session: Session, host: str, names: Iterable[str], reported: Iterable[str]) -> None:
    """Raises HostIdentityConflict if one of the nodes holds something and is not reported."""
    present = set(reported)
    holdings_by_node = {name: hosts.holdings(session, host, name) for name in names if name not in present}
    refusal = vanishing_refusal(host, present, holdings_by_node)
    if refusal is not None:
        raise errors.HostIdentityConflict(refusal)


def require_same_node(session: Session, host: str, view: AvailableResources) -> None:
    """Checks a node without a row. Raises HostIdentityConflict if it is a known node of this host under another name:
    the known node holds something and is not reported, or its instances run here.
    """
    others = hosts.nodes_of(session, host)
    if not others:
        return
    if view.host_nodes:
        require_nodes_stay(session, host, others, view.host_nodes)
        return
    # An older compute does not report the host's nodes, so the domains have to show it.
    running = hosts.nodes_with(session, host, [domain.uuid for domain in view.domains])
    require_nodes_stay(session, host, running, [view.hypervisor_hostname])


class HostProcesses:
    """Safe for threads. `clock` in seconds, monotonic while the process lives."""

    def __init__(self, db: Database, *, down_time: float, clock: Callable[[], float]) -> None:
        self._db = db
        self._down_time = down_time
        self._fresh = down_time * FRESH_SHARE
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, str | None]] = {}  # host: until when this is known, process
        self._unchecked: dict[str, str] = {}  # host: process that sent an unchecked heartbeat

    # -- registration ----------------------------------------------------------------------------------------------

    def admit(
        self, session: Session, host: str, identity: HostIdentity | None, now: ColumnElement[float]
    ) -> str | None:
        """Checks whether this compute may register, before the service's row is changed. Returns the compute_id that a
        host without one must take: the compute writes it to its disk and registers again.

        Raises HostIdentityConflict or HostInUse.
        """
        row = hosts.service_of(session, host, COMPUTE)
        if identity is None:
            self._warn(session, row, now)
            return None
        nodes = hosts.nodes_of(session, host)
        refusal = identity_refusal(
            host,
            identity,
            known_id=row.compute_id if row is not None else None,
            nodes=nodes,
            owner=hosts.other_host_of(session, identity.compute_id, host) if identity.compute_id else None,
        )
        if refusal is not None:
            raise errors.HostIdentityConflict(refusal)
        if row is not None:
            self._require_no_other(session, row, identity, now)
        if identity.nodes:
            require_nodes_stay(session, host, nodes, identity.nodes)
        return suggested_id(nodes, str(uuid.uuid4())) if identity.compute_id is None else None

    def enter(self, session: Session, row: Service, identity: HostIdentity | None) -> None:
        """Record the process in the service's row, which `admit` has locked."""
        if identity is None:
            # A compute of an older release: its messages do not show which process sent them.
            if row.process_place is not None:
                services.change(session, row.id, process=None, process_lock=None, process_place=None)
        elif row.process != identity.process or row.compute_id != identity.compute_id:
            try:
                with session.begin_nested():
                    services.change(
                        session,
                        row.id,
                        compute_id=identity.compute_id,
                        process=identity.process,
                        process_lock=identity.lock,
                        process_place=identity.place[:255],
                        epoch=row.epoch if row.process == identity.process else self._next_epoch(session, row),
                    )
            except IntegrityError:
                raise errors.HostIdentityConflict(
                    f"The compute_id {identity.compute_id} of host {row.host} was taken by another host just now."
                ) from None
        session.refresh(row)

    @staticmethod
    def _next_epoch(session: Session, row: Service) -> int:
        """Returns an epoch above that of each earlier process. A service that was deleted and registers again starts
        from 0, and an earlier process may have written its node in between.
        """
        return max(row.epoch, hosts.last_writer_epoch(session, row.host)) + 1

    def entered(self, host: str, process: str | None) -> None:
        """Call after the commit."""
        with self._lock:
            self._known[host] = (self._clock() + self._fresh, process)

    def leave(self, session: Session, host: str, process: str) -> bool:
        """The process has ended by itself, so another one may register. Returns False if it did not serve the host."""
        statement = update(Service).where(Service.host == host, Service.binary == COMPUTE, Service.process == process)
        # process_place stays. It distinguishes a process that has ended from one that never identified itself.
        result: Any = session.connection().execute(statement.values(process=None, process_lock=None))
        return bool(result.rowcount)

    def _require_no_other(
        self, session: Session, row: Service, identity: HostIdentity, now: ColumnElement[float]
    ) -> None:
        if row.process is None or row.process == identity.process:
            return
        if identity.lock is not None and (row.compute_id, row.process_lock) == (identity.compute_id, identity.lock):
            LOG.info("Host %s: %s takes over from %s, which has ended", row.host, identity.place, row.process_place)
            return
        silence = self._silence(session, row, now)
        if silence is None or silence > self._down_time:
            LOG.warning("Host %s: %s takes over from %s, which is silent", row.host, identity.place, row.process_place)
            return
        raise errors.HostInUse(
            f"Host {row.host} is served by minova-compute at {row.process_place}, heard {max(0.0, silence):.0f} s ago. "
            f"Give this one ({identity.place}) another [DEFAULT] host, or stop that one"
        )

    def _warn(self, session: Session, row: Service | None, now: ColumnElement[float]) -> None:
        if row is None or row.process is None:
            return
        silence = self._silence(session, row, now)
        if silence is not None and silence <= self._down_time:
            LOG.warning(
                "Host %s: a minova-compute of an older release registers, which may run beside the one at %s",
                row.host,
                row.process_place,
            )

    @staticmethod
    def _silence(session: Session, row: Service, now: ColumnElement[float]) -> float | None:
        return services.silence_of(session, row.id, now)

    # -- messages --------------------------------------------------------------------------------------------------

    def require(self, host: str, process: str | None) -> None:
        """Raises Superseded if another process than the sender serves the host. `process` None: an older release, which
        is not checked.
        """
        if process is None:
            return
        if self._serves(host, process) is True:
            return
        with self._db.read() as session:
            row = services.find(session, host, COMPUTE)
        serving = row.process if row is not None else None
        if serving is None:
            return
        self.entered(host, serving)
        if serving != process:
            raise errors.Superseded(
                f"Host {host} is served by minova-compute at {row.process_place if row is not None else '?'} now"
            )

    def require_later(self, host: str, process: str | None) -> None:
        """Same as `require`, for heartbeats, which are many: the heartbeat of an unknown process is checked with the
        next flush.
        """
        if process is None:
            return
        serves = self._serves(host, process)
        if serves is False:
            self.require(host, process)
        elif serves is None:
            with self._lock:
                self._unchecked[host] = process

    def superseded(self, session: Session) -> set[str]:
        """Returns the hosts whose unchecked heartbeats since the last call came from a process that does not serve
        them.
        """
        with self._lock:
            unchecked, self._unchecked = self._unchecked, {}
        serving = hosts.processes_of(session, unchecked, COMPUTE)
        for host, process in serving.items():
            self.entered(host, process)
        return {host for host, process in serving.items() if process != unchecked[host]}

    def _serves(self, host: str, process: str) -> bool | None:
        """Returns None if it is unknown. No message extends that knowledge: a database that has gone back in time may name an earlier
        process, whose successor has to register again.
        """
        with self._lock:
            until, serving_process = self._known.get(host, (0.0, None))
            if serving_process is None or self._clock() >= until:
                return None
            return serving_process == process
