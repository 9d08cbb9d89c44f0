"""create_servers: writes everything that belongs to a request, in one transaction."""

import logging
import re
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec
from oslo_config import cfg
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.catalogue.server_groups import HINT
from minova.conductor.network.backend import NetworkBackends
from minova.conductor.network.servers import InterfaceAllocation, new_ports, segments_of
from minova.conductor.quotas import Quotas
from minova.conductor.servers.build import SCHEDULE_WAIT, BuildInstances, Reservation
from minova.conductor.tasks.group_commit import GroupCommit
from minova.conductor.tasks.pools import WorkKind
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.base import numbers
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor.api.servers import CreateServersApi
from minova.db.catalogue import server_groups
from minova.db.quotas import OverQuota, of_servers
from minova.db.servers import actions, request_specs, state_changes, tags, tasks
from minova.hardware.demands import host_needs, require_agreement_of, require_aliases
from minova.hardware.guest.features import FlavorAndImage
from minova.hardware.guest.keys import require_served
from minova.objects.catalogue import disk_config, kernel_boot
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.catalogue.quota import count_that_fits
from minova.objects.catalogue.quota import refusal as refusal_text
from minova.objects.guests.local_disks import to_metadata
from minova.objects.network.physical_networks import require_segments
from minova.objects.requests import required_traits
from minova.objects.requests.build_extras import BuildExtras
from minova.objects.requests.request_spec import Destination, PlacementFilter, RequestSpec
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.states import TaskState, VmState
from minova.races import Race, repeat_lost

# The first call of the scheduler is committed together with the tasks.
FIRST_CLAIM = 1
LOG = logging.getLogger(__name__)
# Tries after an IntegrityError: another transaction has committed the same request, which then gets the same answer, or the same
# MAC address.
TRIES = 3
# The version of ComputeApi from which on computes make config drives.
WITH_DRIVES = "1.3"


class CreateResult(NamedTuple):
    """`new`: False if the request repeats an earlier one, and nothing was written."""

    answer: CreatedServers
    new: bool


class ServerCreation(NamedTuple):
    """A request, and what is written for it unless it is a repetition. `look`: search for the earlier answer. It is False in the first
    try, whose INSERT fails if the UUID of the request is taken.
    """

    ctx: RequestContext
    request: CreateServers
    reservation: Reservation
    spec: RequestSpec
    key_pair: KeyPair | None = None
    look: bool = False


