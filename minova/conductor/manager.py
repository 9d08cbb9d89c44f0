"""The conductor: what it is asked (each method delegates to the file that knows), and its life as a service."""

import logging
import threading
from collections.abc import Sequence

import msgspec
from oslo_config import cfg

from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors import Flavors
from minova.conductor.catalogue.images import Images
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.hosts.audit_results import Audits
from minova.conductor.hosts.broker_probe import BrokerProbe
from minova.conductor.hosts.compute_nodes import Computes
from minova.conductor.hosts.services import FLUSH_INTERVAL, Services
from minova.conductor.placement_audit import PlacementAudit
from minova.conductor.purge import HISTORY_INTERVAL, PURGE_INTERVAL, TRIM_INTERVAL, Purge
from minova.conductor.quotas import Quotas
from minova.conductor.reconcile import Reconcile
from minova.conductor.servers.actions import ServerActions
from minova.conductor.servers.build_reports import BuildReports
from minova.conductor.servers.create import Servers
from minova.conductor.servers.dry_run import DryRuns
from minova.conductor.servers.migrations import Migrations
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.worker import Worker
from minova.context import RequestContext
from minova.db.clock import ADVANCE_INTERVAL
from minova.db.engine import Database
from minova.notifier import Notifier
from minova.objects.aggregate import Aggregate
from minova.objects.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.capacity import Capacity
from minova.objects.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.failures import Failure
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.instance_group import InstanceGroup
from minova.objects.migration import Migration, Moved
from minova.objects.node_audit import NodeAudit
from minova.objects.numa import InstanceNUMATopology
from minova.objects.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.service import Service, ServiceInstructions
from minova.rpc_access import own_host
from minova.service import PeriodicTask, until_available

LOG = logging.getLogger(__name__)
BINARY = "minova-conductor"
FORSAKEN_INTERVAL = 60.0


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """What the methods of a conductor delegate to. All of them write through one worker."""

    worker: Worker
    services: Services
    broker_probe: BrokerProbe
    compute_nodes: Computes
    audit_results: Audits
    servers: Servers
    dry_runs: DryRuns
    build_reports: BuildReports
    terminate: Terminate
    actions: ServerActions
    migrations: Migrations
    flavors: Flavors
    images: Images
    aggregates: Aggregates
    groups: Groups
    quotas: Quotas
    reconcile: Reconcile
    purge: Purge
    placement_audit: PlacementAudit


