"""Shelved servers: which of them leave their hosts, and how a server without a host gets one again.

    shelve ---> (SHELVED, None) ---> (SHELVED, SHELVING_OFFLOADING) ---> (SHELVED_OFFLOADED, None): no host, no disks, an image
                    |    shelved_offload_time is over                        |
                    | unshelve: a server action on its host                  | unshelve: task(schedule), as of a new server (`build.py`),
                    v                                                        v  with the image in place of its own
                (ACTIVE, None) <---- build on a host ---- (SHELVED_OFFLOADED, UNSHELVING) ---> no host: as before, with the reason

The image is removed when the server is active again, or with the server. As in Nova, quotas always count a shelved
server.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.backoff import Backoff
from minova.codecs import Decoder
from minova.conductor.actions.engine.in_progress import Ending, LockedAction, context_of, locked_instance
from minova.conductor.actions.engine.kind import ActionKind, ActionRequest, EveryKind, parsed
from minova.conductor.actions.engine.payload import ActionPayload, decoded
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.actions.kinds.images import MakesImage
from minova.conductor.catalogue.images import Images
from minova.conductor.servers import later_builds
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.servers.present_needs import needs_now
from minova.conductor.servers.server_images import columns_without_shelved_image, has_shelved_image, remove_image
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.unknown_times import begin_unknown
from minova.conductor.tasks.worker import TaskWorker
from minova.context import service_context
from minova.db.catalogue import images
from minova.db.recovery import unexpected
from minova.db.servers import actions as action_rows
from minova.db.servers import guest_secrets, instances, migrations, request_specs, state_changes, tasks, unknown_times
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.host_arguments import HostArguments
from minova.objects.actions.shelving import SHELVE, SHELVE_OFFLOAD, UNSHELVE
from minova.objects.catalogue.image import Image
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.request_spec import Destination, RequestSpec
from minova.objects.servers.failures import Failure
from minova.objects.servers.states import TaskState, VmState

LOG = logging.getLogger(__name__)
# Seconds between two searches for servers whose time on their hosts is over, unless configured.
OFFLOAD_INTERVAL = 60.0
# The longest pause between two offloads of a server. Each that fails, such as while the image service is away, is an action with a fault.
LONGEST_PAUSE = 3600.0


class _Place(NamedTuple):
    """The destination of a server: only `host`, or any host in `zone`, to which it is pinned."""

    host: str | None
    zone: str | None


class _Attempts(NamedTuple):
    """How often this conductor has begun the offload of a server, and when it may do so again."""

    number: int
    not_before: float


class UnshelveDestination(msgspec.Struct, frozen=True, kw_only=True):
    """The destination of an offloaded server. `availability_zone` None: it is no longer pinned to a zone."""

    availability_zone: str | msgspec.UnsetType | None = msgspec.UNSET
    host: str | None = None


_UNSHELVE = Decoder(UnshelveDestination)


class Shelve(MakesImage):
    # Without its shelved server even a complete image is useless.
    keeps_complete = False

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, images: Images) -> None:
        super().__init__(images)
        self._conf = conf
        self._worker = worker

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        image, former = locked.payload.arguments.image, locked.instance.shelved_image_id
        if image is None:
            return {}
        if former is not None:
            remove_image(session, former)
        since = {"shelved_at": self._worker.at(), "shelved_since": self._worker.now()}
        return {"shelved_image_id": image.id, **since}

    def follower(self, session: Session, locked: LockedAction, failure: Failure | None) -> ActionRequest | None:
        """The offload, unless the server stays on its host. If the owner has deleted the image meanwhile, it does."""
        if failure is not None or self._conf.shelved_offload_time != 0:
            return None
        shelved = locked_instance(session, locked.instance.uuid)
        if shelved is None or not has_shelved_image(session, shelved):
            return None
        ctx = context_of(session, locked.task.action_id or 0)
        return ActionRequest(ctx=ctx, action=SHELVE_OFFLOAD, instance_uuid=shelved.uuid)


class ShelveOffload(ActionKind):
    """Removes the disk of the server on its host. That its image is there is required when the host begins, too, and when it is about to
    remove the disk: the task may have waited for its host for days.
    """

    refused_at_begin = "ImageDeleted"

    def require(self, session: Session, instance: LockedInstance) -> None:
        if not has_shelved_image(session, instance):
            raise errors.Conflict(
                f"Cannot '{SHELVE_OFFLOAD.name}' instance {instance.uuid}: its image {instance.shelved_image_id} cannot be found"
            )

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        """The host gets the image, which it asks the image service for."""
        image = images.find(session, instance.shelved_image_id) if instance.shelved_image_id is not None else None
        return ActionPayload(arguments=HostArguments(image=image))

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        return {"host": None, "node": None}


def image_of_offload(session: Session, instance_uuid: str, host: str) -> str | None:
    """Returns the id of the image of a server whose disk this host is removing."""
    payload = tasks.payload_on(session, instance_uuid, host, SHELVE_OFFLOAD.kind)
    return None if payload is None else decoded(payload).arguments.image_id


class Unshelve(ActionKind):
    """Starts a server that is still on its host. A server without a host is scheduled and built."""

    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker, builds: BuildInstances) -> None:
        self._conf = conf
        self._worker = worker
        self._builds = builds

    def parse(self, arguments: Mapping[str, Any]) -> UnshelveDestination:
        return parsed(_UNSHELVE, arguments)

    def prepare(self, session: Session, instance: LockedInstance, request: ActionRequest) -> ActionPayload:
        return ActionPayload()

    def succeeded(self, session: Session, locked: LockedAction, after: VmState) -> dict[str, Any]:
        """The TPM goes on from the state on the host; an offload that failed may have kept an older one."""
        guest_secrets.remove_tpm_states(session, [locked.instance.uuid])
        return {}

    def starts_elsewhere(self, request: ActionRequest) -> bool:
        """Raises NotFound if there is no such server. Raises Conflict if its state does not allow it, or its image is
        missing. Raises Conflict if the request names a host or a zone while the server is still on its host.
        """
        reservation_id = self._worker.run(lambda session: self._reserve(session, request))
        if reservation_id is None:
            return False
        epochs = {request.instance_uuid: later_builds.EPOCH}
        self._worker.in_background(
            request.ctx,
            WorkKind.SCHEDULE,
            (reservation_id, frozenset(epochs.values())),
            lambda: self._builds.reschedule(request.ctx, reservation_id, epochs),
        )
        return True

    def _reserve(self, session: Session, request: ActionRequest) -> str | None:
        """Returns the reservation of the build; None if the server has a host, or this is a second delivery."""
        locked = locked_instance(session, request.instance_uuid)
        if action_rows.already_begun(session, [request.begun]):
            return None
        if locked is None or locked.deleted:
            raise errors.NotFound(f"Instance {request.instance_uuid} could not be found.")
        if locked.state[0] is VmState.SHELVED_OFFLOADED:
            require_unlocked(locked, override=request.override_lock)
            return self._begin_build(session, request, locked)
        if request.arguments != UnshelveDestination() and locked.state[0] is VmState.SHELVED:
            raise errors.Conflict(
                f"Specifying an availability zone or a host when unshelving instance {locked.uuid} is only supported while "
                f"it is in vm_state {VmState.SHELVED_OFFLOADED}, and it is in vm_state {locked.state[0]}"
            )
        return None

    def _begin_build(self, session: Session, request: ActionRequest, locked: LockedInstance) -> str:
        """Returns the reservation of the new request, which is for this one build. Raises Conflict."""
        instance_uuid, wanted_place = locked.uuid, request.arguments
        if locked.state[1] is not None or tasks.lock(session, [instance_uuid]):
            raise errors.Conflict(
                f"Cannot '{UNSHELVE.name}' instance {instance_uuid} while it is in task_state {locked.state[1]}"
            )
        image = images.find(session, locked.shelved_image_id) if locked.shelved_image_id is not None else None
        if image is None or image.status != "active":
            raise errors.Conflict(
                f"Cannot '{UNSHELVE.name}' instance {instance_uuid}: its image {locked.shelved_image_id} cannot be found"
            )
        at = self._worker.at()
        if not isinstance(wanted_place.availability_zone, msgspec.UnsetType):
            zone = {"availability_zone": wanted_place.availability_zone}
            instances.set_attributes(session, instance_uuid, at, zone)
        reservation_id = f"r-{uuid.uuid4().hex[:16]}"
        place = _Place(wanted_place.host, instances.pinned_zone(session, instance_uuid))
        request_specs.add(
            session, [(reservation_id, *_request(session, instance_uuid, image, place, self._conf.pci.alias))], at
        )
        action_id = action_rows.begin(session, [request.record(at)])[instance_uuid]
        after = (locked.state[0], TaskState.UNSHELVING)
        state_changes.transition(session, [instance_uuid], [locked.state], after, updated_at=at, progress=0)
        later_builds.insert_task(
            session,
            self._worker,
            self._conf,
            locked,
            later_builds.last_attempt_of(session, locked),
            reservation_id=reservation_id,
            action_id=action_id,
            request_id=request.ctx.request_id,
        )
        return reservation_id


class ShelvedImages(EveryKind):
    """Removes the image of a shelving when its server does not need it any more."""

    def succeeded(self, session: Session, ending: Ending) -> dict[str, Any]:
        if not ending.locked.action.progress:
            return {}
        return columns_without_shelved_image(session, ending.locked.instance, ending.after)


class ShelvedOffloads:
    """`ticks`: seconds, monotonic."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        actions: ServerActions,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf = conf
        self._worker = worker
        self._actions = actions
        self._ticks = ticks
        self._interval = float(conf.shelved_poll_interval or OFFLOAD_INTERVAL)
        self._pauses = Backoff(first=self._interval, longest=max(self._interval, LONGEST_PAUSE))
        self._attempts: dict[str, _Attempts] = {}

    def offload_due(self) -> None:
        """Offload the servers whose time on their hosts is over, and those whose immediate offload was not possible."""
        seconds = float(self._conf.shelved_offload_time)
        if seconds < 0:
            return
        begin_unknown(self._worker, unknown_times.OF_SERVERS)
        with self._worker.db.read() as session:
            instance_uuids = instances.shelved_before(session, self._worker.now() - seconds)
            newer = unexpected.newer_among(session, instance_uuids)
        now = self._ticks()
        forgotten = now - 2 * self._pauses.longest
        self._attempts = {uuid: before for uuid, before in self._attempts.items() if before.not_before > forgotten}
        for instance_uuid in instance_uuids:
            before = self._attempts.get(instance_uuid, _Attempts(0, now))
            if now + self._interval / 2 < before.not_before:  # this search may be a little early
                continue
            if instance_uuid in newer:
                # It was unshelved after the backup from which this database was made.
                LOG.warning("Instance %s stays on its host: its guest is newer than its row", instance_uuid)
                continue
            LOG.info("Instance %s has been shelved for %g s, and leaves its host", instance_uuid, seconds)
            try:
                self._actions.start_action(
                    service_context(), instance_uuid, SHELVE_OFFLOAD.kind, {}, override_lock=True
                )
            except (errors.NotFound, errors.Conflict, errors.PeerTooOld) as error:
                LOG.info("Instance %s stays on its host: %s", instance_uuid, error)
            else:
                number = before.number + 1
                self._attempts[instance_uuid] = _Attempts(number, now + self._pauses.pause(number))


