"""The conductor: its RPC methods, each of which delegates to the responsible module, and its life as a service."""

import functools
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from oslo_config import cfg

from minova import errors
from minova.conductor.actions.engine.reports import ActionReports
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.actions.kinds.deletion import RECLAIM_INTERVAL, Deletions
from minova.conductor.actions.kinds.interfaces import ServerInterfaces
from minova.conductor.actions.kinds.shelving import OFFLOAD_INTERVAL, Shelving
from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors import Flavors
from minova.conductor.catalogue.images import Images
from minova.conductor.catalogue.key_pairs import KeyPairs
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.audit_results import Audits
from minova.conductor.hosts.broker_probe import BrokerProbe
from minova.conductor.hosts.compute_nodes import Computes
from minova.conductor.hosts.services import FLUSH_INTERVAL, Services
from minova.conductor.hosts.witnesses import END_INTERVAL, Witnesses
from minova.conductor.network import attachments
from minova.conductor.network.networks import Networks, Subnets
from minova.conductor.network.ports import Ports
from minova.conductor.network.security_groups import SecurityGroups
from minova.conductor.placement_audit import PlacementAudit
from minova.conductor.purge import HISTORY_INTERVAL, PURGE_INTERVAL, TRIM_INTERVAL, Purge
from minova.conductor.quotas import Quotas
from minova.conductor.reconcile import Reconcile
from minova.conductor.servers.attributes import ServerAttributes
from minova.conductor.servers.build_reports import BuildReports
from minova.conductor.servers.create import Servers
from minova.conductor.servers.dry_run import DryRuns
from minova.conductor.servers.guest_metadata import GuestMetadatas
from minova.conductor.servers.migrations import Migrations
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.worker import Worker
from minova.conductor.tokens.console_tokens import Consoles
from minova.conductor.tokens.image_tokens import REFRESH_INTERVAL, ImageTokens
from minova.conductor.unexpected.guest_reports import GuestReports
from minova.conductor.unexpected.images import ImageReports
from minova.context import RequestContext
from minova.db.clock import ADVANCE_INTERVAL
from minova.db.engine import Database
from minova.messaging.notifier import Notifier
from minova.messaging.rpc_access import own_host
from minova.objects.catalogue.aggregate import Aggregate
from minova.objects.catalogue.flavor import Flavor
from minova.objects.catalogue.image import Image, ImageMember, StoredImage
from minova.objects.catalogue.instance_group import InstanceGroup
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.hosts.cloud import CloudState, Seen
from minova.objects.hosts.compute_node import ComputeNode, HypervisorView, Inventory
from minova.objects.hosts.node_audit import NodeAudit
from minova.objects.hosts.numa import InstanceNUMATopology
from minova.objects.hosts.service import Service, ServiceInstructions
from minova.objects.network.network import AddressRequest, Network, Port, SecurityGroup, SecurityGroupRule, Subnet
from minova.objects.network.vif import Vif
from minova.objects.requests.capacity import Capacity
from minova.objects.requests.diagnosis import ScheduleAnswer
from minova.objects.requests.server_request import CreatedServers, CreateServers, ServerRequest
from minova.objects.servers.build import AuditInputs, BuildReport, HostInstances, InstanceClaim, ReportAnswer
from minova.objects.servers.console import ConsoleGrant
from minova.objects.servers.failures import Failure
from minova.objects.servers.guest_metadata import GuestMetadata
from minova.objects.servers.instance import Instance
from minova.objects.servers.migration import Migration, Moved
from minova.objects.servers.server_changes import ServerChanges
from minova.objects.unexpected.guest_record import GuestMark, GuestRecord, GuestsAnswer
from minova.service import PeriodicTask, until_available

if TYPE_CHECKING:
    from minova.conductor.network.neutron import NeutronPorts

LOG = logging.getLogger(__name__)
BINARY = "minova-conductor"
ORPHANS_INTERVAL = 60.0
# Seconds between two rounds that remove in Neutron the interfaces that servers no longer have.
CLEAN_INTERVAL = 2.0
M = TypeVar("M", bound=Callable[..., Any])


