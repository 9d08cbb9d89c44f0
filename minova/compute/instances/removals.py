"""Removes instances and their guests from this host."""

import logging
import time
from collections.abc import Callable

from minova import errors
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.instances.attempts import Attempts
from minova.compute.instances.clean_stops import CleanStops
from minova.compute.instances.domains import Domains, is_handed_over, pause_stray
from minova.compute.tracker.nodes import Nodes
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.power_rules import must_stop
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.build import BuildMessage
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import VmState
from minova.virt.driver import ComputeDriver
from minova.virt.driver.domains import RowHost

LOG = logging.getLogger(__name__)
# Seconds for which a removal repeats its report; afterwards the conductor requests the removal again.
REMOVAL_PATIENCE = 60.0
# Seconds for which the word of a conductor holds that an instance is to be deleted.
FRESH = 1.0


class Removals:
    """Removes domains and disks, one operation at a time for each instance. The owner of the disks is queried first: disks
    of another host stay.
    """

    def __init__(
        self,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        nodes: Nodes,
        *,
        domains: Domains,
        attempts: Attempts,
        stops: CleanStops,
        repeat: ConductorRetry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._nodes = nodes
        self._domains = domains
        self._attempts = attempts
        self._stops = stops
        self._repeat = repeat

    def confirmed_at(self, ctx: RequestContext, instance_uuid: str) -> float | None:
        """Asks whether the instance is to be deleted. Returns the time of the answer; None: it is not, or no conductor answers,
        which then requests the removal again.
        """
        try:
            self._conductor.begin_removal(ctx, instance_uuid=instance_uuid, host=self._host)
        except errors.PeerTooOld:  # during an upgrade: a conductor before 1.9 runs and cannot answer
            LOG.debug("Instance %s is removed without a further question", instance_uuid)
        except (errors.StaleAttempt, errors.ServiceUnavailable) as error:
            LOG.info("Instance %s is not removed: %s", instance_uuid, error)
            return None
        return self._clock()

    def terminate(self, ctx: RequestContext, instance_uuid: str, confirmed_at: float) -> None:
        """Remove domain and disks, release the resources, report. Raises the errors of the driver; then the conductor
        requests the removal again.

        `confirmed_at`: when a conductor has said that the instance is to be deleted. It is asked again after a wait for other work on
        the instance.
        """
        with self._domains.locked(instance_uuid):
            if self._clock() - confirmed_at > FRESH and self.confirmed_at(ctx, instance_uuid) is None:
                return
            self._domains.destroy(instance_uuid, self._row_of_removal(ctx, instance_uuid))
            self._nodes.forget(ctx, instance_uuid)
            self._repeat(
                "instance_deleted",
                lambda: self._conductor.instance_deleted(ctx, instance_uuid=instance_uuid, host=self._host),
                REMOVAL_PATIENCE,
            )
            # An audit between the two has counted the instance again from its row.
            self._nodes.forget(ctx, instance_uuid)
            self._attempts.removed(instance_uuid)
            LOG.info("Instance %s is removed", instance_uuid)

    def remove_disks(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Implements `shelving.DiskRemover`, under the lock of the instance. If it fails, no audit tries again: the guest
        may still run from the disks.
        """
        self._driver.destroy(instance_uuid, self._row_of_removal(ctx, instance_uuid))
        self._domains.records.forget(instance_uuid)
        self._nodes.release(ctx, instance_uuid)

    def was_shelved_suspended(self, instance_uuid: str) -> bool:
        record = self._domains.records.of(instance_uuid)
        return record is not None and record.was_shelved_suspended

    def remove_left(self, ctx: RequestContext, instance_uuid: str) -> None:
        """Try again to remove a domain that could not be removed, unless the instance has come back since. Raises
        ServiceUnavailable if no conductor answers.
        """
        with self._domains.locked(instance_uuid):
            if instance_uuid not in self._domains.not_removed() or self._may_be_wanted(ctx, instance_uuid):
                return
            if self.clean_up(ctx, instance_uuid, self._domains.attempt_left(instance_uuid)):
                self._nodes.release(ctx, instance_uuid)

    def _may_be_wanted(self, ctx: RequestContext, instance_uuid: str) -> bool:
        """Whether the instance is this host's now, so that the removal is over, or may be so, until the conductor knows how its
        build has ended.
        """
        row = self._row(ctx, instance_uuid)
        if not row.known or row.host != self._host:
            return not row.known
        of_host = self._conductor.instances_of_host(ctx, host=self._host)
        if any(message.instance.uuid == instance_uuid for message in of_host.attempts):
            return True
        is_here = any(instance.uuid == instance_uuid for instance in of_host.instances)
        if is_here:  # a deleted instance is not among them
            self._domains.reused(instance_uuid)
        return is_here

    def remove_unexpected(self, ctx: RequestContext, instance_uuid: str, attempt: int | None) -> None:
        """Remove a domain that must not be here, unless a later attempt has begun here, or has come here, since it was
        found.
        """
        with self._domains.locked(instance_uuid):
            if self._attempts.newer(instance_uuid, attempt):
                return
            LOG.info("Removing domain of instance %s, which must not run here", instance_uuid)
            if self.clean_up(ctx, instance_uuid, attempt):
                self._nodes.release(ctx, instance_uuid)

    def pause_stray(self, instance_uuid: str, attempt: int | None) -> None:
        """Pause a guest that runs beside its row, unless a later attempt has come here since that was found."""
        with self._domains.locked(instance_uuid):
            if self._attempts.newer(instance_uuid, attempt) or self._domains.is_newer(instance_uuid, attempt):
                return
            pause_stray(self._driver, instance_uuid)

    def resume_kept(self, ctx: RequestContext, instance_uuid: str, attempt: int | None) -> None:
        """Let a guest go on that was handed over to a host which has nothing of it, if row and hypervisor still say so: it may be on
        its way again. Not on shared disks: it may have run on the other host, and its memory would be older than them.
        """
        with self._domains.locked(instance_uuid):
            if self._driver.shares_disks() or self._attempts.newer(instance_uuid, attempt):
                return
            instance = self._idle_instance(ctx, instance_uuid)
            if instance is None or (instance.vm_state, instance.attempt) != (VmState.ACTIVE, attempt):
                return
            if is_handed_over(self._driver, instance_uuid):
                LOG.warning(
                    "Instance %s was handed over to a host that has nothing of it: it goes on here", instance_uuid
                )
                self._driver.stay(instance_uuid)

    def remove_evacuated(self, ctx: RequestContext, instance_uuid: str, attempt: int) -> None:
        """Remove what is left here of a server that was evacuated and runs elsewhere by this attempt, and report that.
        Disks that the other host has taken over stay. A guest of this or a later attempt stays, too: it has come back.
        """
        with self._domains.locked(instance_uuid):
            latest = self._attempts.latest(instance_uuid)
            own_domain = next((domain for domain in self._driver.domains() if domain.uuid == instance_uuid), None)
            if own_domain is not None and not own_domain.ours:
                LOG.warning("Domain %s has the UUID of an evacuated instance, but is not ours", own_domain.name)
                return
            is_back = max(latest or 0, (own_domain.attempt or 0) if own_domain is not None else 0) >= attempt
            if not is_back:
                LOG.info("Removing what is left of instance %s, which was evacuated", instance_uuid)
                if not self.clean_up(ctx, instance_uuid, attempt - 1):
                    return
                self._nodes.release(ctx, instance_uuid)
            self._repeat(
                "evacuation_cleaned",
                lambda: self._conductor.evacuation_cleaned(ctx, instance_uuid=instance_uuid, host=self._host),
            )

    def remove_purged(self, ctx: RequestContext, domain: DomainView) -> None:
        """Remove the domain of an instance that was purged, if the database still has no row of it."""
        with self._domains.locked(domain.uuid):
            if domain.uuid in self._conductor.hosts_of_instances(ctx, instance_uuids=(domain.uuid,)):
                LOG.error("Instance %s counts as purged and has a row: its domain is left as it is", domain.uuid)
            elif self.clean_up(ctx, domain.uuid, domain.attempt):
                self._nodes.release(ctx, domain.uuid)

    def undo(self, ctx: RequestContext, message: BuildMessage) -> bool:
        """Remove what an attempt has made that did not succeed. An evacuation is no owner of the disks that it has found:
        its row names this host, and the disks are all that is left of the server.
        """
        if message.evacuation is None:
            return self.clean_up(ctx, message.instance.uuid, message.attempt)
        return self._domains.try_destroy(message.instance.uuid, RowHost(undone=True), message.attempt)

    def clean_up(self, ctx: RequestContext, instance_uuid: str, attempt: int | None) -> bool:
        """Remove domain and disks, or only the domain if the disks belong to another host. Returns whether it is done.

        `attempt`: the last one that is not wanted. Since that was found, a later one may have brought the instance back: this
        stays. The owner of the disks is queried now, too: the instance may have moved to another host.
        """
        return self._domains.try_destroy(instance_uuid, self._row(ctx, instance_uuid), attempt)

    def _row(self, ctx: RequestContext, instance_uuid: str) -> RowHost:
        try:
            hosts = self._conductor.hosts_of_instances(ctx, instance_uuids=(instance_uuid,))
        except errors.PeerTooOld:  # during an upgrade: a conductor before 1.6 runs and cannot answer
            return RowHost(known=False)
        except errors.MinovaError as error:
            LOG.log(errors.level_of(error), "Which host instance %s is on could not be asked: %s", instance_uuid, error)
            return RowHost(known=False)
        return RowHost(host=hosts.get(instance_uuid))

    def _row_of_removal(self, ctx: RequestContext, instance_uuid: str) -> RowHost:
        """Returns the row's host for a removal that the conductor requested of this host. If hosts share the disks it
        queries again, since the request may be old.
        """
        this_host = RowHost(host=self._host)
        if not self._driver.shares_disks():
            return this_host
        row = self._row(ctx, instance_uuid)
        return row if row.host is not None else this_host

    def stop_unexpected(self, domain: DomainView) -> None:
        """Ask a guest that must not run here to shut down, unless a later attempt has begun here meanwhile."""
        with self._domains.locked(domain.uuid):
            is_newer = self._attempts.newer(domain.uuid, domain.attempt)
            if not is_newer and not self._domains.is_newer(domain.uuid, domain.attempt):
                self._stops.ask(domain.uuid, "its instance is deleted")

    def stop_again(self, ctx: RequestContext, domain: DomainView) -> None:
        """Ask a guest that must not run to shut down, if row and hypervisor still say so: it may have been started
        meanwhile.
        """
        with self._domains.locked(domain.uuid), self._stops.checking(domain.uuid):
            if self._attempts.newer(domain.uuid, domain.attempt) or self._domains.is_newer(domain.uuid, domain.attempt):
                return
            row = self._idle_instance(ctx, domain.uuid)
            state = self._driver.power_state(domain.uuid)
            if row is not None and state is not None and must_stop(row.vm_state, state):
                self._stops.ask(domain.uuid, f"it runs, and its instance is {row.vm_state}", row)

    def _idle_instance(self, ctx: RequestContext, instance_uuid: str) -> Instance | None:
        """Returns the instance as its row is now; None: it is not here, has a task, or its row is older than the guest."""
        of_host = self._conductor.instances_of_host(ctx, host=self._host)
        if instance_uuid in of_host.newer:
            return None
        idle = (instance for instance in of_host.instances if instance.task_state is None)
        return next((instance for instance in idle if instance.uuid == instance_uuid), None)
