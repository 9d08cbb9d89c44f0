"""One live migration at its source: begins it, or joins one that a killed process has left to libvirt, and watches it to its end.

libvirt's call takes as long as the migration, so it has a thread. Meanwhile the caller's thread reports progress, raises the
permitted downtime, and acts at the time-out.

libvirt removes the network filters of a guest that has left before it ends it and returns. A guest that arrives paused would stand still
all the while. So the caller returns as soon as the guest is handed over: it is paused here, and its QEMU has given up its disks.
"""

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import libvirt

from minova import errors
from minova.objects.servers.live_migration import GuestSide, LiveDestination, LiveOutcome, LivePhase, LiveProgress
from minova.virt.libvirt.guest_files.image_locks import ImageHold
from minova.virt.libvirt.guest_state import jobs, power, sides
from minova.virt.libvirt.host import Host, require
from minova.virt.libvirt.migration.live_options import LiveOptions
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.libvirt.xml.migration_xml import targets_of

LOG = logging.getLogger(__name__)
POLL = 0.2
# Seconds between two looks whether the guest is handed over.
_LOOKS = 0.02
_STATS = {
    "memory_total": "memory_total",
    "memory_processed": "memory_processed",
    "memory_remaining": "memory_remaining",
    "disk_total": "disk_total",
    "disk_processed": "disk_processed",
    "disk_remaining": "disk_remaining",
}


class _DomainReading(NamedTuple):
    side: GuestSide
    migrates: bool
    stats: Mapping[str, Any]


