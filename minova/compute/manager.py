"""The compute service: its start, its periodic work and its stop."""

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from oslo_config import cfg

from minova import errors
from minova.compute.host_identity import LocalIdentity
from minova.compute.membership import CloudMembership
from minova.compute.methods import ComputeCollaborators, ComputeMethods
from minova.compute.periodic.hypervisor_probe import HypervisorProbe
from minova.compute.tracker.nodes import settings_from
from minova.context import RequestContext, service_context
from minova.contracts.compute import ComputeApi
from minova.objects.hosts.cloud import CloudState, is_shown
from minova.objects.hosts.service import SERVICE_VERSION, Service, ServiceInstructions
from minova.safe_mode import SafeMode
from minova.service import PeriodicTask, until_available, within

LOG = logging.getLogger(__name__)
T = TypeVar("T")
BINARY = "minova-compute"
AUDIT_INTERVAL = 60.0
# Changes of a burst of builds are sent together.
REPORT_INTERVAL = 3.0
# Seconds. A stop waits for builds only while heartbeats are answered and builds proceed, and looks so often whether they have ended.
STOP_HEARTBEAT, CUT_OFF_AFTER, WORK_POLL = 1.0, 3.0, 0.5
# Seconds that the end of the connection and the message to a conductor may take.
CLOSE_WITHIN, LEAVE_WITHIN = 1.0, 1.0