def kinds(conf: cfg.ConfigOpts, worker: TaskWorker, images: Images, builds: BuildInstances) -> dict[str, ActionKind]:
    return {
        SHELVE.kind: Shelve(conf, worker, images),
        SHELVE_OFFLOAD.kind: ShelveOffload(),
        UNSHELVE.kind: Unshelve(conf, worker, builds),
    }


class _UnshelveBuild(NamedTuple):
    spec: RequestSpec
    build_extras: BuildExtras


def _with_boot_files_of(shelved: Image, own: Image | None) -> Image:
    """Returns the image of the shelved server with the kernel and ramdisk of its own image, from which it boots again."""
    if own is None:
        return shelved
    return msgspec.structs.replace(shelved, kernel=own.kernel, ramdisk=own.ramdisk)


def _request(
    session: Session, instance_uuid: str, image: Image, place: _Place, aliases: Sequence[str]
) -> _UnshelveBuild:
    """Returns the server's first request with this image, for any host that has nothing more to remove of the server. The host
    forced at its creation does not count, as in Nova.
    """
    instance = instances.by_uuids(session, [instance_uuid])[instance_uuid]
    first, build_extras = request_specs.load(session, [instance.reservation_id])[instance.reservation_id]
    spec = msgspec.structs.replace(
        first,
        flavor=instance.flavor,
        image=_with_boot_files_of(image, instance.image),
        num_instances=1,
        availability_zone=place.zone,
        ignore_hosts=tuple(sorted(migrations.unclean_hosts(session, instance_uuid))),
        force_hosts=(),
        force_nodes=(),
        requested_destination=None if place.host is None else Destination(host=place.host),
        **needs_now(session, instance_uuid, instance.flavor, image, aliases),
    )
    return _UnshelveBuild(spec, build_extras.without_secrets())
