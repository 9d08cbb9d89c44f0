"""The conductor: what it is asked (each method delegates to the file that knows), and its life as a service."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from oslo_config import cfg

from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors_images import Catalogue
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import Casts
from minova.conductor.hosts.audit_results import Audits
from minova.conductor.hosts.broker_probe import Bus
from minova.conductor.hosts.compute_nodes import Computes
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.hosts.services import FLUSH_INTERVAL, Services
from minova.conductor.notifications.instances import Notifications
from minova.conductor.placement_audit import PlacementAudit
from minova.conductor.purge import HISTORY_INTERVAL, PURGE_INTERVAL, TRIM_INTERVAL, Purge
from minova.conductor.reconcile import Reconcile
from minova.conductor.servers.actions import ServerActions
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.build_reports import BuildReports
from minova.conductor.servers.create import Servers
from minova.conductor.servers.dry_run import Previews
from minova.conductor.servers.migrations import Migrations
from minova.conductor.servers.task_handlers import task_registry
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.worker import Spawn, Worker
from minova.context import RequestContext
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.clock import ADVANCE_INTERVAL
from minova.db.engine import Database
from minova.notifier import Notifier
from minova.objects.aggregate import Aggregate
from minova.objects.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.capacity import Capacity
from minova.objects.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.diagnosis import ScheduleAnswer
from minova.objects.flavor import Flavor
from minova.objects.image import Image
from minova.objects.instance import Instance
from minova.objects.instance_group import InstanceGroup
from minova.objects.migration import Migration, Moved
from minova.objects.node_audit import NodeAudit
from minova.objects.numa import InstanceNUMATopology
from minova.objects.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.service import SERVICE_VERSION, Service, ServiceInstructions
from minova.service import PeriodicTask, until_available

LOG = logging.getLogger(__name__)
BINARY = "minova-conductor"
FORSAKEN_INTERVAL = 60.0


class ConductorManager:
    """Implements `contracts.conductor.ConductorApi` and `service.Manager`.

    `compute` answers the client of a host. `spawn` runs work in the background; without it the manager has threads of
    its own. `clock`: this host's wall clock, for times that people read. `ticks`: its monotonic clock, for what is done now and
    then; None uses `clock` where that is given, for tests. Leases go by the cloud clock.
    `over_the_bus` is a client of its own topic, to try out whether messages come through. `notifier` None: nobody is told
    what happens to instances. `leases` is the database once more, for the lease alone; `dry_runs` a client with a short time-out.
    `levels`: which version of each contract every service serves.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        db: Database,
        scheduler: SchedulerApi,
        compute: Callable[[str], ComputeApi],
        *,
        host: str,
        clock: Callable[[], float] | None = None,
        ticks: Callable[[], float] | None = None,
        spawn: Spawn | None = None,
        stopping: threading.Event | None = None,
        over_the_bus: ConductorApi | None = None,
        notifier: Notifier | None = None,
        levels: Callable[[], dict[str, str]] = dict,
        leases: Database | None = None,
        dry_runs: SchedulerApi | None = None,
    ) -> None:
        self.host = host
        self._db = db
        ticks = ticks or clock or time.monotonic
        clock = clock or time.time
        self._build_timeout = float(conf.conductor.build_timeout)
        self._task_interval = float(conf.conductor.task_interval)
        self._stopping = stopping or threading.Event()
        options = conf.conductor
        self._notifier = notifier
        told = Notifications(conf, notifier, host=host, clock=clock).observe if notifier is not None else None
        self.worker = Worker(
            db,
            host=host,
            lease=float(options.worker_lease),
            threads=options.workers,
            leases=leases,
            clock=clock,
            ticks=ticks,
            spawn=spawn,
            observe=told,
            wait=self._stopping.wait,
        )
        casts = Casts(compute)
        down_time = float(conf.service_down_time)
        liveness = Liveness(db, down_time=down_time, clock=ticks)
        self._groups = Groups(conf, self.worker)
        self._builds = builds = BuildInstances(conf, self.worker, scheduler, casts, self._groups)
        named = str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:service:{BINARY}:{host}"))
        own = Service(uuid=named, host=host, binary=BINARY, topic=ConductorApi.TOPIC, version=SERVICE_VERSION)
        self._bus = Bus(over_the_bus, host=host, binary=BINARY, down_time=down_time, clock=ticks)
        self._services = Services(
            conf, self.worker, liveness, own=own, clock=ticks, bus_works=self._bus.works, levels=levels
        )
        self._servers = Servers(conf, self.worker, builds)
        self._previews = Previews(conf, dry_runs or scheduler, self._groups)
        self._reports = BuildReports(conf, self.worker, casts, liveness)
        self._terminate = Terminate(conf, self.worker, casts, liveness)
        self._computes = Computes(self.worker, levels)
        self._audits = Audits(self.worker)
        self.migrations = Migrations(self.worker)
        self._catalogue = Catalogue(self.worker)
        self._aggregates = Aggregates(self.worker)
        self._actions = ServerActions(conf, self.worker, casts, levels)
        self.registry = task_registry(
            conf,
            self.worker,
            casts,
            builds=builds,
            reports=self._reports,
            terminate=self._terminate,
            actions=self._actions,
        )
        self._reconcile = Reconcile(conf, self.worker, self.registry, casts, liveness)
        self._purge = Purge(conf, self.worker, self._stopping)
        self._placement_audit_interval = float(options.placement_audit_interval)
        self._placement_audit = PlacementAudit(self.worker)

    # -- the life of the service -----------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Become a worker that is known and alive. While the database is away, wait."""
        until_available("Registering as a worker", self._register, self._stopping)

    def pre_start_hook(self) -> None:
        """Nothing."""

    def post_start_hook(self) -> None:
        """Take over what this conductor's predecessor, or another one, has left."""
        until_available("Taking over tasks", self._reconcile.take_over, self._stopping)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        work = self._reconcile
        tasks = [
            PeriodicTask(name="advance_clock", interval=ADVANCE_INTERVAL, work=self._db.advance_clock),
            PeriodicTask(name="flush_heartbeats", interval=FLUSH_INTERVAL, work=self._services.flush),
            PeriodicTask(name="flush_audits", interval=FLUSH_INTERVAL, work=self._audits.flush),
            PeriodicTask(name="try_out_bus", interval=self._bus.interval, work=self._bus.try_out),
            PeriodicTask(name="renew_lease", interval=self.worker.renew_interval, work=self.worker.renew),
            PeriodicTask(name="take_over", interval=self.worker.renew_interval, work=work.take_over),
            PeriodicTask(name="process_due_tasks", interval=self._task_interval, work=work.process_due_tasks),
            PeriodicTask(name="end_forsaken_moves", interval=FORSAKEN_INTERVAL, work=self._end_forsaken_moves),
            PeriodicTask(name="purge", interval=PURGE_INTERVAL, work=self._purge.purge),
            PeriodicTask(name="purge_history", interval=HISTORY_INTERVAL, work=self._purge.purge_history),
            PeriodicTask(name="trim_host_changes", interval=TRIM_INTERVAL, work=self._purge.trim_host_changes),
        ]
        if self._placement_audit_interval:
            look = self._placement_audit.look
            tasks.append(PeriodicTask(name="audit_placement", interval=self._placement_audit_interval, work=look))
        return tasks

    def broker_is_back(self) -> None:
        """The connection to the message broker was made anew. Returns at once."""
        self._reconcile.broker_is_back()

    def stop(self) -> None:
        """Tasks that run may end; what is left goes to others at once."""
        self._stopping.set()
        self.worker.stop()
        if self._notifier is not None:
            self._notifier.stop()

    def _end_forsaken_moves(self) -> None:
        self.migrations.end_forsaken(self._build_timeout)

    def _register(self) -> None:
        self._db.advance_clock()
        self.worker.register()
        self._services.flush()

    # -- asked by the API ------------------------------------------------------------------------------------------

    def create_servers(self, ctx: RequestContext, request: CreateServers) -> CreatedServers:
        return self._servers.create_servers(ctx, request)

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        return self._previews.preview_servers(ctx, request)

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        return self._previews.capacity(ctx, request, limit)

    def delete_server(self, ctx: RequestContext, instance_uuid: str) -> None:
        self._terminate.delete_server(ctx, instance_uuid)

    def start_action(self, ctx: RequestContext, instance_uuid: str, action: str) -> None:
        self._actions.start(ctx, instance_uuid, action)

    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        return self._catalogue.create_flavor(flavor)

    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None:
        self._catalogue.delete_flavor(flavorid)

    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        return self._catalogue.update_extra_specs(flavorid, extra_specs)

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

    def create_image(self, ctx: RequestContext, image: Image) -> Image:
        return self._catalogue.create_image(image)

    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        return self._catalogue.update_image(image, expected_status)

    def delete_image(self, ctx: RequestContext, image_id: str) -> None:
        self._catalogue.delete_image(image_id)

    def update_service(
        self,
        ctx: RequestContext,
        service_uuid: str,
        disabled: bool | None = None,
        disabled_reason: str | None = None,
        forced_down: bool | None = None,
    ) -> Service:
        return self._services.update_service(service_uuid, disabled, disabled_reason, forced_down)

    def delete_service(self, ctx: RequestContext, service_uuid: str) -> None:
        self._services.delete_service(service_uuid)

    # -- asked by every service ------------------------------------------------------------------------------------

    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        return self._services.register_service(service)

    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        return self._services.heartbeat(host, binary, down_reason, ctx.process)

    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        self._services.service_stopped(host, binary, process)

    # -- asked by the computes: each message is a sign of life too -------------------------------------------------

    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        self._services.heard(host, ctx.process)
        return self._computes.instances_of_host(host)

    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        return self._computes.hosts_of_instances(instance_uuids)

    def begin_audit(self, ctx: RequestContext, host: str, view: HypervisorView) -> AuditInputs:
        self._services.heard(host, ctx.process)
        return self._computes.begin_audit(host, view)

    def finish_audit(
        self,
        ctx: RequestContext,
        node: ComputeNode,
        inventories: tuple[Inventory, ...],
        traits: tuple[str, ...] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        self._services.heard(node.host, ctx.process)
        row = self._computes.finish_audit(node, inventories, traits)
        if found is not None:
            self._audits.ended(row.id, found)
        return row

    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: tuple[str, ...]) -> None:
        self._services.heard(host, ctx.process)
        self._computes.delete_compute_nodes(host, nodes)

    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        self._services.heard(node.host, ctx.process)
        return self._computes.save_compute_node(node)

    def claim_instance(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        node: ComputeNode,
        numa_topology: InstanceNUMATopology | None = None,
        step: str | None = None,
    ) -> Instance:
        self._services.heard(node.host, ctx.process)
        return self._reports.claim_instance(instance_uuid, attempt, node, numa_topology, step)

    def claim_instances(
        self, ctx: RequestContext, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        self._services.heard(node.host, ctx.process)
        return self._reports.claim_instances(claims, node)

    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        self._services.heard(node.host, ctx.process)
        return self.migrations.claim_move(migration, node)

    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> Moved:
        self._services.heard(host, ctx.process)
        return self.migrations.step_move(migration_uuid, status, host)

    def begin_attempt(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        self._services.heard(host, ctx.process)
        self._reports.begin_attempt(instance_uuid, attempt, host, step)

    def build_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
    ) -> None:
        self._services.heard(host, ctx.process)
        self._reports.build_succeeded(instance_uuid, attempt, host, power_state, node)

    def report_builds(
        self,
        ctx: RequestContext,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        self._services.heard(host, ctx.process)
        return self._reports.report_builds(reports, host, nodes)

    def build_failed(
        self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, reason: str, retriable: bool
    ) -> None:
        self._services.heard(host, ctx.process)
        self._reports.build_failed(ctx, instance_uuid, attempt, host, reason, retriable)

    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        self._services.heard(host, ctx.process)
        self._terminate.instance_deleted(instance_uuid, host)

    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str) -> None:
        self._services.heard(host, ctx.process)
        self._terminate.delete_failed(instance_uuid, host, reason)

    def begin_action(self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str) -> None:
        self._services.heard(host, ctx.process)
        self._actions.begin_action(instance_uuid, action_id, host)

    def action_succeeded(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, power_state: int
    ) -> None:
        self._services.heard(host, ctx.process)
        self._actions.action_succeeded(instance_uuid, action_id, host, power_state)

    def action_failed(self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, reason: str) -> None:
        self._services.heard(host, ctx.process)
        self._actions.action_failed(instance_uuid, action_id, host, reason)

    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        self._services.heard(host, ctx.process)
        self._computes.report_power_states(ctx, host, states)
