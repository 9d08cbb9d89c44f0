"""Periodic tasks of a compute: power states, domains of deleted instances, console logs, the image cache."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from oslo_config import cfg

from minova import errors, metrics
from minova.compute.accounting.audit import differing, to_stop
from minova.compute.images.sweep import sweep, time_in
from minova.compute.instances.background import Background
from minova.compute.instances.builds import Builder
from minova.compute.instances.interfaces import Interfaces
from minova.compute.instances.power_states import PowerStates
from minova.compute.periodic.auditor import Auditor
from minova.compute.periodic.guest_reports import GuestReporter
from minova.compute.periodic.guests_in_trouble import GuestsInTrouble
from minova.compute.tracker.nodes import running_deleted_from
from minova.context import service_context
from minova.contracts.conductor import ConductorApi
from minova.objects.hosts.compute_node import DomainView
from minova.service import PeriodicTask
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
# Nova's default for a periodic task whose interval is 0.
DEFAULT_INTERVAL = 60.0
# A serial port writes some 10 MB in this time at most.
CONSOLE_LOG_INTERVAL = 10.0
# Messages report changes at once; this task covers lost messages.
INTERFACES_INTERVAL = 60.0
# Until the scheduler knows that a bridge has vanished, the host refuses builds that need it.
BRIDGES_INTERVAL = 1.0
# While its snapshot is not ended, a guest writes into a file that nothing else needs.
SNAPSHOTS_INTERVAL = 60.0
# A guest whose disk was full goes on so soon after there is space again.
TROUBLE_INTERVAL = 10.0
# Seconds within which a rescue system that has booted gets the disk to rescue.
RESCUES_INTERVAL = 10.0
# As often as nodes are audited.
GUESTS_INTERVAL = 60.0


class _LockWanted(Exception):
    """An action, a move or a deletion waits for the lock of the instance."""


class PeriodicTasks:
    """Options that may change at run time are read each time. `background` runs work that may wait for an instance's
    lock.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: ComputeDriver,
        conductor: ConductorApi,
        builder: Builder,
        auditor: Auditor,
        power_states: PowerStates,
        interfaces: Interfaces,
        guest_reports: GuestReporter,
        guests_in_trouble: GuestsInTrouble,
        *,
        host: str,
        background: Background,
    ) -> None:
        self._conf = conf
        self._driver = driver
        self._conductor = conductor
        self._builder = builder
        self._auditor = auditor
        self._power_states = power_states
        self._interfaces = interfaces
        self._guest_reports = guest_reports
        self._guests_in_trouble = guests_in_trouble
        self._host = host
        self._background = background

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        """Returns the tasks that the options switch on."""
        conf = self._conf
        bound = self._driver.bound_console_logs
        interval = CONSOLE_LOG_INTERVAL
        tasks = [PeriodicTask(name="bound_console_logs", interval=interval, work=bound, in_safe_mode=True)]
        interval, work = GUESTS_INTERVAL, self.report_guests
        tasks.append(PeriodicTask(name="report_guests", interval=interval, work=work, in_safe_mode=True))
        interval, work = SNAPSHOTS_INTERVAL, self.end_snapshots
        tasks.append(PeriodicTask(name="end_snapshots", interval=interval, work=work, at_once=True))
        interval, work = RESCUES_INTERVAL, self.attach_broken_disks
        tasks.append(PeriodicTask(name="attach_broken_disks", interval=interval, work=work, at_once=True))
        # At once, because networks may have changed while this service was away.
        interval, work = INTERFACES_INTERVAL, self.refresh_interfaces
        tasks.append(PeriodicTask(name="refresh_interfaces", interval=interval, work=work, at_once=True))
        interval, work = TROUBLE_INTERVAL, self._guests_in_trouble.check
        tasks.append(PeriodicTask(name="watch_guests_in_trouble", interval=interval, work=work, at_once=True))
        if conf.networks.bridge_mappings:
            tasks.append(PeriodicTask(name="watch_bridges", interval=BRIDGES_INTERVAL, work=self.watch_bridges))
        if conf.sync_power_state_interval >= 0:
            interval = conf.sync_power_state_interval or DEFAULT_INTERVAL
            tasks.append(PeriodicTask(name="sync_power_states", interval=interval, work=self.sync_power_states))
        if conf.running_deleted_instance_poll_interval:
            tasks.append(
                PeriodicTask(
                    name="cleanup_running_deleted_instances",
                    interval=conf.running_deleted_instance_poll_interval,
                    work=self.cleanup_running_deleted_instances,
                    at_once=True,
                )
            )
        if conf.image_cache.manager_interval >= 0:
            interval = conf.image_cache.manager_interval or DEFAULT_INTERVAL
            tasks.append(PeriodicTask(name="run_image_cache_manager", interval=interval, work=self.clean_image_cache))
        return tasks

    # -- guests that the database may not know -------------------------------------------------------------------------

    def report_guests(self) -> None:
        self._guest_reports.report(service_context())

    # -- interfaces ------------------------------------------------------------------------------------------------

    def refresh_interfaces(self) -> None:
        """Refresh all interfaces: a message about a change may have been lost, and libvirt's filters may have
        vanished.
        """
        self._interfaces.request()
        self._interfaces.refresh()

    def watch_bridges(self) -> None:
        """Audit when a bridge has appeared or vanished, and again until an audit has sent the change to the
        conductor.
        """
        if not self._auditor.has_reported(self._driver.bridges()):
            self._auditor.update_available_resource(service_context())

    # -- snapshots -------------------------------------------------------------------------------------------------

    def end_snapshots(self) -> None:
        """End snapshots that were interrupted or whose commit failed. A snapshot in progress holds the instance's lock
        until it ends.
        """
        ctx = service_context()
        for instance_uuid in self._driver.open_snapshots():
            self._background.run(ctx, ("snapshot", instance_uuid), partial(self._end_snapshot, instance_uuid))

    def _end_snapshot(self, instance_uuid: str) -> None:
        """A commit takes minutes. It goes on without this wait if an action, a move or a deletion of the instance has come."""

        def check() -> None:
            if has_come.is_set():
                raise _LockWanted

        # Before the lock: what comes while this waits for it counts, too.
        checking = self._builder.stops.checking(instance_uuid)
        with checking as has_come, self._builder.domains.locked(instance_uuid), suppress(_LockWanted):
            check()
            self._driver.end_snapshot(instance_uuid, check)

    # -- rescues ---------------------------------------------------------------------------------------------------

    def attach_broken_disks(self) -> None:
        """Give rescued guests that have booted the disks for which they were rescued. What is not done now is done at the next call."""
        ctx = service_context()
        for instance_uuid in self._driver.without_broken_disk():
            self._background.run(ctx, ("rescue", instance_uuid), partial(self._attach_broken_disk, instance_uuid))

    def _attach_broken_disk(self, instance_uuid: str) -> None:
        with self._builder.domains.locked(instance_uuid):
            self._driver.attach_broken_disk(instance_uuid)

    # -- power states ----------------------------------------------------------------------------------------------

    def sync_power_states(self) -> None:
        """Report instances whose power state differs from their row to the conductor. An audit does the same for its
        node.
        """
        ctx = service_context()
        host_instances = self._conductor.instances_of_host(ctx, host=self._host)
        domains = self._driver.domains()
        newer = self._guest_reports.newer.union(host_instances.newer)
        settled = [instance for instance in host_instances.instances if instance.uuid not in newer]
        self._builder.domains.records.learn(instance for instance in settled if instance.task_state is None)
        own_domains = sum(domain.ours for domain in domains)
        if own_domains != len(host_instances.instances):
            LOG.warning(
                "While synchronizing instance power states, found %d instances in the database and %d instances on the "
                "hypervisor.",
                len(host_instances.instances),
                own_domains,
            )
        self._power_states.compare(differing(settled, domains), self._driver.power_state)
        self._auditor.stop_domains(ctx, to_stop(settled, domains))

    # -- domains of deleted instances ------------------------------------------------------------------------------

    def cleanup_running_deleted_instances(self) -> None:
        """Audit, which removes the domains to be reaped. Log or stop the other domains that have outlived their
        instances.
        """
        policy, ctx = running_deleted_from(self._conf), service_context()
        if policy.action == "noop":
            return
        self._auditor.update_available_resource(ctx)
        for domain, known_for in self._auditor.purged():
            self._clean_up_purged(domain, policy.asked_of_purged(domain, known_for))
        for domain, seconds in self._auditor.outlived():
            action = policy.asked_of(domain, seconds)
            if action is None:
                continue
            metrics.OUTLIVED.labels(action).inc()
            LOG.warning("Instance %s is deleted, and its domain %s is still here: %s", domain.uuid, domain.name, action)
            if action == "shutdown":
                self._background.run(
                    ctx, ("stop", domain.uuid), partial(self._builder.removals.stop_unexpected, domain)
                )

    def _clean_up_purged(self, domain: DomainView, action: str | None) -> None:
        if action is None:
            return
        metrics.OUTLIVED.labels(action).inc()
        LOG.warning("Instance %s was purged, and its domain %s is still here: %s", domain.uuid, domain.name, action)
        ctx = service_context()
        if action == "shutdown":
            self._background.run(ctx, ("stop", domain.uuid), partial(self._builder.removals.stop_unexpected, domain))
        elif action == "reap":
            self._background.run(
                ctx, ("purged", domain.uuid), lambda: self._builder.removals.remove_purged(ctx, domain)
            )

    # -- the image cache -------------------------------------------------------------------------------------------

    def clean_image_cache(self) -> None:
        """Remove base images that no disk of this host is based on, once they are old enough."""
        options = self._conf.image_cache
        if not options.remove_unused_base_images:
            return
        folder = Path(self._conf.instances_path) / self._conf.image_cache_subdirectory_name
        try:
            in_use = self._driver.bases_in_use()
        except errors.UnknownDiskFormat as error:
            LOG.warning("No base image is removed from the cache: %s", error)
            return
        now = time_in(folder)
        removed = sweep(folder, in_use, options.remove_unused_original_minimum_age_seconds, now)
        metrics.BASES_REMOVED.inc(len(removed))
