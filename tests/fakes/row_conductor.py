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
from minova.conductor.catalogue.key_pairs import KeyPairs
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.service_removal import remove_service
from minova.conductor.network.attachments import Attachments
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.networks import Networks, Subnets
from minova.conductor.network.ports import Ports
from minova.conductor.network.security_groups import SecurityGroups
from minova.conductor.network.servers import Allocation, ServerPorts, new_ports
from minova.conductor.quotas import Quotas
from minova.conductor.servers.attributes import ServerAttributes
from minova.conductor.servers.create import counted
from minova.conductor.servers.guest_metadata import GuestMetadatas
from minova.conductor.tasks.worker import Worker
from minova.conductor.unexpected.images import ImageReports
from minova.context import RequestContext
from minova.db import models, quotas
from minova.db.engine import Database
from minova.db.models.clock import EpochNow
from minova.db.networks import ports
from minova.db.servers import actions as action_rows
from minova.db.servers import instances, request_specs, tags
from minova.objects.actions.action import ServerAction
from minova.objects.actions.interfaces import ATTACH_INTERFACE, DETACH_INTERFACE
from minova.objects.actions.table import BY_KIND
from minova.objects.catalogue import disk_config
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image, ImageMember, StoredImage
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.hosts.service import Service
from minova.objects.network.network import AddressRequest, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.network.vif import NewInterface
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import Diagnosis, ScheduleAnswer
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.failures import Failure
from minova.objects.servers.server_changes import ServerChanges


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _no_compute(host: str) -> Any:
    raise AssertionError("these tests send no messages to hosts")