class ConductorManager:
    """Implements `contracts.conductor.ConductorApi` and `service.Manager`. `minova.cmd.conductor` makes it."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        db: Database,
        collaborators: Collaborators,
        *,
        host: str,
        stopping: threading.Event,
        notifier: Notifier | None = None,
    ) -> None:
        self.host = host
        self.worker = collaborators.worker
        self.collaborators = collaborators
        self._conf = conf
        self._db = db
        self._stopping = stopping
        self._notifier = notifier

    # -- the life of the service -----------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Become a worker that is known and alive. While the database is away, wait."""
        until_available("Registering as a worker", self._register, self._stopping)

    def pre_start_hook(self) -> None:
        """Nothing."""

    def post_start_hook(self) -> None:
        """Take over what this conductor's predecessor, or another one, has left."""
        until_available("Taking over tasks", self.collaborators.reconcile.take_over, self._stopping)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        work = self.collaborators.reconcile
        tasks = [
            PeriodicTask(name="advance_clock", interval=ADVANCE_INTERVAL, work=self._db.advance_clock),
            PeriodicTask(name="flush_heartbeats", interval=FLUSH_INTERVAL, work=self.collaborators.services.flush),
            PeriodicTask(name="flush_audits", interval=FLUSH_INTERVAL, work=self.collaborators.audit_results.flush),
            PeriodicTask(
                name="ping_broker",
                interval=self.collaborators.broker_probe.interval,
                work=self.collaborators.broker_probe.ping,
            ),
            PeriodicTask(name="renew_lease", interval=self.worker.renew_interval, work=self.worker.renew),
            PeriodicTask(name="take_over", interval=self.worker.renew_interval, work=work.take_over),
            PeriodicTask(
                name="process_due_tasks",
                interval=float(self._conf.conductor.task_interval),
                work=work.process_due_tasks,
            ),
            PeriodicTask(name="end_forsaken_moves", interval=FORSAKEN_INTERVAL, work=self._end_forsaken_moves),
            PeriodicTask(name="purge", interval=PURGE_INTERVAL, work=self.collaborators.purge.purge),
            PeriodicTask(name="purge_history", interval=HISTORY_INTERVAL, work=self.collaborators.purge.purge_history),
            PeriodicTask(
                name="trim_host_changes", interval=TRIM_INTERVAL, work=self.collaborators.purge.trim_host_changes
            ),
        ]
        recount_interval = float(self._conf.quota.recount_interval)
        if recount_interval:
            recount = self.collaborators.quotas.recount
            tasks.append(PeriodicTask(name="recount_quotas", interval=recount_interval, work=recount))
        placement_audit_interval = float(self._conf.conductor.placement_audit_interval)
        if placement_audit_interval:
            look = self.collaborators.placement_audit.look
            tasks.append(PeriodicTask(name="audit_placement", interval=placement_audit_interval, work=look))
        return tasks

    def broker_is_back(self) -> None:
        """The connection to the message broker was made anew. Returns at once."""
        self.collaborators.reconcile.broker_is_back()

    def stop(self) -> None:
        """Tasks that run may end; what is left goes to others at once."""
        self._stopping.set()
        self.worker.stop()
        if self._notifier is not None:
            self._notifier.stop()

    def _end_forsaken_moves(self) -> None:
        self.collaborators.migrations.end_forsaken(float(self._conf.conductor.build_timeout))

    def _register(self) -> None:
        self._db.advance_clock()
        self.worker.register()
        self.collaborators.services.flush()

    # -- asked by the API ------------------------------------------------------------------------------------------

    def create_servers(self, ctx: RequestContext, request: CreateServers) -> CreatedServers:
        self._db.require_room()
        return self.collaborators.servers.create_servers(ctx, request)

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        return self.collaborators.dry_runs.preview_servers(ctx, request)

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        return self.collaborators.dry_runs.capacity(ctx, request, limit)

    def delete_server(self, ctx: RequestContext, instance_uuid: str) -> None:
        self.collaborators.terminate.delete_server(ctx, instance_uuid)

    def start_action(self, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        self.collaborators.actions.start(ctx, instance_uuid, action)

    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        self._db.require_room()
        return self.collaborators.flavors.create(flavor)

    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None:
        self.collaborators.flavors.delete(flavorid)

    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        return self.collaborators.flavors.update_extra_specs(flavorid, extra_specs)

    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        return self.collaborators.aggregates.create(name, metadata)

    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        return self.collaborators.aggregates.update(aggregate_id, name, metadata)

    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        self.collaborators.aggregates.delete(aggregate_id)

    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self.collaborators.aggregates.add_host(aggregate_id, host)

    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self.collaborators.aggregates.remove_host(aggregate_id, host)

    def create_server_group(
        self, ctx: RequestContext, name: str, policy: str, max_server_per_host: int | None = None
    ) -> InstanceGroup:
        return self.collaborators.groups.create(ctx, name, policy, max_server_per_host)

    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        self.collaborators.groups.delete(group_uuid)

    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        self.collaborators.quotas.update(project_id, limits, force=force)

    def delete_quota_set(self, ctx: RequestContext, project_id: str) -> None:
        self.collaborators.quotas.delete(project_id)

    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        self.collaborators.quotas.update_class(class_name, limits)

    def create_image(self, ctx: RequestContext, image: Image) -> Image:
        self._db.require_room()
        return self.collaborators.images.create(image)

    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        return self.collaborators.images.update(image, expected_status)

    def delete_image(self, ctx: RequestContext, image_id: str) -> None:
        self.collaborators.images.delete(image_id)

    def update_service(
        self,
        ctx: RequestContext,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        return self.collaborators.services.update_service(service_uuid, disabled, disabled_reason, forced_down)

    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        self.collaborators.services.delete_service(service_uuid)

    # -- asked by every service ------------------------------------------------------------------------------------

    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        return self.collaborators.services.register_service(service)

    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        return self.collaborators.services.heartbeat(host, binary, down_reason, ctx.process)

    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        self.collaborators.services.service_stopped(host, binary, process)

    # -- asked by the computes: each message is a sign of life too -------------------------------------------------

    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        self.collaborators.services.heard(host, ctx.process)
        return self.collaborators.compute_nodes.instances_of_host(host)

    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        return self.collaborators.compute_nodes.hosts_of_instances(instance_uuids, own_host(ctx.sender))

    def begin_audit(self, ctx: RequestContext, host: str, view: HypervisorView) -> AuditInputs:
        self.collaborators.services.heard(host, ctx.process)
        return self.collaborators.compute_nodes.begin_audit(host, view, tell_hosts=own_host(ctx.sender) is None)

    def finish_audit(
        self,
        ctx: RequestContext,
        node: ComputeNode,
        inventories: tuple[Inventory, ...],
        traits: tuple[str, ...] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        self.collaborators.services.heard(node.host, ctx.process)
        row = self.collaborators.compute_nodes.finish_audit(node, inventories, traits)
        if found is not None:
            self.collaborators.audit_results.ended(row.id, found)
        return row

    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: tuple[str, ...]) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.compute_nodes.delete_compute_nodes(host, nodes)

    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        self.collaborators.services.heard(node.host, ctx.process)
        return self.collaborators.compute_nodes.save_compute_node(node)

    def claim_instance(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> Instance:
        self.collaborators.services.heard(node.host, ctx.process)
        return self.collaborators.build_reports.claim_instance(instance_uuid, attempt, node, numa_topology, step)

    def claim_instances(
        self, ctx: RequestContext, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        self.collaborators.services.heard(node.host, ctx.process)
        return self.collaborators.build_reports.claim_instances(claims, node)

    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        self.collaborators.services.heard(node.host, ctx.process)
        return self.collaborators.migrations.claim_move(migration, node)

    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> Moved:
        self.collaborators.services.heard(host, ctx.process)
        return self.collaborators.migrations.step_move(migration_uuid, status, host)

    def begin_attempt(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.build_reports.begin_attempt(instance_uuid, attempt, host, step)

    def build_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
    ) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.build_reports.build_succeeded(instance_uuid, attempt, host, power_state, node)

    def report_builds(
        self,
        ctx: RequestContext,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        self.collaborators.services.heard(host, ctx.process)
        return self.collaborators.build_reports.report_builds(reports, host, nodes)

    def build_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        reason: str,
        retriable: bool,
        kind: str = "",
    ) -> None:
        self.collaborators.services.heard(host, ctx.process)
        failure = Failure(kind=kind, details=reason)
        self.collaborators.build_reports.build_failed(ctx, instance_uuid, attempt, host, failure, retriable)

    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.terminate.instance_deleted(instance_uuid, host)

    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.terminate.delete_failed(instance_uuid, host, Failure(kind=kind, details=reason))

    def begin_action(self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.actions.begin_action(instance_uuid, action_id, host)

    def action_succeeded(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, power_state: int
    ) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.actions.action_succeeded(instance_uuid, action_id, host, power_state)

    def action_failed(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, reason: str, kind: str = ""
    ) -> None:
        self.collaborators.services.heard(host, ctx.process)
        failure = Failure(kind=kind, details=reason)
        self.collaborators.actions.action_failed(instance_uuid, action_id, host, failure)

    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        self.collaborators.services.heard(host, ctx.process)
        self.collaborators.compute_nodes.report_power_states(ctx, host, states)