def needs_room(method: M) -> M:
    """Decorates a method that writes something new for users. Raises DiskFull to keep the remaining space for deletions
    and heartbeats.
    """

    @functools.wraps(method)
    def guarded(self: "ConductorManager", *arguments: Any, **options: Any) -> Any:
        self.require_room()
        return method(self, *arguments, **options)

    return guarded  # type: ignore[return-value]


class Collaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The objects to which a conductor's methods delegate. All of them write through one worker."""

    worker: Worker
    services: Services
    broker_probe: BrokerProbe
    compute_nodes: Computes
    witnesses: Witnesses
    audit_results: Audits
    guest_reports: GuestReports
    image_reports: ImageReports
    servers: Servers
    dry_runs: DryRuns
    build_reports: BuildReports
    terminate: Terminate
    deletions: Deletions
    shelving: Shelving
    actions: ServerActions
    action_reports: ActionReports
    interfaces: ServerInterfaces
    consoles: Consoles
    guest_metadata: GuestMetadatas
    attributes: ServerAttributes
    migrations: Migrations
    flavors: Flavors
    images: Images
    aggregates: Aggregates
    groups: Groups
    key_pairs: KeyPairs
    quotas: Quotas
    networks: Networks
    security_groups: SecurityGroups
    subnets: Subnets
    ports: Ports
    neutron: "NeutronPorts | None"
    hosts: ComputeClient
    reconcile: Reconcile
    purge: Purge
    placement_audit: PlacementAudit
    image_tokens: ImageTokens


