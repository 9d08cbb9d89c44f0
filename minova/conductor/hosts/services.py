"""Services: which are registered, which were heard recently, and which report that they cannot work."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy import ColumnElement
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts import console_addresses
from minova.conductor.hosts.identity import HostProcesses
from minova.conductor.hosts.liveness import COMPUTE, Liveness
from minova.conductor.hosts.service_removal import remove_service
from minova.conductor.hosts.witnesses import Witnesses
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.conductor.api.services import ServiceSettingsApi
from minova.contracts.conductor.services import ServicesApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.hosts import services
from minova.db.models import Service
from minova.db.servers import migrations, tasks
from minova.objects.hosts import service as objects
from minova.objects.hosts.cloud import CloudState, WitnessRecord
from minova.placement import changes

LOG = logging.getLogger(__name__)

FLUSH_INTERVAL = 1.0
# The most heartbeats that one conductor handles in a second. When each live conductor gets more, every service is told
# to send fewer heartbeats, down to two per service_down_time. If these are still too many, the cloud needs more
# conductors.
MAX_BEATS, MIN_BEATS = 300, 2
# The most audits of hosts in a second per conductor. An audit takes two calls and some twenty statements for each node.
MAX_AUDITS = 40
# Seconds between counts of the services.
COUNT_INTERVAL = 60.0
# Seconds between this conductor's own heartbeats, and between reads of what other conductors have written: an upper
# limit, and a share of service_down_time, so that with a short service_down_time no service counts as dead for lack of
# them.
OWN_INTERVAL, OWN_SHARE = 5.0, 1 / 4
# Seconds without any heartbeat written by any conductor, after which this pause does not count as silence of services:
# likewise an upper limit and a share.
PAUSE, PAUSE_SHARE = 15.0, 3 / 4
# A compute does not listen yet for some seconds after its registration. For so long it gets no repetition of messages
# to its predecessor.
LISTENS_AFTER = 2.0

# By the service, the topic that it serves.
TOPICS = {f"minova-{contract.TOPIC}": contract.TOPIC for contract in (ComputeApi, ConductorApi, SchedulerApi)}

# Nova's words.
NEW_IS_DISABLED = "New compute service disabled due to config option."
Key = tuple[str, str]


class _ServiceRow(NamedTuple):
    """The row of a service that this conductor knows."""

    id: int
    uuid: str


class _Admission(NamedTuple):
    """The row of the registered service, or the identity that its host has to take first."""

    service: Service | None
    suggested: str | None = None


class Services(ServicesApi, ServiceSettingsApi):
    """Heartbeats are gathered in memory and written once a second, in one statement."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        liveness: Liveness,
        witnesses: Witnesses,
        *,
        own: objects.Service,
        clock: Callable[[], float],
        broker_is_up: Callable[[], bool] = lambda: True,
        levels: Callable[[], Mapping[str, str]] = dict,
        guest_keys: str = "",
    ) -> None:
        """`guest_keys`: see `db.models.Service`."""
        self._enable_new = bool(conf.enable_new_services)
        self._report_interval = float(conf.report_interval)
        down_time = float(conf.service_down_time)
        self._longest_interval = down_time / MIN_BEATS
        self._own_interval = min(OWN_INTERVAL, down_time * OWN_SHARE)
        # At least the time between two flushes in normal operation.
        self._longest_pause = max(2 * FLUSH_INTERVAL, min(PAUSE, down_time * PAUSE_SHARE))
        self._worker = worker
        self._liveness = liveness
        self._witnesses = witnesses
        self._own = own
        self._guest_keys = guest_keys
        self._down_time = down_time
        self._clock = clock
        self._broker_is_up = broker_is_up
        self._processes = HostProcesses(worker.db, down_time=down_time, clock=clock)
        self._levels = levels
        self._lock = threading.Lock()
        self._known: dict[Key, _ServiceRow] = {}
        self._reported: dict[Key, bool] = {}  # whether the service itself reported that it can work
        self._reasons: dict[int, str] = {}
        self._counted_at = float("-inf")
        self._own_beat_at = float("-inf")
        self._wrote_at = float("-inf")
        self._count = 1
        self._conductors = 1
        self._cannot_write = False

    # -- messages of services --------------------------------------------------------------------------------------

    def register_service(self, ctx: RequestContext, service: objects.Service) -> objects.ServiceInstructions:
        """Raises BadRequest if the service names the topic of another kind of service. Raises HostIdentityConflict or
        HostInUse; see the contract.
        """
        if TOPICS.get(service.binary) != service.topic:
            raise errors.BadRequest(f"A service {service.binary!r} does not serve the topic {service.topic!r}.")
        cloud = self._witnesses.judged(service.host, service.binary, service.seen)
        if service.binary != COMPUTE:
            row = self._worker.record(lambda session: self._ensure(session, service))
            return self._registered(row, cloud)
        identity = service.identity

        def work(session: Session) -> _Admission:
            suggested = self._processes.admit(session, service.host, identity, self._worker.now())
            if suggested is not None:
                return _Admission(None, suggested)
            compute_row = self._ensure(session, service)
            self._processes.enter(session, compute_row, identity)
            if identity is not None:
                console_addresses.record(session, compute_row, identity.console_addresses)
            return _Admission(compute_row)

        entered, suggested = self._worker.record(work)
        if entered is None:
            return msgspec.structs.replace(self._instructions("", cloud), compute_id=suggested)
        self._processes.entered(entered.host, entered.process)
        if cloud is None or cloud.safe_mode is None:
            self._worker.run(lambda session: self._ask_again(session, entered.host))
        return self._registered(entered, cloud)

    def _ask_again(self, session: Session, host: str) -> None:
        """Repeat the unreported tasks of the host, because the work of its previous process ended with that process."""
        unreported = tasks.unreported_on(session, host)
        tasks.change(session, [(task, {}) for task in unreported], LISTENS_AFTER, self._worker.now())

    def _registered(self, row: Service, cloud: CloudState | None) -> objects.ServiceInstructions:
        self._learn(row)
        self._liveness.forget()
        return msgspec.structs.replace(
            self._instructions(row.uuid, cloud), former_hosts=tuple(row.former_hosts or ()), epoch=row.epoch
        )

    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        """The host is down at once, and its next process need not wait until this one counts as dead."""
        if binary != COMPUTE:
            return
        service_id, _ = self._find(host, binary)
        with self._lock:
            self._reported[host, binary] = False

        def work(session: Session) -> None:
            if self._processes.leave(session, host, process):
                self._set_reason(session, service_id, host, objects.STOPPED)

        self._worker.record(work)
        self._liveness.forget()

    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> objects.ServiceInstructions:
        """Record the heartbeat. A change of `down_reason` is written at once.

        Raises NotFound if the service is not registered. Raises Superseded if another process serves the host. Raises
        ServiceUnavailable if this conductor cannot write now; the service soon sends another heartbeat, which another
        conductor may receive.
        """
        service_id, uuid = self._find(host, binary)
        if binary == COMPUTE:
            self._processes.require_later(host, ctx.process)
        with self._lock:
            self._reported[host, binary] = down_reason is None
            if self._cannot_write:
                raise errors.ServiceUnavailable("This conductor cannot write heartbeats now.")
            as_known = self._reasons.get(service_id) == down_reason
        if not as_known:
            self._worker.record(lambda session: self._set_reason(session, service_id, host, down_reason))
            self._liveness.forget()
        return self._instructions(uuid, self._witnesses.state)

    def service_has_seen(self, ctx: RequestContext, host: str, binary: str, seen: WitnessRecord) -> CloudState | None:
        if ctx.process is not None:  # of a compute
            self.note_contact(host, ctx.process)
        return self._witnesses.judged(host, binary, seen)

    def note_contact(self, host: str, process: str | None) -> None:
        """Any message of a host shows that its compute is alive. Raises Superseded if the sender is not the process
        that serves the host.
        """
        self._processes.require(host, process)
        with self._lock:
            self._reported.setdefault((host, COMPUTE), False)

    def note_refused(self, host: str, reason: str) -> None:
        """The host has described itself with figures that are not valid. It gets no new work until an audit brings valid ones."""

        def work(session: Session) -> None:
            if services.note_refused(session, host, reason[:255]):
                LOG.error("Host %s gets no new work, because what it reports is not valid: %s", host, reason)
                self._announce(session, host)

        self._worker.record(work)

    def update_service(
        self,
        ctx: RequestContext,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> objects.Service:
        """Raises NotFound if there is no such service. Raises BadRequest if it is to be forced up while it still has
        servers that were evacuated from its host.
        """

        def work(session: Session) -> objects.Service:
            row = services.by_uuid(session, service_uuid)
            if row is None:
                raise errors.NotFound(f"Service {service_uuid} could not be found.")
            if forced_down is False and row.forced_down and row.binary == COMPUTE:
                _require_cleaned(session, row.host)
            if disabled is not None:
                row.disabled = disabled
            if disabled is False:
                row.disabled_reason = None
            elif disabled_reason is not None:
                row.disabled_reason = disabled_reason
            if forced_down is not None:
                row.forced_down = forced_down
            row.updated_at = self._worker.at()
            session.flush()
            self._announce(session, row.host)
            return services.to_object(row, services.last_seen(session, row.id))

        changed = self._worker.run(work)
        self._liveness.forget()
        return changed

    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        host, binary = self._worker.run(
            lambda session: remove_service(session, service_uuid, self._worker.at(), self._worker.now())
        )
        with self._lock:
            self._known.pop((host, binary), None)
            self._reported.pop((host, binary), None)
        self._liveness.forget()

    # -- once a second ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write which services were heard since the last flush. From time to time also write this conductor's own
        heartbeat, because no other process receives it.

        While the broker is down it does not count itself as heard, because then all other services would seem to fall
        silent.
        """
        own_turn = self._clock() - self._own_beat_at >= self._own_interval and self._broker_is_up()
        with self._lock:
            reported, self._reported = self._reported, {}
        if not reported and not own_turn:
            return
        try:
            revived = self._worker.record(lambda session: self._write(session, reported, own_turn))
        except BaseException:
            with self._lock:
                self._reported = {**reported, **self._reported}
                self._cannot_write = True
            raise
        self._cannot_write = False
        self._wrote_at = self._clock()
        if own_turn:
            self._own_beat_at = self._wrote_at
        if revived:
            self._liveness.forget()

    def _write(self, session: Session, reported: dict[Key, bool], own_turn: bool) -> bool:
        """Returns whether services count as alive for another reason than heartbeats: a skipped pause or a withdrawn
        reason.
        """
        now, revived = self._worker.now(), False
        superseded = self._processes.superseded(session)
        to_write = [key for key in reported if key[1] != COMPUTE or key[0] not in superseded]
        ids = {self._known[key].id for key in to_write if self._look_up(session, key)}
        if own_turn or self._clock() - self._wrote_at > self._longest_pause:
            revived = self._skip_pause(session, now)
        if own_turn:
            revived |= self._withdraw_reasons(session, reported)
            ids.add(self._own_id(session, now))
        # Another conductor, or a command-line tool, may have deleted or renamed a service.
        some_are_gone = services.set_last_seen(session, ids, now) < len(ids)
        if some_are_gone or self._clock() - self._counted_at >= COUNT_INTERVAL:
            self._counted_at = self._clock()
            self._relearn(session)
            self._conductors = max(1, tasks.count_living(session, now))
        return revived

    def _relearn(self, session: Session) -> None:
        """Read which services exist. A service that was deleted gets NotFound for its next heartbeat, and registers
        again.
        """
        rows = services.keys(session)
        with self._lock:
            self._known = {(host, binary): _ServiceRow(service_id, uuid) for service_id, uuid, host, binary in rows}
        self._count = len(rows)

    def _skip_pause(self, session: Session, now: ColumnElement[float]) -> bool:
        """While no conductor could write or receive heartbeats, no service could be heard, so that time must not count
        as silence. Returns whether there was such a pause.
        """
        pause = services.seconds_since_last_beat(session, now)
        if pause <= self._longest_pause:
            return False
        LOG.info("No heartbeat could be written for %.0f s, which does not count as silence of services", pause)
        services.skip_time(session, pause - FLUSH_INTERVAL, now)
        return True

    def _withdraw_reasons(self, session: Session, reported: dict[Key, bool]) -> bool:
        """Withdraw the reasons for which another conductor recorded that a service cannot work, if this one hears that
        it can. Returns whether there were any.
        """
        self._reasons = services.down_reasons(session)
        able = [
            key
            for key, works in reported.items()
            if works and key in self._known and self._known[key].id in self._reasons
        ]
        for key in able:
            self._set_reason(session, self._known[key].id, key[0], None)
        return bool(able)

    def _own_id(self, session: Session, now: ColumnElement[float]) -> int:
        own = (self._own.host, self._own.binary)
        if own not in self._known:
            row = self._ensure(session, self._own)
            services.change(session, row.id, guest_keys=self._guest_keys)
            self._compare_keys(services.guest_keys(session, self._down_time))
            self._learn(row)
        return self._known[own].id

    def _compare_keys(self, others: Mapping[str, str]) -> None:
        """Warns if another conductor has other keys. It is no error: an operator changes the files one after the other."""
        for host, keys in others.items():
            if host != self._own.host and keys != self._guest_keys:
                LOG.warning(
                    "The conductor on %s has other keys for secrets of guests (%s) than this one (%s). Until [guest_secrets] key_file is the same "
                    "on all controllers, encrypted guests may not start, and hosts may not offer encryption and TPMs",
                    *(host, keys or "none", self._guest_keys or "none"),
                )

    # -- inside ----------------------------------------------------------------------------------------------------

    def _ensure(self, session: Session, service: objects.Service) -> Service:
        at = self._worker.at()
        reason = None if self._enable_new or service.binary != COMPUTE else NEW_IS_DISABLED
        least = self._least_version(session, service)
        row = services.ensure(session, service, at, self._worker.now(), disabled_reason=reason)
        if service.binary == COMPUTE and service.version < max(row.version, least):
            LOG.warning(
                "The compute of host %s registers with version %d, and it or all others had %d: other services do not follow it "
                "down. Before a rollback set [upgrade_levels]",
                *(row.host, service.version, max(row.version, least)),
            )
        values = {
            "topic": service.topic,
            # A stolen host could say that it is old, and so take new actions from all others.
            "version": max(service.version, row.version, least) if service.binary == COMPUTE else service.version,
            "down_reason": service.down_reason and service.down_reason[:255],
        }
        if any(getattr(row, name) != value for name, value in values.items()):
            services.change(session, row.id, updated_at=at, **values)
        # Host tables may have left out the host's nodes because there was no service.
        self._announce(session, row.host)
        return row

    def _least_version(self, session: Session, service: objects.Service) -> int:
        """Returns the lowest version of the other computes that live, if this one registers for the first time: a stolen host whose
        service was deleted could register anew, as one of an older release.
        """
        if service.binary != COMPUTE or services.find(session, service.host, service.binary) is not None:
            return 0
        return services.lowest_versions(session, self._down_time).get(service.topic, 0)

    def _find(self, host: str, binary: str) -> _ServiceRow:
        service = self._known.get((host, binary))
        if service is None:
            with self._worker.db.read() as session:
                row = services.find(session, host, binary)
            if row is None:
                raise errors.NotFound(f"Service {binary} of host {host} has not registered")
            service = self._learn(row)
        return service

    def _look_up(self, session: Session, key: Key) -> bool:
        if key not in self._known:
            row = services.find(session, *key)
            if row is not None:
                self._learn(row)
        return key in self._known

    def _learn(self, row: Service) -> _ServiceRow:
        with self._lock:
            service = self._known[row.host, row.binary] = _ServiceRow(row.id, row.uuid)
            return service

    def _set_reason(self, session: Session, service_id: int, host: str, reason: str | None) -> None:
        sentences = {None: "works again", objects.STOPPED: "has stopped"}
        LOG.info("Compute of host %s: %s", host, sentences.get(reason, f"cannot work: {reason}"))
        services.change(session, service_id, down_reason=reason and reason[:255], updated_at=self._worker.at())
        self._announce(session, host)
        self._reasons = {k: v for k, v in self._reasons.items() if k != service_id} | (
            {service_id: reason} if reason is not None else {}
        )

    def _announce(self, session: Session, host: str) -> None:
        changes.append(session, services.node_ids(session, host), self._worker.now())

    def _instructions(self, uuid: str, cloud: CloudState | None) -> objects.ServiceInstructions:
        interval = max(self._report_interval, min(self._count / (MAX_BEATS * self._conductors), self._longest_interval))
        return objects.ServiceInstructions(
            service_uuid=uuid,
            heartbeat_interval=interval,
            audit_interval=self._count / (MAX_AUDITS * self._conductors),
            levels=dict(self._levels()),
            cloud=cloud,
        )


def _require_cleaned(session: Session, host: str) -> None:
    uncleaned = migrations.evacuated_from(session, host)
    if uncleaned:
        raise errors.BadRequest(
            f"Unable to force up the compute service of {host}: {len(uncleaned)} evacuations from it are not completed. Start it, "
            "so that it removes what it still has of these servers, and try again."
        )