class ComputeManager(ComputeMethods):
    """Implements `service.Manager`, and by ComputeMethods `contracts.compute.ComputeApi`. Created by `cmd.compute.make_manager`.

    `stopping` ends the waits of the start.
    `identity` is None if the host has no identity; then its processes cannot be distinguished.
    `learn_levels` receives the versions of other services, which the conductor sends.
    `safe_mode`: of the process. `membership`: of this host in a cloud.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        collaborators: ComputeCollaborators,
        *,
        host: str,
        stopping: threading.Event,
        identity: LocalIdentity | None = None,
        learn_levels: Callable[[Mapping[str, str]], None] = lambda levels: None,
        safe_mode: SafeMode,
        membership: CloudMembership,
    ) -> None:
        super().__init__(host, collaborators)
        self.safe_mode = safe_mode
        self._membership = membership
        self._adoption_due = self._report_due = False
        self._is_registered = False
        self._identity = identity
        self._node_names: tuple[str, ...] = ()
        self._identity_conflict: str | None = None
        self._superseded: str | None = None
        # Whether its stop waits for builds that proceed.
        self.waits_for_work = False
        self._answered_at = 0.0
        self._is_registered = False
        self._stopping = stopping
        self._audit_interval = float(conf.update_resources_interval or AUDIT_INTERVAL)
        self._graceful_shutdown_timeout = float(conf.graceful_shutdown_timeout) or math.inf
        self._heartbeat_interval = float(conf.report_interval)
        self._least_audit_interval = 0.0
        self._learn_levels = learn_levels
        self._down_reason: str | None = None
        self._audit_due = False
        self._probe_hypervisor = HypervisorProbe(collaborators.driver.available_nodes)
        self._nodes = collaborators.nodes
        self._power_states = collaborators.power_states
        conf.register_mutate_hook(self._reconfigure)

    def _reconfigure(self, conf: cfg.ConfigOpts, changed: object) -> None:
        """Apply the configuration after it was read again. The next audits publish the new values."""
        try:
            self._nodes.reconfigure(settings_from(conf, self.host))
        except errors.MinovaError as error:
            LOG.error("Reserved amounts and ratios stay as they were: %s", error)

    # -- service.Manager -------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Connect to the hypervisor, register, adopt running domains. While the hypervisor is away, the service reports
        that. In safe mode the adoption waits for its end.
        """
        ctx = service_context()
        if self._identity is not None:
            self._identity.hold()
        self._with_retries("Hypervisor", self._connect)
        self._down_reason = None
        self._with_retries("Registration", lambda: self._register(ctx))
        self._driver.watch(self._power_states.changed)
        # Before anything is started, stopped or removed here: it may be newer than the database.
        self._with_retries("Report of guests", lambda: self.collaborators.guest_reports.report(ctx))
        self._with_retries("Adoption of domains", lambda: self._first_adoption(ctx))

    def pre_start_hook(self) -> None:
        """Run the first audit, so that the nodes are known before a message can come. In safe mode none is executed, and
        the audit waits for its end.
        """
        self._with_retries("First audit", self._first_audit)

    def post_start_hook(self) -> None:
        """Nothing is left to do."""

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        tasks = [
            PeriodicTask(name="heartbeat", interval=self._heartbeat_interval, work=self.heartbeat, in_safe_mode=True),
            PeriodicTask(name="report_changes", interval=REPORT_INTERVAL, work=self.report_changes),
        ]
        if self._audit_interval > 0:
            work = self.update_available_resource
            tasks.append(PeriodicTask(name="update_available_resource", interval=self._audit_interval, work=work))
        return [*tasks, *self.collaborators.periodic_tasks.periodic_tasks()]

    def stop(self) -> None:
        """Wait up to `graceful_shutdown_timeout` for running builds and removals to end. The next start resumes all
        others.
        """
        self._stopping.set()
        still = self._await_work()
        self.collaborators.gate.close()
        if still:
            # Closing the driver now would only make calls fail that may still succeed.
            LOG.warning("%d builds or removals have not ended: the next start resumes them", still)
        else:
            within(CLOSE_WITHIN, "the connection to the hypervisor", self.collaborators.own_driver.close)
        if self._identity is not None:
            identity = self._identity
            identity.release()
            within(LEAVE_WITHIN, "the message to a conductor that this host stops", lambda: self._leave(identity))

    def _await_work(self) -> int:
        """Wait for running builds and removals, up to `graceful_shutdown_timeout`, while conductor and hypervisor answer, and while any
        of them proceeds (`concurrency.outside_waits`). Returns how many still run.
        """
        still = self._workers.stop(0.0)
        if not still:
            return 0
        ended, until = threading.Event(), time.monotonic() + self._graceful_shutdown_timeout
        self._answered_at, self.waits_for_work = time.monotonic(), True
        threading.Thread(target=self._beat_until, args=(ended,), name="heartbeat", daemon=True).start()
        while still and (now := time.monotonic()) < until:
            if now - self._answered_at > CUT_OFF_AFTER:
                LOG.warning("Conductor or hypervisor does not answer, so the stop waits for no work")
                break
            if silent := self._workers.silent(CUT_OFF_AFTER):
                LOG.warning("All running work waits for %s, so the stop waits for no work", ", ".join(silent))
                break
            still = self._workers.stop(min(WORK_POLL, until - now))
        ended.set()
        self.waits_for_work = False
        return still

    def _beat_until(self, ended: threading.Event) -> None:
        """Send heartbeats while builds end: if the host were down, the conductor would give them up."""
        while not ended.wait(min(self._heartbeat_interval, STOP_HEARTBEAT)):
            try:
                self.heartbeat()
                if self._down_reason is None:
                    self._answered_at = time.monotonic()
            except errors.MinovaError as error:
                LOG.log(errors.level_of(error), "heartbeat: %s", error)
            except errors.Abandoned:
                return

    def _leave(self, identity: LocalIdentity) -> None:
        """Another process may serve this host from now on. If no conductor receives the message, that process finds out
        by the lock.
        """
        try:
            self.collaborators.own_conductor.service_stopped(
                service_context(), host=self.host, binary=BINARY, process=identity.process
            )
        except Exception as error:  # noqa: BLE001  - an older conductor, or none: nothing is lost
            LOG.debug("No conductor received the message of the stop: %s", error)

    @property
    def failure(self) -> str | None:
        """Why this process has stopped by itself: another process serves its host."""
        return self._superseded

    # -- periodic work ---------------------------------------------------------------------------------------------

    def heartbeat(self) -> float:
        """Report that this compute is alive, and whether it is able to work. Returns the seconds until the next
        heartbeat, which the conductor sets.
        """
        ctx = service_context()
        was_down = self._down_reason is not None
        self._down_reason = self._probe()
        self._audit_due |= was_down and self._down_reason is None
        try:
            instructions = self._beat(ctx)
        except errors.NotFound:
            instructions = self._register(ctx)
        except errors.Superseded:
            if (entered := self._register_or_give_up(ctx)) is None:
                return self._heartbeat_interval
            instructions = entered
        except errors.AnotherCloud as error:
            self._membership.refused(error)
            raise
        if self.safe_mode.reason is None:
            self._catch_up(ctx)
        else:
            self._report_guests_at_once()
        self._least_audit_interval = instructions.audit_interval
        self._learn_levels(instructions.levels)
        return instructions.heartbeat_interval

    def _beat(self, ctx: RequestContext) -> ServiceInstructions:
        instructions = self._conductor.heartbeat(ctx, host=self.host, binary=BINARY, down_reason=self._down_reason)
        self._take_cloud(self._compared(ctx, instructions.cloud))
        return instructions

    def _compared(self, ctx: RequestContext, state: CloudState | None) -> CloudState | None:
        """Returns what a conductor says of the cloud after it has compared what this host has seen, if that is needed."""
        record = self._membership.seen
        if state is None or record is None or is_shown(record, state):
            return state
        try:
            return self._conductor.service_has_seen(ctx, host=self.host, binary=BINARY, seen=record)
        except errors.PeerTooOld:  # during an upgrade: a conductor of release 0.1.0 compares nothing
            return None

    def _take_cloud(self, state: CloudState | None) -> None:
        was_safe = self.safe_mode.reason is not None
        if self._membership.take(state):
            self._adoption_due = self._audit_due = True
        self._report_due |= not was_safe and self.safe_mode.reason is not None

    def _report_guests_at_once(self) -> None:
        """Safe mode ends when all hosts have reported what they hold since it began."""
        if self._report_due:
            self.collaborators.periodic_tasks.report_guests()
            self._report_due = False

    def _catch_up(self, ctx: RequestContext) -> None:
        """Do what has waited for the end of safe mode, or for the hypervisor."""
        if self._adoption_due:
            self.collaborators.adoptions.after_safe_mode(ctx)
            self._adoption_due = False
        self.collaborators.adoptions.after_fence(ctx)
        if self._audit_due:
            LOG.info("The hypervisor is back, or safe mode has ended")
            failures = self._auditor.update_available_resource(ctx)
            self._note_conflicts(failures)
            self._audit_due = bool(failures)

    def _register_or_give_up(self, ctx: RequestContext) -> ServiceInstructions | None:
        """Register again after another process was registered for this host. If that process no longer lives, this one
        takes its place again. Otherwise this process ends, because its writes no longer count; the next start
        registers, or waits until it may.
        """
        try:
            return self._register(ctx)
        except (errors.HostInUse, errors.HostIdentityConflict) as error:
            LOG.critical("This process ends: %s", error)
            self._superseded = str(error)
            self._stopping.set()
            return None

    def report_changes(self) -> None:
        """Send power states of domains that changed, and rows of nodes whose usage changed. Sends nothing if nothing
        changed.
        """
        ctx = service_context()
        self._power_states.send(ctx)
        self._nodes.save(ctx)

    def update_available_resource(self) -> float:
        """Audit every node. Returns the seconds until the next audit: as configured, unless the conductor wants
        more.
        """
        self._note_conflicts(self._auditor.update_available_resource(service_context()))
        return max(self._audit_interval, self._least_audit_interval)

    # -- the start -------------------------------------------------------------------------------------------------

    def _with_retries(self, what: str, ask: Callable[[], T]) -> T:
        """Repeat `ask` while conductor or hypervisor is away. While the hypervisor is away, the service reports
        that.
        """

        def once() -> T:
            try:
                return ask()
            except errors.HypervisorError as error:
                self._down_reason = str(error)
                self._register(service_context())
                raise errors.ServiceUnavailable(str(error)) from error
            except errors.HostInUse as error:
                # Once that process is gone, this one takes its place.
                raise errors.ServiceUnavailable(str(error)) from error
            except errors.ServiceUnavailable:
                self._learn_of_safe_mode()
                raise

        return until_available(what, once, self._stopping)

    def _learn_of_safe_mode(self) -> None:
        """A conductor may have refused a call because safe mode has begun since the registration."""
        if self._is_registered:
            with suppress(errors.MinovaError):
                self._beat(service_context())

    def _connect(self) -> None:
        self._driver.init_host(self.host)
        self._node_names = self._driver.available_nodes()
        self._nodes.require_capacity()

    def _register(self, ctx: RequestContext) -> ServiceInstructions:
        """Raises HostIdentityConflict if the host's rows describe another machine, HostInUse if another process serves
        the host.
        """
        instructions = self._ask_to_register(ctx)
        if self._identity is not None:
            if self._identity.compute_id is None and instructions.compute_id is not None:
                self._identity.adopt(instructions.compute_id)
                instructions = self._ask_to_register(ctx)
            # An older conductor has recorded no process: it would take messages that name one for those of another
            # process.
            self._identity.is_registered = instructions.epoch > 0
            self._nodes.registered(self._identity.compute_id, instructions.epoch)
        self._driver.recognise(instructions.former_hosts)
        self._is_registered = True
        return instructions

    def _ask_to_register(self, ctx: RequestContext) -> ServiceInstructions:
        service = Service(
            uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:service:{BINARY}:{self.host}")),
            host=self.host,
            binary=BINARY,
            topic=ComputeApi.TOPIC,
            down_reason=self._down_reason,
            identity=self._identity.described(self._node_names) if self._identity is not None else None,
            version=SERVICE_VERSION,
            seen=self._membership.seen,
        )
        instructions = self._conductor.register_service(ctx, service=service)
        self._take_cloud(instructions.cloud)
        self._learn_levels(instructions.levels)
        return instructions

    def _first_adoption(self, ctx: RequestContext) -> None:
        # Later, actions of this process may write there.
        self.collaborators.snapshots.clean()
        if self.safe_mode.reason is None:
            self.collaborators.adoptions.at_start(ctx)
        else:
            self.collaborators.adoptions.defer()
            self._adoption_due = True

    def _first_audit(self) -> None:
        if self.safe_mode.reason is not None:
            self._audit_due = True
            return
        for failure in self._auditor.update_available_resource(service_context()):
            refused = (errors.ServiceUnavailable, errors.HypervisorError, errors.HostIdentityConflict)
            if isinstance(failure, refused):
                raise failure

    def _note_conflicts(self, failures: Sequence[Exception]) -> None:
        """While nodes differ from their rows, the service is down and reports the reason, so that it gets no new
        work.
        """
        conflicts = [str(failure) for failure in failures if isinstance(failure, errors.HostIdentityConflict)]
        self._identity_conflict = conflicts[0] if conflicts else None

    def _probe(self) -> str | None:
        """Returns why the hypervisor cannot be used now, or None."""
        try:
            self._probe_hypervisor()
        except errors.HypervisorError as error:
            return str(error)
        return self._identity_conflict
