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
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.servers.actions.requests import ServerActions
from minova.conductor.servers.build import SCHEDULE_WAIT, BuildInstances
from minova.conductor.servers.locks import require_unlocked
from minova.conductor.tasks.pools import Kind
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext, service_context
from minova.db.catalogue import images
from minova.db.models import TaskStep
from minova.db.networks import vifs
from minova.db.recovery import unexpected
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, request_specs, tasks
from minova.db.servers.instances import LockedInstance
from minova.objects.actions.shelving import SHELVE_OFFLOAD, UNSHELVE
from minova.objects.catalogue.image import Image
from minova.objects.network.physical_networks import require_segments
from minova.objects.requests.request_spec import Destination, RequestSpec
from minova.objects.servers.states import TaskState, VmState
from minova.placement.allocations import claims

LOG = logging.getLogger(__name__)
# Seconds between two searches for servers whose time on their hosts is over, unless configured.
OFFLOAD_INTERVAL = 60.0
FIRST_CLAIM = 1
_EPOCH = 1


class _Place(NamedTuple):
    """Where a server may go: only to `host`, or to any host in `zone`, to which it is pinned."""

    host: str | None
    zone: str | None


class Shelving:
    def __init__(self, conf: cfg.ConfigOpts, worker: Worker, builds: BuildInstances, actions: ServerActions) -> None:
        self._conf = conf
        self._worker = worker
        self._builds = builds
        self._actions = actions

    def unshelve(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        arguments: Mapping[str, Any],
        *,
        override_lock: bool = False,
    ) -> None:
        """Raises NotFound if there is no such server. Raises Conflict if its state does not allow it, its image is
        missing, or its host is down. Raises Conflict if the request names a host or a zone while the server is still on
        its host.
        """
        self._actions.require_levels(UNSHELVE)

        begun = action_rows.Begun(instance_uuid, ctx.request_id, UNSHELVE.name)

        def work(session: Session) -> str | None:
            locked = instances.lock(session, [instance_uuid]).get(instance_uuid)
            if action_rows.begun(session, [begun]):
                return None
            if locked is None or locked.deleted:
                raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
            if locked.state[0] is VmState.SHELVED_OFFLOADED:
                require_unlocked(locked, override=override_lock)
                return self._begin(session, ctx, locked, arguments)
            if arguments and locked.state[0] is VmState.SHELVED:
                raise errors.Conflict(
                    f"Specifying an availability zone or a host when unshelving instance {instance_uuid} is only supported while "
                    f"it is in vm_state {VmState.SHELVED_OFFLOADED}, and it is in vm_state {locked.state[0]}"
                )
            return None

        reservation_id = self._worker.run(work)
        if reservation_id is None:
            self._actions.start(ctx, instance_uuid, UNSHELVE.kind, {}, override_lock=override_lock)
            return
        epochs = {instance_uuid: _EPOCH}
        self._worker.in_background(
            ctx,
            Kind.SCHEDULE,
            (reservation_id, frozenset(epochs.values())),
            lambda: self._builds.reschedule(ctx, reservation_id, epochs),
        )

    def offload_due(self) -> None:
        """Offload the servers whose time on their hosts is over, and those whose immediate offload was not possible."""
        seconds = float(self._conf.shelved_offload_time)
        if seconds < 0:
            return
        with self._worker.db.read() as session:
            due = instances.shelved_before(session, self._worker.at(), seconds)
            newer = unexpected.newer_among(session, due)
        for instance_uuid in due:
            if instance_uuid in newer:
                # It was unshelved after the backup from which this database was made.
                LOG.warning("Instance %s stays on its host: its guest is newer than its row", instance_uuid)
                continue
            LOG.info("Instance %s has been shelved for %g s, and leaves its host", instance_uuid, seconds)
            try:
                self._actions.start(service_context(), instance_uuid, SHELVE_OFFLOAD.kind, {}, override_lock=True)
            except (errors.NotFound, errors.Conflict, errors.PeerTooOld) as error:
                LOG.info("Instance %s stays on its host: %s", instance_uuid, error)

    # -- transactions ----------------------------------------------------------------------------------------------

    def _begin(
        self, session: Session, ctx: RequestContext, locked: LockedInstance, arguments: Mapping[str, Any]
    ) -> str:
        """Returns the reservation of the new request, which is for this one build. Raises Conflict."""
        instance_uuid = locked.uuid
        if locked.state[1] is not None or tasks.lock(session, [instance_uuid]):
            raise errors.Conflict(
                f"Cannot '{UNSHELVE.name}' instance {instance_uuid} while it is in task_state {locked.state[1]}"
            )
        image = images.find(session, locked.shelved_image_id) if locked.shelved_image_id is not None else None
        if image is None or image.status != "active":
            raise errors.Conflict(
                f"Cannot '{UNSHELVE.name}' instance {instance_uuid}: its image {locked.shelved_image_id} cannot be found"
            )
        at, now = self._worker.at(), self._worker.now()
        if "availability_zone" in arguments:
            instances.set_attributes(session, instance_uuid, at, {"availability_zone": arguments["availability_zone"]})
        reservation_id = f"r-{uuid.uuid4().hex[:16]}"
        place = _Place(arguments.get("host"), instances.pinned_zone(session, instance_uuid))
        request_specs.add(session, [(reservation_id, *_request(session, instance_uuid, image, place))], at)
        action_row: dict[str, Any] = {"instance_uuid": instance_uuid, "action": UNSHELVE.name, "start_time": at}
        action_row |= {"request_id": ctx.request_id, "user_id": ctx.user_id, "project_id": ctx.project_id}
        action_id = action_rows.begin(session, [action_row])[instance_uuid]
        after = (locked.state[0], TaskState.UNSHELVING)
        instances.transition(session, [instance_uuid], [locked.state], after, updated_at=at, progress=0)
        row = {
            "kind": "build",
            "instance_uuid": instance_uuid,
            "reservation_id": reservation_id,
            "action_id": action_id,
            "worker_id": self._worker.id,
            "epoch": _EPOCH,
            "step": TaskStep.SCHEDULE.value,
            # Continues the numbers of the last host's attempts, so that the next attempt differs from them.
            "attempt": locked.attempt,
            "claim_number": claims.release(session, [instance_uuid], now).get(instance_uuid, FIRST_CLAIM),
            "payload": {},
            "request_id": ctx.request_id,
            "wake_at": SCHEDULE_WAIT,
            "deadline": float(self._conf.conductor.schedule_timeout),
            "created_at": at,
        }
        tasks.insert_rows(session, [row], now)
        return reservation_id


class _Request(NamedTuple):
    spec: RequestSpec
    carried: dict[str, Any]


def _request(session: Session, instance_uuid: str, image: Image, place: _Place) -> _Request:
    """Returns the server's first request with this image. The host forced at its creation does not count, as in
    Nova.
    """
    instance = instances.by_uuids(session, [instance_uuid])[instance_uuid]
    first, carried = request_specs.load(session, [instance.reservation_id])[instance.reservation_id]
    spec = msgspec.structs.replace(
        first,
        flavor=instance.flavor,
        image=image,
        num_instances=1,
        availability_zone=place.zone,
        force_hosts=(),
        force_nodes=(),
        requested_destination=None if place.host is None else Destination(host=place.host),
        # Its interfaces may have changed since.
        placement=require_segments(first.placement, vifs.segments_of(session, instance_uuid)),
    )
    return _Request(spec, request_specs.without_secrets(carried))
