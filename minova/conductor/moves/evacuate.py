"""Evacuates servers: builds them again, on another host than their own, which is down and does not run them any more.

evacuate_server      the server's allocation goes to the migration; migration, task (schedule), action and task state are
                     written in the same transaction
                     the task goes the way of every build (`servers/build.py`); `servers/evacuations.py` has what else changes
evacuation_cleaned   the old host is back and has removed what it had: its allocation is released

A host is down in this sense if an operator, or a monitor that has fenced it, has forced it down. A host that is only
silent may still run its guests.
"""

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.hosts.fences import fenced_among, require_up
from minova.conductor.hosts.liveness import COMPUTE, Liveness
from minova.conductor.notifications.instances import note
from minova.conductor.servers import evacuations, later_builds
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.servers.present_needs import needs_now
from minova.conductor.servers.terminate import Abandon
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.contracts.conductor.api.evacuation import EvacuationsApi
from minova.contracts.conductor.computes.evacuation import EvacuationReportsApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.hosts import services
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, migrations, request_specs, state_changes, tasks
from minova.db.servers.actions import ActionKey
from minova.db.servers.instances import LockedInstance
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.evacuation import ACTION, Evacuation, EvacuationRequest
from minova.objects.requests.request_spec import Destination, RequestSpec
from minova.objects.servers.failures import Failure
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, MigrationType
from minova.objects.servers.states import EVACUABLE, State, TaskState, VmState
from minova.placement.allocations.transfers import transfer

LOG = logging.getLogger(__name__)
# The versions from which on services know evacuations.
SINCE = {"conductor": "1.9", "compute": "1.3"}


class _EvacuationBuild(NamedTuple):
    """What an evacuation builds: the request of this one build, and what goes with it to the host."""

    spec: RequestSpec
    build_extras: BuildExtras


