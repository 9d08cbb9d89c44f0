"""Messages to hosts about changes of their networks, and of what their interfaces let through. The rows are already
written.

networks, rules, ports: the message only reports a change. The host requests all of its interfaces.
members of a group: the message has all members, with a number. The host requests nothing, and a conductor reads the
  members once for all hosts.

A lost message only costs time, because each host also requests its interfaces from time to time.
"""

import logging
import threading
import time
import uuid
from collections.abc import Collection, Iterable
from functools import partial

from minova.conductor.compute_messages import ComputeClient
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.networks import group_members, networks, security_groups

LOG = logging.getLogger(__name__)


# Seconds between two messages to a host. Changes of rules and ports reach hosts within a second. A change of members is
# a message to each host that has members, so the changes of one second share a message.
RULES_INTERVAL, MEMBERS_INTERVAL = 0.4, 1.0
# A server that is being created needs no access before its guest has booted. So hosts get its message only after this
# many seconds: together with those of other servers created meanwhile, and not while its build waits for the same
# processors.
CREATION_DELAY = 3.0
# A group may be on a thousand hosts, and a message to each of them takes a conductor seconds. It spends this share of
# its time on messages about members. It spends more only if two rounds would otherwise begin further apart than the
# longest interval.
SHARE, LONGEST_MEMBERS_INTERVAL = 0.05, 5.0


class _Changes:
    """Pending changes: networks, rules of groups, members of groups, ports of hosts, and new servers."""

    def __init__(self) -> None:
        self.networks: set[str] = set()
        self.rules: set[str] = set()
        self.members: set[str] = set()
        self.hosts: set[str] = set()
        self.servers: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not (self.networks or self.rules or self.members or self.hosts or self.servers)

    def add(
        self,
        *,
        networks: Iterable[str] = (),
        rules: Iterable[str] = (),
        members: Iterable[str] = (),
        hosts: Iterable[str] = (),
        servers: Iterable[str] = (),
    ) -> None:
        self.networks.update(networks)
        self.rules.update(rules)
        self.members.update(members)
        self.hosts.update(hosts)
        self.servers.update(servers)


class InterfaceNotifier:
    """Safe for threads. A job that waits sends all changes that arrive meanwhile. So of each stream at most two jobs
    wait: one for the interval, and one for servers that are being created.

    The first change after a quiet time is sent at once, unless it is a server that is being created.
    """

    def __init__(self, worker: TaskWorker, computes: ComputeClient) -> None:
        self._worker = worker
        self._rules = _Stream(worker, computes, RULES_INTERVAL, RULES_INTERVAL)
        self._members = _Stream(worker, computes, MEMBERS_INTERVAL, LONGEST_MEMBERS_INTERVAL)

    def network_changed(self, network_id: str) -> None:
        """Send a hint to the hosts whose servers have ports on the network: it or its subnets have changed."""
        self._rules.add(networks=[network_id])

    def rules_changed(self, group_ids: Collection[str]) -> None:
        """Send a hint to the hosts whose ports have these groups."""
        self._rules.add(rules=group_ids)

    def members_changed(self, group_ids: Collection[str], hosts: Collection[str] = ()) -> None:
        """Send a hint to the hosts whose ports let in the members of these groups, and to `hosts`."""
        if hosts:
            self._rules.add(hosts=hosts)
        if group_ids:
            self._members.add(members=group_ids)

    def server_changed(self, instance_uuid: str, host: str | None) -> None:
        """A server has new members of its groups. They are sent without delay, because its guest may run already."""
        self._members.add(servers=[instance_uuid])
        if host is not None:
            # It may have got members of other groups that were read before its port was written.
            self._rules.add(hosts=[host])

    def servers_created(self, instance_uuids: Collection[str]) -> None:
        """Servers that are being created become members of their groups."""
        self._members.add(CREATION_DELAY, servers=instance_uuids)

    def groups_of(self, instance_uuid: str) -> set[str]:
        """Returns the groups of a server's ports. Call it before the server is deleted, because its ports are deleted
        with it.
        """
        with self._worker.db.read() as session:
            return security_groups.of_instances(session, [instance_uuid])


class _Stream:
    """Sends changes one after the other, at least `interval` seconds apart."""

    def __init__(self, worker: TaskWorker, computes: ComputeClient, interval: float, longest: float) -> None:
        self._worker = worker
        self._computes = computes
        self._interval = interval
        self._longest = longest
        self._lock = threading.Lock()
        self._changes = _Changes()
        # When jobs that wait want to send the changes, in seconds of the monotonic clock. The first one sends all.
        self._dues: list[float] = []
        self._turn = threading.Lock()
        self._next = float("-inf")

    def add(self, delay: float = 0.0, **changes: Iterable[str]) -> None:
        """Send the changes within `delay` seconds, or later if the interval requires that."""
        due_at = time.monotonic() + delay
        with self._lock:
            self._changes.add(**changes)
            if any(earlier <= due_at for earlier in self._dues):
                return
            self._dues.append(due_at)
        try:
            # Each job has a name of its own, because a running job may have read the rows before this change.
            work = partial(self._work, due_at)
            self._worker.in_background(service_context(), WorkKind.HINT, ("interfaces", str(uuid.uuid4())), work)
        except BaseException:
            with self._lock:
                self._dues.remove(due_at)
            raise

    def _work(self, due: float) -> None:
        self._wait_until(due)
        with self._turn:
            self._wait_until(self._next)
            with self._lock:
                self._dues.remove(due)
                changes, self._changes = self._changes, _Changes()
            if changes.is_empty:
                return  # a job that was due earlier has sent them
            begun = time.monotonic()
            try:
                self._send(changes)
            finally:
                took = time.monotonic() - begun
                self._next = begun + min(max(self._interval, took / SHARE), self._longest)

    def _wait_until(self, moment: float) -> None:
        pause = moment - time.monotonic()
        if pause > 0:
            self._worker.pause(pause)

    def _send(self, changes: _Changes) -> None:
        with self._worker.db.read() as session:
            members = changes.members | security_groups.of_instances(session, changes.servers)
            hosts = changes.hosts | security_groups.hosts_of(session, changes.rules)
            hosts |= networks.hosts_of(session, changes.networks)
        ctx = service_context()
        for host in sorted(hosts):
            self._computes.refresh_interfaces(ctx, host)
        if members:
            self._send_members(members)

    def _send_members(self, group_ids: Collection[str]) -> None:
        """Send the members with new numbers, as they are after all changes of this round. Members that are read later
        get higher numbers. The numbers rise even if no host needs a message: a build that begins now must not use
        members that were read before.
        """
        numbers = self._worker.run(lambda session: group_members.number(session, group_ids))
        # The hosts are read after the numbers, so a server that comes to another host in between reads members with the
        # new numbers.
        with self._worker.db.read() as session:
            naming = security_groups.hosts_naming(session, numbers.keys())
            members = group_members.of_numbers(session, numbers) if naming else {}
        for host, groups in sorted(naming.items()):
            of_host = tuple(members[group] for group in sorted(groups) if group in members)
            self._computes.refresh_members(service_context(), host, of_host)