class ConductorManager:
    """Implements `contracts.conductor.ConductorApi` and `service.Manager`. `minova.cmd.conductor` constructs it."""

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
        self.safe_mode = self.worker.safe_mode
        self.collaborators = collaborators
        self._conf = conf
        self._db = db
        self._stopping = stopping
        self._notifier = notifier

    # -- the life of the service -----------------------------------------------------------------------------------

    def init_host(self) -> None:
        """Register this conductor as a live worker. Waits while the database is away."""
        until_available("Registering as a worker", self._register, self._stopping)

    def pre_start_hook(self) -> None:
        """Does nothing."""

    def post_start_hook(self) -> None:
        """Take over the tasks that this conductor's predecessor, or another conductor, has left. In safe mode they stay
        as they are.
        """
        work = self.collaborators.reconcile.take_over
        until_available("Taking over tasks", lambda: self.safe_mode.reason or work(), self._stopping)

    def periodic_tasks(self) -> Sequence[PeriodicTask]:
        work = self.collaborators.reconcile
        tasks = [
            PeriodicTask(name="advance_clock", interval=ADVANCE_INTERVAL, work=self._advance_clock, in_safe_mode=True),
            PeriodicTask(
                name="flush_heartbeats",
                interval=FLUSH_INTERVAL,
                work=self.collaborators.services.flush,
                in_safe_mode=True,
            ),
            PeriodicTask(name="flush_audits", interval=FLUSH_INTERVAL, work=self.collaborators.audit_results.flush),
            PeriodicTask(
                name="ping_broker",
                interval=self.collaborators.broker_probe.interval,
                work=self.collaborators.broker_probe.ping,
                in_safe_mode=True,
            ),
            PeriodicTask(
                name="renew_lease",
                interval=self.worker.renew_interval,
                work=self.worker.renew,
                in_safe_mode=True,
            ),
            PeriodicTask(
                name="end_safe_mode",
                interval=END_INTERVAL,
                work=self.collaborators.witnesses.end_safe_mode,
                in_safe_mode=True,
            ),
            PeriodicTask(name="take_over", interval=self.worker.renew_interval, work=work.take_over),
            PeriodicTask(
                name="process_due_tasks",
                interval=float(self._conf.conductor.task_interval),
                work=work.process_due_tasks,
            ),
            PeriodicTask(name="end_stale_migrations", interval=ORPHANS_INTERVAL, work=self._end_stale_migrations),
            PeriodicTask(
                name="refresh_token_keys", interval=REFRESH_INTERVAL, work=self.collaborators.image_tokens.refresh
            ),
            PeriodicTask(name="forget_secrets", interval=TRIM_INTERVAL, work=self.collaborators.purge.forget_secrets),
            PeriodicTask(name="reclaim", interval=RECLAIM_INTERVAL, work=self.collaborators.deletions.reclaim),
            *self._offloads(),
            PeriodicTask(name="purge", interval=PURGE_INTERVAL, work=self.collaborators.purge.purge),
            PeriodicTask(name="purge_history", interval=HISTORY_INTERVAL, work=self.collaborators.purge.purge_history),
            PeriodicTask(
                name="trim_host_changes", interval=TRIM_INTERVAL, work=self.collaborators.purge.trim_host_changes
            ),
        ]
        tasks += self._of_neutron()
        recount_interval = float(self._conf.quota.recount_interval)
        if recount_interval:
            recount = self.collaborators.quotas.recount
            tasks.append(PeriodicTask(name="recount_quotas", interval=recount_interval, work=recount))
        placement_audit_interval = float(self._conf.conductor.placement_audit_interval)
        if placement_audit_interval:
            look = self.collaborators.placement_audit.run
            tasks.append(PeriodicTask(name="audit_placement", interval=placement_audit_interval, work=look))
        return tasks

    def _of_neutron(self) -> list[PeriodicTask]:
        neutron = self.collaborators.neutron
        if neutron is None:
            look = functools.partial(attachments.warn_of_foreign_ports, self.collaborators.worker)
            return [PeriodicTask(name="warn_of_neutron_ports", interval=ORPHANS_INTERVAL, work=look)]
        tasks = [
            PeriodicTask(name="clean_neutron_ports", interval=CLEAN_INTERVAL, work=neutron.clean),
            PeriodicTask(
                name="release_orphaned_neutron_ports", interval=ORPHANS_INTERVAL, work=neutron.release_orphans
            ),
        ]
        heal_interval = float(self._conf.heal_instance_info_cache_interval)
        if heal_interval > 0:
            tasks.append(PeriodicTask(name="heal_interfaces", interval=heal_interval, work=neutron.heal))
        return tasks

    def broker_is_back(self) -> None:
        """The connection to the message broker was made again. Returns at once."""
        self.collaborators.reconcile.broker_is_back()

    def stop(self) -> None:
        """Let running tasks finish; the rest goes to other conductors at once."""
        self._stopping.set()
        self.worker.stop()
        if self._notifier is not None:
            self._notifier.stop()

    def _end_stale_migrations(self) -> None:
        self.collaborators.migrations.end_stale(float(self._conf.conductor.build_timeout))

    def _advance_clock(self) -> None:
        if not self.worker.history.is_foreign:
            self._db.advance_clock()

    def _register(self) -> None:
        self._advance_clock()
        self.worker.register()
        self.collaborators.services.flush()
        try:
            self.collaborators.image_tokens.refresh()
        except errors.MinovaError as error:  # until it succeeds, build messages have no tokens, and hosts request them
            LOG.warning("No tokens of images can be signed yet: %s", error)

    def require_room(self) -> None:
        self._db.require_room()

    # -- calls of the API ------------------------------------------------------------------------------------------

    @needs_room
    def create_servers(
        self,
        ctx: RequestContext,
        request: CreateServers,
        key_pair: KeyPair | None = None,
        with_drive: bool = False,
    ) -> CreatedServers:
        return self.collaborators.servers.create_servers(ctx, request, key_pair)

    def preview_servers(self, ctx: RequestContext, request: ServerRequest) -> ScheduleAnswer:
        return self.collaborators.dry_runs.preview_servers(ctx, request)

    def capacity(self, ctx: RequestContext, request: ServerRequest, limit: int) -> Capacity:
        return self.collaborators.dry_runs.capacity(ctx, request, limit)

    def delete_server(
        self, ctx: RequestContext, instance_uuid: str, override_lock: bool = False, force: bool = False
    ) -> None:
        self.collaborators.deletions.delete_server(ctx, instance_uuid, override_lock=override_lock, force=force)

    def _offloads(self) -> list[PeriodicTask]:
        """Returns the periodic tasks for offloads. As in Nova, 0 means the interval of most tasks, and a negative value
        disables it.
        """
        interval = int(self._conf.shelved_poll_interval)
        work = self.collaborators.shelving.offload_due
        return [PeriodicTask(name="offload_shelved", interval=interval or OFFLOAD_INTERVAL, work=work)][: interval >= 0]

    def start_action(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action: str,
        arguments: dict[str, Any] | None = None,
        override_lock: bool = False,
    ) -> None:
        self.collaborators.actions.start(ctx, instance_uuid, action, arguments or {}, override_lock=override_lock)

    def network_changed(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        if self.collaborators.neutron is not None:
            try:
                self.collaborators.neutron.refresh(instance_uuid)
            except errors.MinovaError as error:  # a later round sees it; the host may be waiting for this event
                LOG.info("The interfaces of instance %s are read later: %s", instance_uuid, error)
        self.collaborators.hosts.network_changed(ctx, host, instance_uuid)

    @needs_room
    def expect_port(self, ctx: RequestContext, instance_uuid: str, network_id: str) -> None:
        attachments.expect_port(self.collaborators.worker, instance_uuid, network_id)

    @needs_room
    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        return self.collaborators.consoles.create_token(ctx, instance_uuid, console_type)

    @needs_room
    def update_server(
        self, ctx: RequestContext, instance_uuid: str, changes: ServerChanges, override_lock: bool = False
    ) -> None:
        self.collaborators.attributes.update(ctx, instance_uuid, changes, override_lock=override_lock)

    def reset_server_state(self, ctx: RequestContext, instance_uuid: str, vm_state: str) -> None:
        self.collaborators.attributes.reset_state(ctx, instance_uuid, vm_state)

    def clear_server_password(self, ctx: RequestContext, instance_uuid: str) -> None:
        self.collaborators.guest_metadata.clear_password(instance_uuid)

    @needs_room
    def create_flavor(self, ctx: RequestContext, flavor: Flavor) -> Flavor:
        return self.collaborators.flavors.create(flavor)

    @needs_room
    def update_flavor(self, ctx: RequestContext, flavorid: str, description: str | None) -> Flavor:
        return self.collaborators.flavors.update(flavorid, description)

    def delete_flavor(self, ctx: RequestContext, flavorid: str) -> None:
        self.collaborators.flavors.delete(flavorid)

    @needs_room
    def add_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        return self.collaborators.flavors.add_access(flavorid, project_id)

    def remove_flavor_access(self, ctx: RequestContext, flavorid: str, project_id: str) -> tuple[str, ...]:
        return self.collaborators.flavors.remove_access(flavorid, project_id)

    @needs_room
    def update_flavor_extra_specs(
        self, ctx: RequestContext, flavorid: str, extra_specs: dict[str, str | None]
    ) -> Flavor:
        return self.collaborators.flavors.update_extra_specs(flavorid, extra_specs)

    @needs_room
    def create_aggregate(self, ctx: RequestContext, name: str, metadata: dict[str, str]) -> Aggregate:
        return self.collaborators.aggregates.create(name, metadata)

    @needs_room
    def update_aggregate(
        self, ctx: RequestContext, aggregate_id: int, name: str | None, metadata: dict[str, str | None]
    ) -> Aggregate:
        return self.collaborators.aggregates.update(aggregate_id, name, metadata)

    def delete_aggregate(self, ctx: RequestContext, aggregate_id: int) -> None:
        self.collaborators.aggregates.delete(aggregate_id)

    @needs_room
    def add_host_to_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self.collaborators.aggregates.add_host(aggregate_id, host)

    def remove_host_from_aggregate(self, ctx: RequestContext, aggregate_id: int, host: str) -> Aggregate:
        return self.collaborators.aggregates.remove_host(aggregate_id, host)

    @needs_room
    def create_server_group(
        self, ctx: RequestContext, name: str, policy: str, max_server_per_host: int | None = None
    ) -> InstanceGroup:
        return self.collaborators.groups.create(ctx, name, policy, max_server_per_host)

    def delete_server_group(self, ctx: RequestContext, group_uuid: str) -> None:
        self.collaborators.groups.delete(group_uuid)

    @needs_room
    def create_key_pair(self, ctx: RequestContext, key_pair: KeyPair) -> KeyPair:
        return self.collaborators.key_pairs.create(ctx, key_pair)

    def delete_key_pair(self, ctx: RequestContext, user_id: str, name: str) -> None:
        self.collaborators.key_pairs.delete(user_id, name)

    @needs_room
    def update_quota_set(self, ctx: RequestContext, project_id: str, limits: dict[str, int], force: bool) -> None:
        self.collaborators.quotas.update(project_id, limits, force=force)

    def delete_quota_set(self, ctx: RequestContext, project_id: str, resources: tuple[str, ...]) -> None:
        self.collaborators.quotas.delete(project_id, resources)

    @needs_room
    def update_quota_class_set(self, ctx: RequestContext, class_name: str, limits: dict[str, int]) -> None:
        self.collaborators.quotas.update_class(class_name, limits)

    @needs_room
    def create_network(self, ctx: RequestContext, network: Network) -> Network:
        return self.collaborators.networks.create(network)

    @needs_room
    def update_network(self, ctx: RequestContext, network: Network) -> Network:
        return self.collaborators.networks.update(network)

    def delete_network(self, ctx: RequestContext, network_id: str) -> None:
        self.collaborators.networks.delete(network_id)

    @needs_room
    def create_subnet(self, ctx: RequestContext, subnet: Subnet, any_range: bool = False) -> Subnet:
        return self.collaborators.subnets.create(subnet, any_range=any_range)

    @needs_room
    def update_subnet(self, ctx: RequestContext, subnet: Subnet) -> Subnet:
        return self.collaborators.subnets.update(subnet)

    def delete_subnet(self, ctx: RequestContext, subnet_id: str) -> None:
        self.collaborators.subnets.delete(subnet_id)

    @needs_room
    def create_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        return self.collaborators.ports.create(ctx, port, fixed_ips)

    @needs_room
    def update_port(self, ctx: RequestContext, port: Port, fixed_ips: tuple[AddressRequest, ...] | None) -> Port:
        return self.collaborators.ports.update(port, fixed_ips)

    def delete_port(self, ctx: RequestContext, port_id: str) -> None:
        server = self.collaborators.ports.server_of(port_id)
        if server is None:
            self.collaborators.ports.delete(port_id)
        else:
            self.collaborators.interfaces.delete_port(ctx, server, port_id)

    @needs_room
    def ensure_default_security_group(self, ctx: RequestContext, project_id: str) -> None:
        self.collaborators.security_groups.ensure_default([project_id])

    @needs_room
    def create_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        return self.collaborators.security_groups.create(group)

    @needs_room
    def update_security_group(self, ctx: RequestContext, group: SecurityGroup) -> SecurityGroup:
        return self.collaborators.security_groups.update(group)

    def delete_security_group(self, ctx: RequestContext, group_id: str) -> None:
        self.collaborators.security_groups.delete(group_id)

    @needs_room
    def create_security_group_rule(self, ctx: RequestContext, rule: SecurityGroupRule) -> SecurityGroupRule:
        return self.collaborators.security_groups.create_rule(rule)

    def delete_security_group_rule(self, ctx: RequestContext, rule_id: str) -> None:
        self.collaborators.security_groups.delete_rule(rule_id)

    @needs_room
    def create_image(self, ctx: RequestContext, image: Image) -> Image:
        return self.collaborators.images.create(image)

    def update_image(self, ctx: RequestContext, image: Image, expected_status: str) -> Image:
        return self.collaborators.images.update(image, expected_status)

    def change_image(self, ctx: RequestContext, expected: Image, image: Image) -> Image:
        return self.collaborators.images.change(expected, image)

    def delete_image(self, ctx: RequestContext, image_id: str) -> None:
        self.collaborators.images.delete(image_id)

    @needs_room
    def add_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> ImageMember:
        return self.collaborators.images.add_member(image_id, member_id)

    @needs_room
    def update_image_member(self, ctx: RequestContext, image_id: str, member_id: str, status: str) -> ImageMember:
        return self.collaborators.images.update_member(image_id, member_id, status)

    def remove_image_member(self, ctx: RequestContext, image_id: str, member_id: str) -> None:
        self.collaborators.images.remove_member(image_id, member_id)

    def api_has_seen(self, ctx: RequestContext, place: str, seen: Seen) -> None:
        self.collaborators.witnesses.hear(place, seen)

    # -- calls of metadata services --------------------------------------------------------------------------------

    def metadata_of_address(self, ctx: RequestContext, host: str, address: str) -> GuestMetadata:
        return self.collaborators.guest_metadata.of_address(host, address)

    @needs_room
    def leave_password_of_address(self, ctx: RequestContext, host: str, address: str, password: str) -> None:
        self.collaborators.guest_metadata.leave_password_of_address(host, address, password)

    def metadata_of_instance(self, ctx: RequestContext, instance_uuid: str, project_id: str) -> GuestMetadata:
        return self.collaborators.guest_metadata.of_instance(instance_uuid, project_id)

    @needs_room
    def leave_password(self, ctx: RequestContext, instance_uuid: str, project_id: str, password: str) -> None:
        self.collaborators.guest_metadata.leave_password(instance_uuid, project_id, password)

    # -- calls of console proxies ----------------------------------------------------------------------------------

    def use_console_token(self, ctx: RequestContext, token: str) -> ConsoleGrant:
        return self.collaborators.consoles.use_token(token)

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

    # -- calls of every service ------------------------------------------------------------------------------------

    def register_service(self, ctx: RequestContext, service: Service) -> ServiceInstructions:
        return self.collaborators.services.register_service(service)

    def heartbeat(
        self, ctx: RequestContext, host: str, binary: str, down_reason: str | None = None
    ) -> ServiceInstructions:
        return self.collaborators.services.heartbeat(host, binary, down_reason, ctx.process)

    def service_has_seen(self, ctx: RequestContext, host: str, binary: str, seen: Seen) -> CloudState | None:
        if ctx.process is not None:  # of a compute
            self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.witnesses.judged(host, binary, seen)

    def service_stopped(self, ctx: RequestContext, host: str, binary: str, process: str) -> None:
        self.collaborators.services.service_stopped(host, binary, process)

    # -- calls of computes: each message also shows that the compute is alive --------------------------------------

    def instances_of_host(self, ctx: RequestContext, host: str) -> HostInstances:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.compute_nodes.instances_of_host(host)

    def interfaces_of_host(self, ctx: RequestContext, host: str) -> dict[str, tuple[Vif, ...]]:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.ports.of_host(host)

    def interface_detached(self, ctx: RequestContext, instance_uuid: str, mac_address: str, host: str) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.interfaces.interface_detached(instance_uuid, mac_address, host)

    def bind_interfaces(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str) -> tuple[Vif, ...]:
        self.collaborators.services.note_contact(host, ctx.process)
        if self.collaborators.neutron is None:
            raise errors.NetworkNotConfigured("This conductor is not configured for Neutron.")
        return self.collaborators.neutron.bind(instance_uuid, attempt, host)

    def hosts_of_instances(self, ctx: RequestContext, instance_uuids: tuple[str, ...]) -> dict[str, str | None]:
        return self.collaborators.compute_nodes.hosts_of_instances(instance_uuids, own_host(ctx.sender))

    def report_images(self, ctx: RequestContext, store: str, images: tuple[StoredImage, ...]) -> tuple[str, ...]:
        return self.collaborators.image_reports.report(store, images)

    def report_guests(
        self, ctx: RequestContext, host: str, guests: tuple[GuestMark, ...], number: int = 0
    ) -> GuestsAnswer:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.guest_reports.report(host, guests, ctx.process, number)

    def report_guest_records(
        self, ctx: RequestContext, host: str, records: tuple[GuestRecord, ...], number: int = 0
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.guest_reports.keep(host, records, ctx.process, number)

    def begin_audit(self, ctx: RequestContext, host: str, view: HypervisorView) -> AuditInputs:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.compute_nodes.begin_audit(host, view, name_hosts=own_host(ctx.sender) is None)

    def finish_audit(
        self,
        ctx: RequestContext,
        node: ComputeNode,
        inventories: tuple[Inventory, ...],
        traits: tuple[str, ...] = (),
        found: NodeAudit | None = None,
    ) -> ComputeNode:
        self.collaborators.services.note_contact(node.host, ctx.process)
        row = self.collaborators.compute_nodes.finish_audit(node, inventories, traits)
        if found is not None:
            self.collaborators.audit_results.ended(row.id, found)
        return row

    def delete_compute_nodes(self, ctx: RequestContext, host: str, nodes: tuple[str, ...]) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.compute_nodes.delete_compute_nodes(host, nodes)

    def save_compute_node(self, ctx: RequestContext, node: ComputeNode) -> ComputeNode:
        self.collaborators.services.note_contact(node.host, ctx.process)
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
        self.collaborators.services.note_contact(node.host, ctx.process)
        return self.collaborators.build_reports.claim_instance(instance_uuid, attempt, node, numa_topology, step)

    def claim_instances(
        self, ctx: RequestContext, claims: tuple[InstanceClaim, ...], node: ComputeNode
    ) -> tuple[ReportAnswer, ...]:
        self.collaborators.services.note_contact(node.host, ctx.process)
        return self.collaborators.build_reports.claim_instances(claims, node)

    def claim_move(self, ctx: RequestContext, migration: Migration, node: ComputeNode) -> Migration:
        self.collaborators.services.note_contact(node.host, ctx.process)
        return self.collaborators.migrations.claim_move(migration, node)

    def step_move(self, ctx: RequestContext, migration_uuid: str, status: str, host: str) -> Moved:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.migrations.step_move(migration_uuid, status, host)

    def begin_attempt(self, ctx: RequestContext, instance_uuid: str, attempt: int, host: str, step: str) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.build_reports.begin_attempt(instance_uuid, attempt, host, step)

    def image_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.image_tokens.image_token(instance_uuid, image_id, host)

    def image_upload_token(self, ctx: RequestContext, instance_uuid: str, image_id: str, host: str) -> str:
        self.collaborators.services.note_contact(host, ctx.process)
        return self.collaborators.image_tokens.upload_token(instance_uuid, image_id, host)

    def build_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        node: ComputeNode | None = None,
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.build_reports.build_succeeded(instance_uuid, attempt, host, power_state, node)

    def report_builds(
        self,
        ctx: RequestContext,
        reports: tuple[BuildReport, ...],
        host: str,
        nodes: tuple[ComputeNode, ...] = (),
    ) -> tuple[ReportAnswer, ...]:
        self.collaborators.services.note_contact(host, ctx.process)
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
        self.collaborators.services.note_contact(host, ctx.process)
        failure = Failure(kind=kind, details=reason)
        self.collaborators.build_reports.build_failed(ctx, instance_uuid, attempt, host, failure, retriable)

    def instance_deleted(self, ctx: RequestContext, instance_uuid: str, host: str) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.terminate.instance_deleted(instance_uuid, host)

    def delete_failed(self, ctx: RequestContext, instance_uuid: str, host: str, reason: str, kind: str = "") -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.terminate.delete_failed(instance_uuid, host, Failure(kind=kind, details=reason))

    def begin_action(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, again: bool = False
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.action_reports.begin_action(instance_uuid, action_id, host, again=again)

    def action_progressed(
        self, ctx: RequestContext, instance_uuid: str, action_id: int, host: str, task_state: str
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.action_reports.action_progressed(instance_uuid, action_id, host, task_state)

    def action_succeeded(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        power_state: int,
        kept: bool = False,
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.action_reports.action_succeeded(instance_uuid, action_id, host, power_state, kept=kept)

    def action_failed(
        self,
        ctx: RequestContext,
        instance_uuid: str,
        action_id: int,
        host: str,
        reason: str,
        kind: str = "",
        power_state: int | None = None,
        untouched: bool = False,
    ) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        failure = Failure(kind=kind, details=reason)
        reports = self.collaborators.action_reports
        reports.action_failed(instance_uuid, action_id, host, failure, power_state, untouched=untouched)

    def report_power_states(self, ctx: RequestContext, host: str, states: dict[str, int]) -> None:
        self.collaborators.services.note_contact(host, ctx.process)
        self.collaborators.compute_nodes.report_power_states(ctx, host, states)