class Servers(CreateServersApi):
    """`levels`: the version of each contract that every service serves, by topic, if it is known."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        worker: TaskWorker,
        builds: BuildInstances,
        quotas: Quotas,
        networks: NetworkBackends,
        levels: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        require_aliases(conf.pci.alias)
        self._conf = conf
        self._worker = worker
        self.builds = builds
        self._quotas = quotas
        self._levels = levels
        self._networks = networks
        self._creations: GroupCommit[ServerCreation, CreateResult] = GroupCommit(worker, self._write)

    def create_servers(
        self,
        ctx: RequestContext,
        request: CreateServers,
        key_pair: KeyPair | None = None,
    ) -> CreatedServers:
        """Makes as many servers as the quota allows, between `min_count` and `max_count`: writes them, returns, and
        schedules them in the background.

        Raises Forbidden if the quota allows fewer. Raises Conflict; see the contract.
        """
        self._require_levels(request)
        creation = self._creation(ctx, request, key_pair)
        refusal: errors.Forbidden | None = None

        def ask_for_fewer(error: OverQuota) -> None:
            nonlocal creation, refusal
            refusal = refusal or refusal_of(error, request)
            count = creation.request.max_count
            fits = fitting_count(error, request, count)
            if not request.min_count <= fits < count:
                raise refusal
            creation = self._creation(ctx, msgspec.structs.replace(request, max_count=fits), key_pair)

        def look_for_answer(error: IntegrityError) -> None:
            nonlocal creation
            LOG.info("Servers were not written: %s", error.orig)
            creation = creation._replace(look=True)

        over_quota = Race(OverQuota, ask_for_fewer, lambda error: refusal or refusal_of(error, request))
        written = Race(IntegrityError, look_for_answer, _exists, tries=TRIES)
        races = [*self._networks.races(request), self._quotas.race, over_quota, written]
        result = repeat_lost(lambda: self._create(creation), races)
        if result.new:
            reservation = creation.reservation
            if request.requested_networks:
                self._networks.allocated(request, [*reservation.epochs])
            self._in_background(ctx, reservation, lambda: self.builds.schedule(ctx, reservation))
        return result.answer

    def _require_levels(self, request: CreateServers) -> None:
        if request.config_drive:
            self._require_computes("Config drives")
        if request.requested_networks:
            self._require_computes("Interfaces of servers")
        if request.block_device_mapping:
            self._require_computes("Several local disks")
        if request.image is not None and request.image.boot_files:
            self._require_computes("Kernels of images")

    def _require_computes(self, what: str) -> None:
        """Raises PeerTooOld if a running compute would build the servers without `what` and still report success."""
        level = self._levels().get(ComputeApi.TOPIC)
        if level is not None and numbers(level) < numbers(WITH_DRIVES):
            raise errors.PeerTooOld(
                f"{what} need compute {WITH_DRIVES}, and the oldest compute service that runs has {level}"
            )

    def _creation(self, ctx: RequestContext, request: CreateServers, key_pair: KeyPair | None) -> ServerCreation:
        spec = spec_of(ctx, request, self._conf.pci.alias)
        reservation = Reservation(
            id=f"r-{uuid.uuid4().hex[:16]}",
            epochs={str(uuid.uuid4()): 1 for _ in range(request.max_count)},
            claim_number=FIRST_CLAIM,
            spec=spec,
            build_extras=BuildExtras(
                requested_networks=request.requested_networks,
                security_groups=request.security_groups,
                block_device_mapping=request.block_device_mapping,
                injected_files=request.injected_files,
                admin_password=request.admin_password,
            ),
        )
        return ServerCreation(ctx, request, reservation, spec, key_pair)

    def _create(self, creation: ServerCreation) -> CreateResult:
        """Raises ServiceUnavailable if the database is away. The rows may be written nevertheless if the connection
        broke at the commit, so the tasks are looked for in the background.
        """
        ctx, reservation = creation.ctx, creation.reservation
        try:
            return self._creations.run(creation)
        except errors.ServiceUnavailable:
            reschedule = partial(self.builds.reschedule, ctx, reservation.id, reservation.epochs)
            self._in_background(ctx, reservation, reschedule)
            raise

    def _in_background(self, ctx: RequestContext, reservation: Reservation, work: Callable[[], None]) -> None:
        what = (reservation.id, frozenset(reservation.epochs.values()))
        self._worker.in_background(ctx, WorkKind.SCHEDULE, what, work)

    def _write(self, session: Session, creations: Sequence[ServerCreation]) -> list[CreateResult]:
        """Writes simultaneous requests together, in as many statements as one."""
        earlier = [
            earlier_answer(session, creation.ctx, creation.request) if creation.look else None for creation in creations
        ]
        new = [creation for creation, answer in zip(creations, earlier, strict=True) if answer is None]
        if new:
            self._insert(session, new)
        return [
            CreateResult(answer or _answer(creation), new=answer is None)
            for creation, answer in zip(creations, earlier, strict=True)
        ]

    def _insert(self, session: Session, new: Sequence[ServerCreation]) -> None:
        at = self._worker.at()
        # First: a repeated request must not be refused for what its servers have taken.
        requests = [create_request_row(creation, at) for creation in new if creation.request.request_uuid is not None]
        if requests:
            request_specs.add_create_requests(session, requests)
        allocations = [
            InterfaceAllocation(creation.ctx, creation.request, [*creation.reservation.epochs]) for creation in new
        ]
        networks = self._networks.lock(session, allocations)
        self._count(session, new)
        request_specs.add(
            session,
            [(creation.reservation.id, creation.spec, creation.reservation.build_extras) for creation in new],
            at,
        )
        state_changes.insert_rows(session, [row for creation in new for row in instance_rows(creation, at)])
        for creation in new:
            self._join_group(session, creation)
            tags.add(session, creation.reservation.epochs, creation.request.tags)
        self._networks.allocate(session, allocations, networks)
        action_ids = actions.begin(session, [row for creation in new for row in action_rows(creation, at)])
        rows = [row for creation in new for row in self._task_rows(creation, action_ids, at)]
        tasks.insert_rows(session, rows, self._worker.now())

    def _count(self, session: Session, new: Sequence[ServerCreation]) -> None:
        """Take the quotas in the order of the projects, so that two transactions do not deadlock."""
        by_project: dict[str, Counter[str]] = {}
        for creation in new:
            counts = by_project.setdefault(creation.ctx.project_id, Counter())
            counts.update(counted(creation.request, len(creation.reservation.epochs)))
        for project_id, counts in sorted(by_project.items()):
            self._quotas.take(session, project_id, counts)

    def _join_group(self, session: Session, creation: ServerCreation) -> None:
        group = creation.spec.get_scheduler_hint(HINT)
        if not group:
            return
        most = self._quotas.limits(session, creation.ctx.project_id)["server_group_members"]
        if not server_groups.join(session, group, creation.reservation.epochs, most):
            raise errors.BadRequest(f"Server group {group} could not be found.")

    def _task_rows(self, creation: ServerCreation, action_ids: Mapping[str, int], at: datetime) -> list[dict[str, Any]]:
        task = {
            "kind": "build",
            "reservation_id": creation.reservation.id,
            "worker_id": self._worker.id,
            "epoch": 1,
            "step": "schedule",
            "attempt": 0,
            "claim_number": FIRST_CLAIM,
            "payload": {},
            "request_id": creation.ctx.request_id,
            "wake_at": SCHEDULE_WAIT,
            "deadline": float(self._conf.conductor.schedule_timeout),
            "created_at": at,
        }
        return [{"instance_uuid": uuid, "action_id": action_ids[uuid], **task} for uuid in creation.reservation.epochs]


def counted(request: ServerRequest, count: int = 1) -> dict[str, int]:
    """Returns what quotas count for `count` servers."""
    ports = new_ports(request)
    return of_servers(request.flavor, count) | ({"ports": count * ports} if ports else {})


def fitting_count(error: OverQuota, request: ServerRequest, most: int) -> int:
    """Returns for how many servers of the request, at most `most`, the quota has room."""
    return count_that_fits(counted(request), error.used, error.limits, most)


def instance_rows(creation: ServerCreation, at: datetime) -> list[dict[str, Any]]:
    columns: dict[str, Any] = {
        "created_at": at,
        "numa_topology": creation.spec.numa_topology,
        "key_data": creation.key_pair and creation.key_pair.public_key,
        "key_type": creation.key_pair and creation.key_pair.type,
    }
    return [
        instance_row(creation.ctx, creation.request, creation.reservation.id, instance_uuid, number) | columns
        for number, instance_uuid in enumerate(creation.reservation.epochs)
    ]


def action_rows(creation: ServerCreation, at: datetime) -> list[dict[str, Any]]:
    common = {
        "action": "create",
        "request_id": creation.ctx.request_id,
        "user_id": creation.ctx.user_id,
        "project_id": creation.ctx.project_id,
        "start_time": at,
    }
    return [{"instance_uuid": instance_uuid, **common} for instance_uuid in creation.reservation.epochs]


def create_request_row(creation: ServerCreation, at: datetime) -> dict[str, Any]:
    return {
        "request_uuid": creation.request.request_uuid,
        "project_id": creation.ctx.project_id,
        "body_hash": creation.request.body_hash,
        "reservation_id": creation.reservation.id,
        "instance_uuids": [*creation.reservation.epochs],
        "created_at": at,
    }


def refusal_of(error: OverQuota, request: ServerRequest) -> errors.Forbidden:
    spans = {}
    if request.min_count < request.max_count:
        spans["instances"] = f"{request.min_count}-{request.max_count}"
    return errors.Forbidden(refusal_text(error.over, spans))


def _exists(_: IntegrityError) -> errors.Conflict:
    return errors.Conflict("The servers could not be written: something of them exists already")


def _answer(creation: ServerCreation) -> CreatedServers:
    return CreatedServers(
        reservation_id=creation.reservation.id,
        instance_uuids=tuple(creation.reservation.epochs),
        admin_password=creation.request.admin_password,
    )


def earlier_answer(session: Session, ctx: RequestContext, request: CreateServers) -> CreatedServers | None:
    """Returns the answer that the same request got before. Raises Conflict if its UUID was used with another body."""
    if request.request_uuid is None:
        return None
    earlier = request_specs.find_create_request(session, request.request_uuid, ctx.project_id)
    if earlier is None:
        return None
    if earlier.body_hash != request.body_hash:
        raise errors.Conflict(f"Request {request.request_uuid} has come before with another body")
    return CreatedServers(
        reservation_id=earlier.reservation_id,
        instance_uuids=tuple(earlier.instance_uuids),
        admin_password=request_specs.password_of(session, earlier.reservation_id),
    )


def spec_of(ctx: RequestContext, request: ServerRequest, aliases: Sequence[str] = ()) -> RequestSpec:
    """Returns the scheduler's request. `aliases`: the values of [pci] alias, for requests without `needs`.

    Raises BadRequest for flavors or images that require something impossible.
    """
    needs = request.needs
    if needs is None:
        require_served(request.flavor.extra_specs, request.image.properties if request.image is not None else {})
        guest = FlavorAndImage(request.flavor, request.image)
        require_agreement_of(guest)
        needs = host_needs(guest, aliases)
        required_traits.check(request.flavor, request.image)
    return RequestSpec(
        flavor=request.flavor,
        image=request.image,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        num_instances=request.max_count,
        availability_zone=request.availability_zone,
        force_hosts=(request.force_host,) if request.force_host else (),
        force_nodes=(request.force_node,) if request.force_node else (),
        requested_destination=_destination(request),
        scheduler_hints=request.scheduler_hints,
        numa_topology=needs.numa_topology,
        placement=require_segments(PlacementFilter(required_traits=needs.required_traits), segments_of(request)),
        pci_requests=tuple(
            msgspec.structs.replace(pci_request, request_id=str(uuid.uuid4())) for pci_request in needs.pci_requests
        ),
    )


def _destination(request: ServerRequest) -> Destination | None:
    if request.requested_host is None and request.requested_node is None:
        return None
    return Destination(host=request.requested_host, node=request.requested_node)


def instance_row(
    ctx: RequestContext, request: CreateServers, reservation_id: str, instance_uuid: str, number: int
) -> dict[str, Any]:
    """Several servers of one request are distinguished by a number after the name, as in Nova."""
    suffix = f"-{number + 1}" if request.max_count > 1 else ""
    return {
        "uuid": instance_uuid,
        "display_name": request.name + suffix,
        "hostname": request.hostname or hostname_of(request.name, instance_uuid, suffix),
        "description": request.description,
        "project_id": ctx.project_id,
        "user_id": ctx.user_id,
        "flavor": request.flavor,
        "image_ref": request.image.id,
        **kernel_boot.columns_of(request.image),
        "vm_state": VmState.BUILDING.value,
        "task_state": TaskState.SCHEDULING.value,
        "availability_zone": request.availability_zone,
        "launch_index": number,
        "reservation_id": reservation_id,
        "metadata": request.metadata,
        "user_data": request.user_data,
        "key_name": request.key_name,
        "access_ip_v4": request.access_ip_v4,
        "access_ip_v6": request.access_ip_v6,
        "config_drive": request.config_drive,
        "system_metadata": {
            **to_metadata(request.block_device_mapping, request.root_disk_tag),
            **disk_config.to_metadata(request.disk_config),
        },
    }


def hostname_of(name: str, instance_uuid: str, suffix: str = "") -> str:
    """Returns a name that is valid in DNS, of 63 characters at most; `Server-<uuid>` if no valid character is left, as
    in Nova.
    """
    label = re.sub(r"[^a-z0-9-]+", "-", name.lower().replace(".", "-")).strip("-")
    label = (label[: 63 - len(suffix)].rstrip("-") + suffix) if label else ""
    return label or f"Server-{instance_uuid}"