class LiveRun:
    """`size`: bytes of memory and of disks to copy. `stays_paused`: the user has paused the guest. `hold`: of the disks that are copied,
    which is not taken here; None: return after libvirt.
    """

    def __init__(
        self,
        host: Host,
        options: LiveOptions,
        instance_uuid: str,
        destination: LiveDestination,
        *,
        size: int,
        stays_paused: bool,
        hold: ImageHold | None = None,
    ) -> None:
        self._host = host
        self._options = options
        self._uuid = instance_uuid
        self._destination = destination
        self._timeout = options.timeout_of(size)
        self._downtimes = list(options.downtimes(size))
        self._stays_paused = stays_paused
        self._hold = hold
        self.begun: concurrent.futures.Future[None] | None = None
        self._started = time.monotonic()
        self._stalled_at = self._remaining = -1.0

    def run(self, progress: Callable[[LiveProgress], None]) -> LiveOutcome:
        """Raises as `MigrationDriver.live_migrate`."""
        if self._hold is not None and not self._hold.works():
            self._hold = None
        if self._hands_over():
            return self._handing_over()  # the report of that was lost
        begun = self.begun = None if self._look_at_domain().migrates else self._begin()
        try:
            last = self._watch(begun, progress)
            if last is None:
                return self._handing_over()
            self._require_end(begun)
        except errors.LiveMigrationAborted:
            self._resume()
            raise
        side = self._look_at_domain().side
        if (
            side is not GuestSide.LEFT
        ):  # a guest that is off may have switched itself off here, with the only whole disk
            raise errors.HypervisorError(f"The migration of {self._uuid} has ended, but the guest has not left: {side}")
        return LiveOutcome(
            arrives_paused=bool(self._options.flags(self._destination) & libvirt.VIR_MIGRATE_PAUSED),
            seconds=time.monotonic() - self._started,
            downtime_ms=self._downtime(),
            post_copy=last is LivePhase.POST_COPY,
        )

    def _hands_over(self) -> bool:
        """Whether the guest is paused here by its migration, and its QEMU writes its disks no more. A guest that has crashed has closed its
        disks, too.
        """
        if self._hold is None or self._hold.is_written():
            return False
        return self._look_at_domain().side is GuestSide.PAUSED_BY_MIGRATION

    def _handing_over(self) -> LiveOutcome:
        return LiveOutcome(arrives_paused=True, seconds=time.monotonic() - self._started, handing_over=True)

    # -- libvirt's call ------------------------------------------------------------------------------------------------

    def _begin(self) -> "concurrent.futures.Future[None]":
        done: concurrent.futures.Future[None] = concurrent.futures.Future()

        def migrate() -> None:
            try:
                self._migrate()
                done.set_result(None)
            except BaseException as error:  # noqa: BLE001  - the watching thread raises it
                done.set_exception(error)

        threading.Thread(target=migrate, name=f"live-migration-{self._uuid}", daemon=True).start()
        return done

    def _migrate(self) -> None:
        with self._host.connection("Live migration", domain_name(self._uuid)) as connection:
            domain = require(connection, self._uuid)
            options, destination = self._options, self._destination
            if not set(destination.copied) <= set(targets_of(domain.XMLDesc()).values()):
                raise errors.HypervisorError(f"The destination asks for disks that {domain.name()} does not have")
            power.wake(domain)
            try:
                domain.migrateToURI3(
                    options.peer(destination), options.parameters(destination), options.flags(destination)
                )
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_OPERATION_ABORTED:
                    raise errors.LiveMigrationAborted(f"The live migration of {self._uuid} was aborted") from error
                raise

    def _require_end(self, begun: "concurrent.futures.Future[None] | None") -> None:
        """Raises the error with which the migration has ended, if any."""
        if begun is None:
            return
        try:
            begun.result()
        except errors.HypervisorError as error:
            if (
                not isinstance(error, errors.HypervisorUnavailable)
                and self._look_at_domain().side is GuestSide.POST_COPY_FAILED
            ):
                raise errors.PostCopyFailed(str(error)) from error
            raise

    # -- watching ------------------------------------------------------------------------------------------------------

    def _watch(
        self, begun: "concurrent.futures.Future[None] | None", progress: Callable[[LiveProgress], None]
    ) -> LivePhase | None:
        """Returns the last phase, once libvirt no longer works on the migration; None: the guest is handed over."""
        phase, is_forced, last_reading = LivePhase.PREPARING, False, _DomainReading(GuestSide.RUNNING, True, {})
        while not (begun.done() if begun is not None else not self._look_at_domain().migrates):
            try:
                now = self._look_at_domain()
            except errors.GuestBusy:
                continue  # libvirt has waited for the job
            except errors.HypervisorUnavailable:
                if begun is None:
                    raise
                concurrent.futures.wait([begun], POLL)  # the call fails, too
                continue
            # Between two phases libvirt counts nothing.
            last_reading = now if now.stats.get("memory_total") else now._replace(stats=last_reading.stats)
            if phase is not LivePhase.POST_COPY:
                phase = _phase(last_reading) or phase
            try:
                progress(self._progress(last_reading, phase))
            except BaseException:
                self._abort(begun)
                raise
            if phase is LivePhase.POST_COPY:
                self._require_progress(last_reading)
            else:
                self._raise_downtime()
                is_forced = is_forced or self._act_at_timeout()
            if self._pause(begun):
                return None
        return phase

    def _pause(self, begun: "concurrent.futures.Future[None] | None") -> bool:
        """Returns whether the guest is handed over. False: after a pause, or the end of libvirt's call."""
        if self._hold is None:
            _wait(begun, POLL)
            return False
        until = time.monotonic() + POLL
        while time.monotonic() < until and not (begun is not None and begun.done()):
            if self._hands_over():
                return True
            _wait(begun, _LOOKS)
        return False

    def _look_at_domain(self) -> _DomainReading:
        with self._host.connection("Watching the live migration", domain_name(self._uuid)) as connection:
            domain = require(connection, self._uuid)
            side = sides.side_of(domain)
            return _DomainReading(side, sides.migrates(domain), _stats(domain))

    def _progress(self, seen: _DomainReading, phase: LivePhase) -> LiveProgress:
        counts = {name: int(seen.stats.get(key, 0)) for name, key in _STATS.items()}
        downtime = seen.stats.get("downtime")
        return LiveProgress(
            phase=phase,
            speed=int(seen.stats.get("disk_bps" if phase is LivePhase.DISKS else "memory_bps", 0)),
            seconds=time.monotonic() - self._started,
            downtime_ms=None if downtime is None else int(downtime),
            **counts,
        )

    def _require_progress(self, seen: _DomainReading) -> None:
        """Raises PostCopyFailed if nothing arrives any more."""
        now, remaining = time.monotonic(), float(seen.stats.get("memory_remaining", 0))
        if remaining != self._remaining or self._stalled_at < 0:
            self._remaining, self._stalled_at = remaining, now
        elif now - self._stalled_at >= self._options.stall:
            raise errors.PostCopyFailed(
                f"The memory of {self._uuid} does not arrive: no progress within {self._options.stall:g} s after the switch to "
                "post-copy"
            )

    def _raise_downtime(self) -> None:
        seconds = time.monotonic() - self._started
        due_steps = [step for step in self._downtimes if step.after <= seconds]
        if not due_steps:
            return
        try:
            with self._host.connection("Raising the downtime", domain_name(self._uuid)) as connection:
                require(connection, self._uuid).migrateSetMaxDowntime(due_steps[-1].milliseconds)
            self._downtimes = self._downtimes[len(due_steps) :]
        except errors.HypervisorError as error:
            # QEMU has not begun, or has ended; the next look tells.
            LOG.debug("The permitted downtime of %s is not raised: %s", self._uuid, error)

    def _act_at_timeout(self) -> bool:
        """Returns whether the time-out has come."""
        if self._timeout is None or time.monotonic() - self._started < self._timeout:
            return False
        LOG.warning("The live migration of instance %s has not ended within %g s", self._uuid, self._timeout)
        if self._options.force_at_timeout:
            force_complete(self._host, self._options, self._destination, self._uuid)
        else:
            abort(self._host, self._uuid)
        return True

    def _abort(self, begun: "concurrent.futures.Future[None] | None") -> None:
        try:
            abort(self._host, self._uuid)
        except errors.HypervisorError as error:
            LOG.warning("The live migration of instance %s is not aborted: %s", self._uuid, error)
        if begun is not None:
            concurrent.futures.wait([begun])

    def _resume(self) -> None:
        """Continue a guest that was paused so that it arrives."""
        with self._host.connection("Resuming", domain_name(self._uuid)) as connection:
            domain = require(connection, self._uuid)
            if not self._stays_paused and sides.side_of(domain) is GuestSide.PAUSED:
                domain.resume()

    def _downtime(self) -> int | None:
        try:
            with self._host.connection("Reading the downtime", domain_name(self._uuid)) as connection:
                stats = require(connection, self._uuid).jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
                return int(stats["downtime"]) if "downtime" in stats else None
        except errors.HypervisorError:
            return None