class Evacuations(EvacuationsApi, EvacuationReportsApi):
    """`abandon` ends an action in progress. `levels`: the version of each contract that every service serves, by topic.
    `dry_runs`: a client of the schedulers with a short time-out.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        liveness: Liveness,
        builds: BuildInstances,
        groups: Groups,
        abandon: Abandon,
        dry_runs: SchedulerApi,
        levels: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._conf = conf
        self._worker = worker
        self._liveness = liveness
        self._builds = builds
        self._groups = groups
        self._abandon = abandon
        self._dry_runs = dry_runs
        self._levels = levels

    def evacuate_server(
        self, ctx: RequestContext, instance_uuid: str, request: EvacuationRequest, override_lock: bool = False
    ) -> None:
        self._require_levels()
        down = self._liveness.down_hosts()
        reservation_id = self._worker.run(
            lambda session: self._begin(session, ctx, instance_uuid, request, override_lock, down)
        )
        if reservation_id is None:
            return
        epochs = {instance_uuid: later_builds.EPOCH}
        self._worker.in_background(
            ctx,
            WorkKind.SCHEDULE,
            (reservation_id, frozenset(epochs.values())),
            lambda: self._builds.reschedule(ctx, reservation_id, epochs),
        )

    def preview_evacuation(
        self, ctx: RequestContext, instance_uuid: str, request: EvacuationRequest, override_lock: bool = False
    ) -> ScheduleAnswer:
        self._require_levels()
        down = self._liveness.down_hosts()

        with self._worker.db.read() as session:
            seen = instances.not_locked(session, instance_uuid)
            _require_allowed(session, instance_uuid, seen, request, override_lock, down, held=False)
            spec = self._built(session, instances.by_uuids(session, [instance_uuid])[instance_uuid], request).spec
        spec = self._groups.read_into(spec, instance_uuid)
        return self._dry_runs.preview_destinations(ctx, spec=spec, instance_uuids=(instance_uuid,))

    def evacuation_cleaned(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        def work(session: Session) -> None:
            instances.lock(session, [instance_uuid])
            for evacuation in migrations.evacuated_from(session, host):
                migration = (
                    migrations.lock(session, evacuation.uuid) if evacuation.instance_uuid == instance_uuid else None
                )
                if migration is not None and migration.cleanup_host == host:
                    LOG.info("Host %s has removed instance %s, which was evacuated from it", host, instance_uuid)
                    evacuations.cleaned(session, migration, self._worker.at(), self._worker.now())

        self._worker.run(work)

    def _require_levels(self) -> None:
        """Raises PeerTooOld if a service that runs would not know what an evacuation is."""
        levels = self._levels()
        for topic, needed in SINCE.items():
            if topic in levels and numbers(levels[topic]) < numbers(needed):
                raise errors.PeerTooOld(
                    f"{ACTION} needs {topic} {needed}, and the oldest {topic} service that runs has {levels[topic]}"
                )

    # -- the transaction that begins it ------------------------------------------------------------------------------

    def _begin(
        self,
        session: Session,
        ctx: RequestContext,
        instance_uuid: str,
        request: EvacuationRequest,
        override_lock: bool,
        down: Collection[str],
    ) -> str | None:
        """Returns the reservation of the build; None if this is a second delivery of the request. `down`: at a reading shortly before."""
        locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
        if action_rows.already_begun(session, [ActionKey(instance_uuid, ctx.request_id, ACTION)]):
            return None
        locked = _require_allowed(session, instance_uuid, locked, request, override_lock, down)
        self._interrupt(session, locked)
        instance = instances.by_uuids(session, [instance_uuid])[instance_uuid]
        at = self._worker.at()
        reservation_id = f"r-{uuid.uuid4().hex[:16]}"
        request_specs.add(session, [(reservation_id, *self._built(session, instance, request))], at)
        action = {
            "instance_uuid": instance_uuid,
            "action": ACTION,
            "request_id": ctx.request_id,
            "user_id": ctx.user_id,
            "project_id": ctx.project_id,
            "start_time": at,
        }
        action_id = action_rows.begin(session, [action])[instance_uuid]
        last = later_builds.last_attempt_of(session, locked)
        self._hand_over(session, instance, request, last)
        note(session, ACTION, [instance_uuid], locked.host)
        after = (locked.state[0], TaskState.REBUILDING)
        state_changes.transition(session, [instance_uuid], [locked.state], after, updated_at=at, progress=0)
        later_builds.insert_task(
            session,
            self._worker,
            self._conf,
            locked,
            last,
            reservation_id=reservation_id,
            action_id=action_id,
            request_id=ctx.request_id,
        )
        return reservation_id

    def _interrupt(self, session: Session, locked: LockedInstance) -> None:
        """End the action in progress: its host does not answer any more."""
        task = tasks.lock(session, [locked.uuid]).get(locked.uuid)
        if task is None:
            return
        interrupted = Failure(kind="Interrupted", details=f"{ACTION} was requested meanwhile")
        self._abandon(session, task, locked.state[1], interrupted)
        tasks.remove(session, [locked.uuid])

    def _hand_over(self, session: Session, instance: Instance, request: EvacuationRequest, last: int) -> None:
        """Give what the server holds on its host to the migration, before the scheduler claims elsewhere."""
        at, now = self._worker.at(), self._worker.now()
        migration = Migration(
            uuid=str(uuid.uuid4()),
            instance_uuid=instance.uuid,
            migration_type=MigrationType.EVACUATION,
            source_compute=str(instance.host),
            source_node=instance.node or "",
            old_flavor=instance.flavor,
            new_flavor=instance.flavor,
            old_vm_state=instance.vm_state,
            old_numa_topology=instance.numa_topology,
            attempt=last,
            old_attempt=instance.attempt,
            stops=request.stops,
        )
        transfer(session, instance.uuid, migration.uuid, now)
        migrations.add(session, migration, at, now)

    def _built(self, session: Session, instance: Instance, request: EvacuationRequest) -> _EvacuationBuild:
        """Returns the server's first request as it is now, for any host but its own. The host forced at its creation
        does not count, as in Nova.
        """
        first, build_extras = request_specs.load(session, [instance.reservation_id])[instance.reservation_id]
        forced = (request.host,) if request.force and request.host is not None else ()
        destination = None if forced or request.host is None else Destination(host=request.host)
        spec = msgspec.structs.replace(
            first,
            instance_uuid=instance.uuid,
            flavor=instance.flavor,
            image=instance.image,
            num_instances=1,
            availability_zone=instances.pinned_zone(session, instance.uuid),
            # Hosts that have still to remove something of the server, too.
            ignore_hosts=tuple(sorted({str(instance.host), *migrations.unclean_hosts(session, instance.uuid)})),
            force_hosts=forced,
            force_nodes=(),
            requested_destination=destination,
            **needs_now(session, instance.uuid, instance.flavor, instance.image, self._conf.pci.alias),
        )
        stops = request.stops or instance.vm_state is VmState.STOPPED
        build = Evacuation(stops=stops, shared_disks=request.shared_disks, old_attempt=instance.attempt)
        extras = msgspec.structs.replace(
            build_extras.without_secrets(), admin_password=request.admin_password, evacuation=build
        )
        return _EvacuationBuild(spec, extras)


def _require_allowed(
    session: Session,
    uuid: str,
    locked: LockedInstance | None,
    request: EvacuationRequest,
    override_lock: bool,
    down: Collection[str],
    *,
    held: bool = True,
) -> LockedInstance:
    """Returns the instance. Raises NotFound, Conflict and BadRequest.

    `held`: what is read stays as it is until the transaction ends. False: for a preview, which decides nothing.
    """
    if locked is None or locked.deleted:
        raise errors.NotFound(f"Instance {uuid} could not be found.")
    require_unlocked(locked, override=override_lock)
    _require_evacuable(uuid, locked.host, locked.state, request)
    open_moves = migrations.lock_open if held else migrations.find_open
    for migration in open_moves(session, uuid):
        raise errors.Conflict(
            f"Cannot '{ACTION}' instance {uuid} while its {migration.migration_type} {migration.uuid} is in status "
            f"{migration.status}"
        )
    if request.force and request.host is not None:
        # No filter is asked about it.
        require_up(request.host, {*down, *fenced_among(session, [request.host], held=held)})
    host = str(locked.host)
    if not services.fences(session, [host], COMPUTE, held=held).get(host):
        raise errors.BadRequest(
            f"Compute service of {host} is still in use. Force it down (forced_down) once its guests cannot run any more."
        )
    return locked


def _require_evacuable(uuid: str, host: str | None, state: State, request: EvacuationRequest) -> None:
    """Raises Conflict if the server's state does not allow it. Raises BadRequest if it is to go to its own host."""
    vm_state, task_state = state
    if vm_state not in EVACUABLE or host is None:
        where = "" if host is not None else " and on no host"
        raise errors.Conflict(f"Cannot '{ACTION}' instance {uuid} while it is in vm_state {vm_state}{where}")
    if task_state is TaskState.DELETING:
        raise errors.Conflict(f"Cannot '{ACTION}' instance {uuid} while it is in task_state {task_state}")
    if request.host == host:
        raise errors.BadRequest("The target host can't be the same one.")
