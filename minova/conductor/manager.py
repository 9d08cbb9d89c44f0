"""The conductor's life as a service: its start, its periodic tasks and its stop."""

import functools
import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from oslo_config import cfg

from minova import errors
from minova.conductor.actions.engine.reports import ActionReports
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.actions.kinds.deletion import RECLAIM_INTERVAL, Deletions
from minova.conductor.actions.kinds.interfaces import ServerInterfaces
from minova.conductor.actions.kinds.moves import CONFIRM_INTERVAL, Confirmations, MovePreviews
from minova.conductor.actions.kinds.shelving import OFFLOAD_INTERVAL, ShelvedOffloads
from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors import Flavors
from minova.conductor.catalogue.image_caching import ImageCaching
from minova.conductor.catalogue.images import Images
from minova.conductor.catalogue.key_pairs import KeyPairs
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.hosts.audit_results import AuditResults
from minova.conductor.hosts.broker_probe import BrokerProbe
from minova.conductor.hosts.compute_nodes import ComputeNodes
from minova.conductor.hosts.placement_audit import PlacementAudit
from minova.conductor.hosts.services import FLUSH_INTERVAL, Services
from minova.conductor.hosts.witnesses import END_INTERVAL, Witnesses
from minova.conductor.moves.debts import MoveDebts
from minova.conductor.moves.evacuate import Evacuations
from minova.conductor.moves.migrations import Migrations
from minova.conductor.moves.orders import MoveOrders
from minova.conductor.moves.steps import MoveSteps
from minova.conductor.network import attachments
from minova.conductor.network.networks import Networks
from minova.conductor.network.neutron.interfaces import NeutronInterfaces
from minova.conductor.network.ports import Ports
from minova.conductor.network.security.address_groups import AddressGroups
from minova.conductor.network.security.security_groups import SecurityGroups
from minova.conductor.network.subnet_pools import SubnetPools
from minova.conductor.network.subnets import Subnets
from minova.conductor.network.tags import NetworkTags
from minova.conductor.purge import HISTORY_INTERVAL, PURGE_INTERVAL, TRIM_INTERVAL, Purge
from minova.conductor.quotas import Quotas
from minova.conductor.reconcile import Reconcile
from minova.conductor.servers.attributes import ServerAttributes
from minova.conductor.servers.builds.reports import BuildReports
from minova.conductor.servers.create import Servers
from minova.conductor.servers.dry_run import DryRuns
from minova.conductor.servers.guest_metadata import GuestMetadatas
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.worker import TAKE_OVER_INTERVAL, TaskWorker
from minova.conductor.tokens.console_tokens import Consoles
from minova.conductor.tokens.guest_secrets import GuestSecretKeeper
from minova.conductor.tokens.image_tokens import REFRESH_INTERVAL, ImageTokens
from minova.conductor.unexpected.guest_reports import GuestReports
from minova.conductor.unexpected.images import ImageReports
from minova.db.clock import ADVANCE_INTERVAL
from minova.db.engine import Database
from minova.messaging.notifier import Notifier
from minova.service import PeriodicTask, until_available

if TYPE_CHECKING:
    from minova.conductor.network.neutron.ports import NeutronPorts

LOG = logging.getLogger(__name__)
BINARY = "minova-conductor"
ORPHANS_INTERVAL = 60.0
# Seconds between two requests to hosts to remove what ended moves have left there.
CLEANUPS_INTERVAL = 15.0
# Seconds between two rounds that remove in Neutron the interfaces that servers no longer have.
CLEAN_INTERVAL = 2.0


class ConductorCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a conductor. Together they implement the contract: each method is a method of one of them. All of
    them write through one worker.
    """

    worker: TaskWorker
    services: Services
    broker_probe: BrokerProbe
    compute_nodes: ComputeNodes
    witnesses: Witnesses
    audit_results: AuditResults
    guest_reports: GuestReports
    image_reports: ImageReports
    servers: Servers
    dry_runs: DryRuns
    build_reports: BuildReports
    terminate: Terminate
    deletions: Deletions
    shelving: ShelvedOffloads
    actions: ServerActions
    action_reports: ActionReports
    interfaces: ServerInterfaces
    consoles: Consoles
    guest_metadata: GuestMetadatas
    attributes: ServerAttributes
    migrations: Migrations
    evacuations: Evacuations
    moves: MoveSteps
    move_orders: MoveOrders
    move_debts: MoveDebts
    move_previews: MovePreviews
    confirmations: Confirmations
    flavors: Flavors
    images: Images
    aggregates: Aggregates
    image_caching: ImageCaching
    groups: Groups
    key_pairs: KeyPairs
    quotas: Quotas
    networks: Networks
    security_groups: SecurityGroups
    subnets: Subnets
    subnet_pools: SubnetPools
    address_groups: AddressGroups
    ports: Ports
    network_tags: NetworkTags
    neutron: "NeutronPorts | None"
    neutron_interfaces: NeutronInterfaces
    reconcile: Reconcile
    purge: Purge
    placement_audit: PlacementAudit
    image_tokens: ImageTokens
    guest_secrets: GuestSecretKeeper


class ConductorManager:
    """Implements `service.Manager`. `minova.cmd.conductor` constructs it."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        db: Database,
        collaborators: ConductorCollaborators,
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
            PeriodicTask(name="take_over", interval=TAKE_OVER_INTERVAL, work=work.take_over_orphaned),
            PeriodicTask(
                name="process_due_tasks",
                interval=float(self._conf.conductor.task_interval),
                work=work.process_due_tasks,
            ),
            PeriodicTask(
                name="end_orphaned_migrations",
                interval=ORPHANS_INTERVAL,
                work=self.collaborators.migrations.end_orphaned,
            ),
            PeriodicTask(
                name="confirm_moves", interval=CONFIRM_INTERVAL, work=self.collaborators.confirmations.confirm_due
            ),
            PeriodicTask(
                name="clean_after_moves", interval=CLEANUPS_INTERVAL, work=self.collaborators.move_debts.collect
            ),
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
            audit = self.collaborators.placement_audit.run
            tasks.append(PeriodicTask(name="audit_placement", interval=placement_audit_interval, work=audit))
        return tasks

    def _offloads(self) -> list[PeriodicTask]:
        """Returns the periodic tasks for offloads. As in Nova, 0 means the interval of most tasks, and a negative value
        disables it.
        """
        interval = int(self._conf.shelved_poll_interval)
        work = self.collaborators.shelving.offload_due
        return [PeriodicTask(name="offload_shelved", interval=interval or OFFLOAD_INTERVAL, work=work)][: interval >= 0]

    def _of_neutron(self) -> list[PeriodicTask]:
        neutron = self.collaborators.neutron
        if neutron is None:
            warn = functools.partial(attachments.warn_of_foreign_ports, self.collaborators.worker)
            return [PeriodicTask(name="warn_of_neutron_ports", interval=ORPHANS_INTERVAL, work=warn)]
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