def _abandon_nothing(session: Session, task: Any, task_state: Any, failure: Any) -> None:
    raise AssertionError("these tests have no actions in progress")


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
        self._key_pairs = KeyPairs(worker, self._quotas)
        self._networks, self._subnets = Networks(worker, self._quotas), Subnets(worker, self._quotas)
        hints = InterfaceNotifier(worker, ComputeClient(_no_compute))
        self._security_groups = SecurityGroups(worker, self._quotas, hints)
        self._ports = Ports(worker, self._quotas, self._security_groups, hints)
        self._server_ports = ServerPorts(self._ports, self._security_groups, hints)
        self._attachments = Attachments(self._ports, self._security_groups, hints, self._quotas, worker.at)
        self._flavors, self._images = Flavors(worker), Images(worker, self._quotas)
        self._image_reports = ImageReports(worker)
        self._attributes = ServerAttributes(
            worker, self._quotas, _abandon_nothing, conf.scheduler.default_availability_zone
        )
        self._guest_metadata = GuestMetadatas(worker)
        self.requests: list[CreateServers] = []
        self.key_pairs: list[KeyPair | None] = []
        self.deleted: list[str] = []
        self.forced: list[str] = []
        self.actions: list[tuple[str, str, dict[str, Any]]] = []
        self.network_changes: list[tuple[str, str]] = []
        self.expected_ports: list[tuple[str, str]] = []
        self.previewed: list[ServerRequest] = []
        # Of what a host does at once: the kind of its failure.
        self.host_failure: str | None = None
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

    def create_servers(
        self,
        ctx: RequestContext,
        request: CreateServers,
        key_pair: KeyPair | None = None,
        with_drive: bool = False,
    ) -> CreatedServers:
        self.requests.append(request)
        self.key_pairs.append(key_pair)

        def work(session: Session) -> CreatedServers:
            self._quotas.take(session, ctx.project_id, counted(request, request.max_count))
            created = _create(session, ctx, request)
            allocations = [Allocation(ctx, request, created.instance_uuids)]
            self._server_ports.allocate(session, allocations, self._server_ports.lock(session, allocations))
            return created

        if new_ports(request):
            self._security_groups.ensure_default([ctx.project_id])
        self._db.run(lambda session: quotas.count_first(session, ctx.project_id))
        created: CreatedServers = self._do("create_servers", work)
        return created

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        self.previewed.append(request)
        return self.preview

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        self.previewed.append(request)
        return msgspec.structs.replace(self.room, limit=limit)

    def delete_server(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        self.deleted.append(instance_uuid)
        self.forced += [instance_uuid] if force else []

        def work(session: Session) -> None:
            gone: Any = {"vm_state": "deleted", "task_state": None, "deleted_at": now()}
            session.query(models.Instance).filter_by(uuid=instance_uuid).update(gone)
            gone_ports = sum(ports.release(session, instance_uuid).values())
            quotas.give_server(session, instance_uuid, {"ports": gone_ports})

        self._do("delete_server", work)

    def start_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        self.actions.append((instance_uuid, action, arguments or {}))
        progress = BY_KIND[action].progress

        def work(session: Session) -> None:
            if progress:
                row = session.query(models.Instance).filter_by(uuid=instance_uuid)
                row.update({"task_state": progress[0].value})
            if BY_KIND[action] in (ATTACH_INTERFACE, DETACH_INTERFACE):
                self._change_interface(session, ctx, instance_uuid, BY_KIND[action], arguments or {})
            elif BY_KIND[action].secret:
                self._end_action(session, ctx, instance_uuid, BY_KIND[action])

        if action == ATTACH_INTERFACE.kind:
            self._security_groups.ensure_default([ctx.project_id])
            self._db.run(lambda session: quotas.count_first(session, ctx.project_id))
        self._do("start_action", work)

    def _change_interface(
        self, session: Session, ctx: RequestContext, instance_uuid: str, action: ServerAction, arguments: dict[str, Any]
    ) -> None:
        """As its host would have it, at once; with a `host_failure` not at all."""
        if action is ATTACH_INTERFACE:
            instance = instances.lock(session, [instance_uuid])[instance_uuid]
            port_id = self._attachments.attach(session, instance, msgspec.convert(arguments["interface"], NewInterface))
        else:
            port_id = arguments["port_id"]
            self._attachments.require(session, instance_uuid, port_id)
        if (action is DETACH_INTERFACE) == (self.host_failure is None):
            self._attachments.release(session, instance_uuid, port_id)
        self._end_action(session, ctx, instance_uuid, action)

    def _end_action(self, session: Session, ctx: RequestContext, instance_uuid: str, action: ServerAction) -> None:
        """As its host would have it, at once."""
        row: dict[str, Any] = {"instance_uuid": instance_uuid, "action": action.name, "request_id": ctx.request_id}
        row |= {"user_id": ctx.user_id, "project_id": ctx.project_id, "start_time": now()}
        action_id = action_rows.begin(session, [row])[instance_uuid]
        action_rows.begin_events(
            session, [{"action_id": action_id, "host": "h", "start_time": now()}], event=action.event
        )
        kind = self.host_failure
        failure = Failure(kind=kind, details="of the host", text="why") if kind is not None else None
        action_rows.end(session, [action_id], now(), error=failure)

    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        return f"token-of-{console_type}"

    def update_server(
        self, ctx: RequestContext, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        self.before("update_server")
        self._attributes.update(ctx, instance_uuid, changes, override_lock=override_lock)
        self.after("update_server")

    def reset_server_state(self, ctx: RequestContext, instance_uuid: str, vm_state: str) -> None:
        self._attributes.reset_state(ctx, instance_uuid, vm_state)

    def clear_server_password(self, ctx: RequestContext, instance_uuid: str) -> None:
        self._guest_metadata.clear_password(instance_uuid)

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
        self._flavors.delete(flavorid)

    def update_flavor(self, ctx: RequestContext, flavorid: str, description: str | None) -> Flavor:
        return self._flavors.update(flavorid, description)

    def add_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        return self._flavors.add_access(flavorid, project_id)

    def remove_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        return self._flavors.remove_access(flavorid, project_id)

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

    def create_key_pair(self, ctx: RequestContext, key_pair: KeyPair) -> KeyPair:
        self.before("create_key_pair")
        made = self._key_pairs.create(ctx, key_pair)
        self.after("create_key_pair")
        return made

    def delete_key_pair(self, ctx: RequestContext, user_id: str, name: str) -> None:
        self.before("delete_key_pair")
        self._key_pairs.delete(user_id, name)
        self.after("delete_key_pair")

    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        self._quotas.update(project_id, limits, force=force)

    def delete_quota_set(self, ctx: RequestContext, project_id: str, resources: tuple[str, ...]) -> None:
        self._quotas.delete(project_id, resources)

    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        self._quotas.update_class(class_name, limits)

    def create_network(self, ctx: RequestContext, network: Network) -> Network:
        return self._networks.create(network)

    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        self.before("update_network")
        return self._networks.update(network)

    def delete_network(self, ctx: RequestContext, network_id: str) -> None:
        self._networks.delete(network_id)

    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        return self._subnets.create(subnet, any_range=any_range)

    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        return self._subnets.update(subnet)

    def delete_subnet(self, ctx: RequestContext, subnet_id: str) -> None:
        self._subnets.delete(subnet_id)

    def create_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        return self._ports.create(ctx, port, fixed_ips)

    def update_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        return self._ports.update(port, fixed_ips)

    def delete_port(self, ctx: RequestContext, port_id: str) -> None:
        self._ports.delete(port_id)

    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        self.before("expect_port")
        self.expected_ports.append((instance_uuid, network_id))

    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        self.before("network_changed")
        self.network_changes.append((instance_uuid, host))

    def ensure_default_security_group(self, ctx: RequestContext, project_id: str) -> None:
        self._security_groups.ensure_default([project_id])

    def create_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        return self._security_groups.create(group)

    def update_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        return self._security_groups.update(group)

    def delete_security_group(self, ctx: RequestContext, group_id: str) -> None:
        self._security_groups.delete(group_id)

    def create_security_group_rule(self, ctx: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        return self._security_groups.create_rule(rule)

    def delete_security_group_rule(self, ctx: RequestContext, rule_id: str) -> None:
        self._security_groups.delete_rule(rule_id)

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

    def change_image(self, ctx: RequestContext, expected: Image, image: Image) -> Image:
        self.before("change_image")
        made = self._images.change(expected, image)
        self.after("change_image")
        return made

    def add_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> ImageMember:
        self.before("add_image_member")
        made = self._images.add_member(image_id, member_id)
        self.after("add_image_member")
        return made

    def update_image_member(self, ctx: RequestContext, image_id: str, member_id: str, status: str) -> ImageMember:
        return self._images.update_member(image_id, member_id, status)

    def remove_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> None:
        self.before("remove_image_member")
        self._images.remove_member(image_id, member_id)
        self.after("remove_image_member")

    def report_images(self, ctx: RequestContext, store: str, images: tuple[StoredImage, ...]) -> tuple[str, ...]:
        return self._image_reports.report(store, images)

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
    tags.add(session, uuids, request.tags)
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
    return CreatedServers(reservation_id=reservation_id, instance_uuids=uuids, admin_password=request.admin_password)


def _instance(
    ctx: RequestContext, request: CreateServers, one: str, name: str, index: int, reservation_id: str
) -> models.Instance:
    return models.Instance(
        uuid=one,
        display_name=name,
        hostname=request.hostname or name,
        description=request.description,
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
        user_data=request.user_data,
        key_name=request.key_name,
        access_ip_v4=request.access_ip_v4,
        access_ip_v6=request.access_ip_v6,
        config_drive=request.config_drive,
        system_metadata=disk_config.to_metadata(request.disk_config),
        created_at=now(),
    )