def _wait(begun: "concurrent.futures.Future[None] | None", seconds: float) -> None:
    if begun is None:
        time.sleep(seconds)
    else:
        concurrent.futures.wait([begun], seconds)


def abort(host: Host, instance_uuid: str) -> None:
    """Raises GuestStateUnexpected if no migration runs that can be aborted."""
    with host.connection("Aborting the live migration", domain_name(instance_uuid)) as connection:
        domain = require(connection, instance_uuid)
        _require_migration(domain)
        if sides.side_of(domain) is GuestSide.POST_COPY:
            raise errors.GuestStateUnexpected(f"The guest {instance_uuid} runs at its destination already")
        domain.abortJob()


def force_complete(host: Host, options: LiveOptions, destination: LiveDestination, instance_uuid: str) -> None:
    """Raises GuestStateUnexpected if no migration runs."""
    with host.connection("Forcing the live migration", domain_name(instance_uuid)) as connection:
        domain = require(connection, instance_uuid)
        _require_migration(domain)
        if options.may_post_copy(destination):
            domain.migrateStartPostCopy()
        elif sides.side_of(domain) is GuestSide.RUNNING:
            domain.suspend()


def _require_migration(domain: Any) -> None:
    if jobs.running(domain) != libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT:
        raise errors.GuestStateUnexpected(f"No live migration of domain {domain.name()} runs")


def _stats(domain: Any) -> Mapping[str, Any]:
    try:
        return dict(domain.jobStats())
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_OPERATION_INVALID:  # it has just gone off
            return {}
        raise


def _phase(seen: _DomainReading) -> LivePhase | None:
    if seen.side is GuestSide.POST_COPY:
        return LivePhase.POST_COPY
    if seen.stats.get("memory_processed"):
        return LivePhase.MEMORY
    return LivePhase.DISKS if seen.stats.get("disk_total") else None
