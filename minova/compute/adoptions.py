"""Adopts what an earlier process, or an earlier state of the database, has left on this host: builds with an open attempt,
and guests that were switched off with the host.

    at the start of the process       nothing else works on the host: all is done at once
    at the end of safe mode           builds and actions that began before safe mode are still in progress. Each attempt
                                      begins here as a build does, so it is settled only if this process has not seen it,
                                      in the background, under the lock of its instance, and its domain is read again there
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from minova import errors
from minova.compute.instances.attempts import End, Outcome
from minova.compute.instances.background import Background
from minova.compute.instances.builds import Builder
from minova.compute.instances.guest_starts import GuestStarts
from minova.compute.instances.init_host import AdoptionPlan, adopt
from minova.compute.periodic.guest_reports import GuestReporter
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.actions.power_rules import OFF
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.build import BuildMessage, HostInstances
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
# Seconds for which the word of a conductor holds that a guest must be started: each may wait for others, and for services. All guests
# of the host share it, because after a power cut of a whole site many hosts start many guests.
FRESH = 30.0


class _HostReading(NamedTuple):
    at: float
    host_instances: HostInstances
    domains: Sequence[DomainView]


class Adoptions:
    """`resumes_guests`: whether guests that were switched off with the host are started again. `clock` returns monotonic seconds."""

    def __init__(
        self,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        builder: Builder,
        guest_reports: GuestReporter,
        guest_starts: GuestStarts,
        background: Background,
        *,
        resumes_guests: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._builder = builder
        self._guest_reports = guest_reports
        self._guest_starts = guest_starts
        self._background = background
        self._resumes_guests = resumes_guests
        self._clock = clock
        # By which guests are started. None: it is read anew before the next one.
        self._reading: _HostReading | None = None
        self._reading_lock = threading.Lock()
        self._numbers = count(1)
        # Guests that ran when a process started in safe mode; None: nothing of its start is left to do.
        self._ran_at_start: frozenset[str] | None = None
        # Guests that wait until a conductor says that the host is not forced down.
        self._waiting: deque[Instance] = deque()

    def at_start(self, ctx: RequestContext) -> None:
        """Call it before any message is served. Raises ServiceUnavailable, and the errors of the driver."""
        self._reading = self._read(ctx)
        _, host_instances, domains = self._reading
        self._own_disks(host_instances, domains)
        adoption = self._sorted(host_instances, domains)
        for message in self._attempts_to_settle(host_instances, adoption):
            self._settle(ctx, message)
        self._start(ctx, adoption.switched_off, fenced=host_instances.fenced)

    def defer(self) -> None:
        """The process starts in safe mode: `after_safe_mode` does the rest. Raises the errors of the driver."""
        domains = self._driver.domains()
        self._ran_at_start = frozenset(domain.uuid for domain in domains if PowerState(domain.power_state) not in OFF)

    def after_safe_mode(self, ctx: RequestContext) -> None:
        """Waits for no lock of an instance. Raises ServiceUnavailable, and the errors of the driver."""
        _, host_instances, domains = self._read(ctx)
        adoption = self._sorted(host_instances, domains)
        for message in self._attempts_to_settle(host_instances, adoption):
            self._settle_in_background(ctx, message)
        ran_at_start, self._ran_at_start = self._ran_at_start, None
        if ran_at_start is None:
            return
        self._reading = None
        self._own_disks(host_instances, domains)
        # One that ran at the start has shut itself down since.
        switched_off = [instance for instance in adoption.switched_off if instance.uuid not in ran_at_start]
        self._start(ctx, switched_off, fenced=host_instances.fenced)

    def after_fence(self, ctx: RequestContext) -> None:
        """Start what has waited because the host was forced down or no conductor answered, unless it is forced down still."""
        if not self._waiting:
            return
        _, host_instances, domains = self._read(ctx)
        if host_instances.fenced:
            return
        self._reading = None
        waited = [self._waiting.popleft() for _ in range(len(self._waiting))]
        switched_off = {instance.uuid for instance in self._sorted(host_instances, domains).switched_off}
        # Those that were evacuated meanwhile are not this host's any more.
        self._guest_starts.release([guest for guest in waited if guest.uuid not in switched_off])
        fenced_guests = [guest for guest in waited if guest.uuid in switched_off]
        self._start(ctx, fenced_guests, fenced=False)

    def _start(self, ctx: RequestContext, switched_off: Sequence[Instance], *, fenced: bool) -> None:
        """Start guests that were switched off with the host. While it is forced down they may be evacuated at any moment,
        so they wait, and are not reported as off.
        """
        if not self._resumes_guests:
            return
        if fenced and switched_off:
            LOG.warning("This host is forced down: %d guests are not started again before that ends", len(switched_off))
            self._waiting.extend(switched_off)
            self._guest_starts.hold(switched_off)
            return
        self._guest_starts.begin(ctx, switched_off, partial(self._is_wanted, ctx))

    def _read(self, ctx: RequestContext) -> _HostReading:
        # The hypervisor first: it may hang, and the word of the conductor must not be old then.
        domains = self._driver.domains()
        at = self._clock()
        return _HostReading(at, self._conductor.instances_of_host(ctx, host=self._host), domains)

    def _sorted(self, host_instances: HostInstances, domains: Sequence[DomainView]) -> AdoptionPlan:
        records = self._builder.domains.records.all()
        built = {uuid: record.attempt for uuid, record in records.items()}
        accepted = {uuid for uuid, record in records.items() if record.accepted}
        return adopt(host_instances, domains, built, self._guest_reports.newer, accepted)

    def _own_disks(self, host_instances: HostInstances, domains: Sequence[DomainView]) -> None:
        # Also those with a task, which goes on with them, and those whose domain is lost.
        self._driver.own_renamed(host_instances.instances)
        ours = {domain.uuid for domain in domains if domain.ours}
        self._driver.own_disks(
            instance.uuid
            for instance in host_instances.instances
            if instance.task_state is None and instance.uuid in ours
        )

    def _attempts_to_settle(self, host_instances: HostInstances, adoption: AdoptionPlan) -> list[BuildMessage]:
        """Returns the attempts to settle that this process has not seen. From now on they count as running, so that no
        build of them begins.
        """
        to_settle = {message.instance.uuid for message in adoption.finished} | set(adoption.half_built)
        return [
            message
            for message in host_instances.attempts
            if message.instance.uuid in to_settle
            and self._builder.attempts.begin(message.instance.uuid, message.attempt, message.node)
        ]

    def _settle_in_background(self, ctx: RequestContext, message: BuildMessage) -> None:
        instance_uuid = message.instance.uuid

        def work() -> None:
            self._settle(ctx, message)
            # The audit has seen an attempt that runs meanwhile. If it was undone, its build begins now.
            if self._builder.attempts.outcome(instance_uuid, message.attempt) is None:
                self._background.build(ctx, message)

        try:
            # Each has its own name, because none may be taken for one that is about to end.
            begun = self._background.run(ctx, (f"adoption {next(self._numbers)}", instance_uuid), work)
        except RuntimeError as error:  # no thread is available; an audit begins the attempt
            LOG.warning("The attempt of instance %s could not be adopted: %s", instance_uuid, error)
            begun = False
        if not begun:
            self._builder.attempts.give_back(instance_uuid, message.attempt)

    def _settle(self, ctx: RequestContext, message: BuildMessage) -> None:
        """Report a guest that runs, or undo a build that was interrupted; then the attempt may begin again."""
        instance_uuid, attempts = message.instance.uuid, self._builder.attempts
        with self._builder.domains.locked(instance_uuid):
            try:
                adoption = self._sorted(HostInstances(attempts=(message,)), self._driver.domains())
                if adoption.finished:
                    LOG.info("Adopting the running domain of instance %s", instance_uuid)
                    outcome = Outcome(end=End.SUCCEEDED, power_state=PowerState.RUNNING)
                    attempts.end(instance_uuid, message.attempt, message.node, outcome)
                elif adoption.half_built:
                    LOG.info("Undoing the half-built domain of instance %s", instance_uuid)
                    self._builder.removals.undo(ctx, message)
            finally:
                attempts.give_back(instance_uuid, message.attempt)
        if adoption.finished:
            self._builder.report(ctx, message)

    def _is_wanted(self, ctx: RequestContext, instance: Instance) -> bool | None:
        """Whether the guest must still be started: meanwhile a user may have stopped or removed it, or it was evacuated. None: not
        before a conductor says that the host is not forced down.
        """
        try:
            with self._reading_lock:
                reading = self._reading
                if reading is None or self._clock() - reading.at > FRESH:
                    self._reading = reading = self._read(ctx)
        except errors.ServiceUnavailable as error:
            LOG.info("Instance %s is not started before a conductor answers: %s", instance.uuid, error)
            self._waiting.append(instance)
            return None
        _, host_instances, domains = reading
        if all(guest.uuid != instance.uuid for guest in self._sorted(host_instances, domains).switched_off):
            return False
        if host_instances.fenced:
            self._waiting.append(instance)
            return None
        return True
