"""A conductor that writes rows as the real one does, and builds nothing: for tests of the API over a real database."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from minova import conf as configuration
from minova import errors
from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors import Flavors
from minova.conductor.catalogue.images import Images
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.hosts.service_removal import remove_service
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.db import models, quotas
from minova.db.engine import Database
from minova.db.models.clock import EpochNow
from minova.db.servers import request_specs
from minova.objects.aggregate import Aggregate
from minova.objects.capacity import Capacity
from minova.objects.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance_group import InstanceGroup
from minova.objects.server_actions import BY_NAME
from minova.objects.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.service import Service


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class RowConductor:
    """`requests` are the creates that came; `before` is told each method first, and what it raises is raised; `after`,
    once the work is done, so that answers get lost. `preview` and `room` are what is answered to `previewed`.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        worker = Worker(db, host="c", lease=60.0, threads=1, spawn=lambda work: None)
        conf = configuration.new()
        self._quotas = Quotas(conf, worker)
        self._aggregates, self._groups = Aggregates(worker), Groups(conf, worker, self._quotas)
        self._flavors, self._images = Flavors(worker), Images(worker, self._quotas)
        self.requests: list[CreateServers] = []
        self.deleted: list[str] = []
        self.actions: list[tuple[str, str]] = []
        self.previewed: list[ServerRequest] = []
        self.preview = ScheduleAnswer(diagnosis=Diagnosis(request_id="req-1", instance_uuids=(), hosts=0))
        self.room = Capacity(total=0, limit=0)
        self.before: Callable[[str], None] = lambda method: None
        self.after: Callable[[str], None] = lambda method: None

    def _do(self, method: str, work: Callable[[Session], Any]) -> Any:
        self.before(method)
        answer = self._db.run(work)
        self.after(method)
        return answer

    # -- what tests do -----------------------------------------------------------------------------------------------

    def edit(self, instance_uuid: str, **columns: Any) -> None:
        """As a compute's reports change a row."""
        self._db.run(
            lambda session: session.query(models.Instance).filter_by(uuid=instance_uuid).update(columns)  # type: ignore[arg-type]
        )

    def add(self, *rows: Any) -> None:
        self._db.run(lambda session: session.add_all(rows))

    def add_diagnosis(self, uuids: Sequence[str], diagnosis: Diagnosis, at: datetime) -> None:
        self._db.run(lambda session: request_specs.add_diagnoses(session, [(diagnosis, uuids)], at))

    # -- the contract ------------------------------------------------------------------------------------------------

    def create_servers(self, ctx: RequestContext, request: CreateServers) -> CreatedServers:
        self.requests.append(request)

        def work(session: Session) -> CreatedServers:
            self._quotas.take(session, ctx.project_id, quotas.of_servers(request.flavor, request.max_count))
            return _create(session, ctx, request)

        self._db.run(lambda session: quotas.count_first(session, ctx.project_id))
        created: CreatedServers = self._do("create_servers", work)
        return created

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        self.previewed.append(request)
        return self.preview

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        self.previewed.append(request)
        return msgspec.structs.replace(self.room, limit=limit)

    def delete_server(self, ctx: RequestContext, instance_uuid: str) -> None:
        self.deleted.append(instance_uuid)

        def work(session: Session) -> None:
            gone: Any = {"vm_state": "deleted", "task_state": None, "deleted_at": now()}
            session.query(models.Instance).filter_by(uuid=instance_uuid).update(gone)
            quotas.give_server(session, instance_uuid)

        self._do("delete_server", work)

    def start_action(self, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        self.actions.append((instance_uuid, action))
        begun = BY_NAME[action].task_state.value
        self._do(
            "start_action",
            lambda session: session.query(models.Instance).filter_by(uuid=instance_uuid).update({"task_state": begun}),
        )

    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        def work(session: Session) -> Flavor:
            taken = session.query(models.Flavor).filter(
                (models.Flavor.name == flavor.name) | (models.Flavor.flavorid == flavor.flavorid)
            )
            if taken.count():
                raise errors.Conflict(f"Flavor {flavor.name} exists")
            session.add(models.Flavor(flavorid=flavor.flavorid, name=flavor.name, value=flavor, created_at=now()))
            return flavor

        made: Flavor = self._do("create_flavor", work)
        return made

    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None:
        self._do("delete_flavor", lambda session: session.query(models.Flavor).filter_by(flavorid=flavorid).delete())

    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        return self._flavors.update_extra_specs(flavorid, extra_specs)

    # The real conductor's own work: its rules are what the API's answers are about.

    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        return self._aggregates.create(name, metadata)

    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        return self._aggregates.update(aggregate_id, name, metadata)

    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        self._aggregates.delete(aggregate_id)

    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self._aggregates.add_host(aggregate_id, host)

    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self._aggregates.remove_host(aggregate_id, host)

    def create_server_group(
        self, ctx: RequestContext, name: str, policy: str, max_server_per_host: int | None = None
    ) -> InstanceGroup:
        return self._groups.create(ctx, name, policy, max_server_per_host)

    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        self._groups.delete(group_uuid)

    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        self._quotas.update(project_id, limits, force=force)

    def delete_quota_set(self, ctx: RequestContext, project_id: str) -> None:
        self._quotas.delete(project_id)

    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        self._quotas.update_class(class_name, limits)

    def create_image(self, ctx: RequestContext, image: Image) -> Image:
        self.before("create_image")
        made = self._images.create(image)
        self.after("create_image")
        return made

    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        def work(session: Session) -> Image:
            row = session.get(models.Image, image.id)
            if row is None:
                raise errors.NotFound(f"Image {image.id}")
            if row.status != expected_status:
                raise errors.Conflict(f"Image {image.id} is {row.status}")
            if image.status == "active":
                self._quotas.take(session, image.owner or "", quotas.of_image(image) | {"image_count_total": 0})
            row.status, row.name, row.value, row.updated_at = image.status, image.name, image, now()
            return image

        return self._do("update_image", work)  # type: ignore[no-any-return]

    def delete_image(self, ctx: RequestContext, image_id: str) -> None:
        self.before("delete_image")
        self._images.delete(image_id)
        self.after("delete_image")

    def update_service(
        self,
        ctx: RequestContext,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        def work(session: Session) -> Service:
            row = session.query(models.Service).filter_by(uuid=service_uuid).one()
            if disabled is not None:
                row.disabled, row.disabled_reason = disabled, disabled_reason
            if forced_down is not None:
                row.forced_down = forced_down
            return Service(uuid=row.uuid, host=row.host, binary=row.binary, topic=row.topic)

        return self._do("update_service", work)  # type: ignore[no-any-return]

    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        self._do("delete_service", lambda session: remove_service(session, service_uuid, EpochNow()))


def _create(session: Session, ctx: RequestContext, request: CreateServers) -> CreatedServers:
    reservation_id = f"r-{uuid.uuid4().hex[:8]}"
    uuids = tuple(str(uuid.uuid4()) for _ in range(request.max_count))
    for index, one in enumerate(uuids):
        name = request.name if len(uuids) == 1 else f"{request.name}-{index + 1}"
        session.add(_instance(ctx, request, one, name, index, reservation_id))
        session.flush()
    if request.request_uuid:
        session.add(
            models.CreateRequest(
                request_uuid=request.request_uuid,
                project_id=ctx.project_id,
                body_hash=request.body_hash,
                reservation_id=reservation_id,
                instance_uuids=list(uuids),
                created_at=now(),
            )
        )
    return CreatedServers(reservation_id=reservation_id, instance_uuids=uuids)


def _instance(
    ctx: RequestContext, request: CreateServers, one: str, name: str, index: int, reservation_id: str
) -> models.Instance:
    return models.Instance(
        uuid=one,
        display_name=name,
        hostname=name,
        project_id=ctx.project_id,
        user_id=ctx.user_id,
        flavor=request.flavor,
        image_ref=request.image.id,
        vm_state="building",
        task_state="scheduling",
        availability_zone=request.availability_zone,
        launch_index=index,
        reservation_id=reservation_id,
        metadata_=dict(request.metadata),
        created_at=now(),
    )
