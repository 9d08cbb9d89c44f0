"""minova-conductor."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
from oslo_config import cfg

from minova import errors
from minova.cmd.startup import clients, database, gauges
from minova.cmd.startup.launch import launch
from minova.conductor.actions.engine.begin import BeginActions
from minova.conductor.actions.engine.end import EndActions
from minova.conductor.actions.engine.reports import ActionReports
from minova.conductor.actions.engine.requests import ServerActions
from minova.conductor.actions.engine.task_handler import ActionTasks
from minova.conductor.actions.kinds.deletion import Deletions
from minova.conductor.actions.kinds.interfaces import ServerInterfaces
from minova.conductor.actions.kinds.moves import Confirmations, MovePreviews
from minova.conductor.actions.kinds.shelving import ShelvedOffloads
from minova.conductor.actions.registry import action_kinds, of_every_kind
from minova.conductor.catalogue.aggregates import Aggregates
from minova.conductor.catalogue.flavors import Flavors
from minova.conductor.catalogue.image_caching import ImageCaching
from minova.conductor.catalogue.images import Images
from minova.conductor.catalogue.key_pairs import KeyPairs
from minova.conductor.catalogue.server_groups import Groups
from minova.conductor.compute_messages import ComputeClient
from minova.conductor.hosts.audit_results import AuditResults
from minova.conductor.hosts.broker_probe import BrokerProbe
from minova.conductor.hosts.compute_nodes import ComputeNodes
from minova.conductor.hosts.liveness import Liveness
from minova.conductor.hosts.placement_audit import PlacementAudit
from minova.conductor.hosts.services import Services
from minova.conductor.hosts.witnesses import Witnesses
from minova.conductor.manager import BINARY, ConductorCollaborators, ConductorManager
from minova.conductor.moves.changes import MoveChanges
from minova.conductor.moves.debts import MoveDebts
from minova.conductor.moves.destinations.assign import MoveDestinations
from minova.conductor.moves.destinations.live_queue import LiveQueue
from minova.conductor.moves.evacuate import Evacuations
from minova.conductor.moves.migrations import Migrations
from minova.conductor.moves.orders import MoveOrders
from minova.conductor.moves.start import StartMoves
from minova.conductor.moves.steps import MoveSteps
from minova.conductor.moves.task_handler import MoveTasks
from minova.conductor.network.attachments import Attachments
from minova.conductor.network.backend import NetworkBackend, NetworkBackends
from minova.conductor.network.interface_notifier import InterfaceNotifier
from minova.conductor.network.local_ranges import LocalRanges
from minova.conductor.network.networks import Networks
from minova.conductor.network.neutron.interfaces import NeutronInterfaces
from minova.conductor.network.ports import Ports
from minova.conductor.network.security.address_groups import AddressGroups
from minova.conductor.network.security.security_groups import SecurityGroups
from minova.conductor.network.servers import ServerPorts
from minova.conductor.network.subnet_pools import SubnetPools
from minova.conductor.network.subnets import Subnets
from minova.conductor.network.tags import NetworkTags
from minova.conductor.notifications.instances import InstanceNotifications
from minova.conductor.purge import Purge
from minova.conductor.quotas import Quotas
from minova.conductor.reconcile import Reconcile
from minova.conductor.servers.attributes import ServerAttributes
from minova.conductor.servers.build import BuildInstances
from minova.conductor.servers.builds.failed_attempts import FailedAttempts
from minova.conductor.servers.builds.reports import BuildReports
from minova.conductor.servers.create import Servers
from minova.conductor.servers.dry_run import DryRuns
from minova.conductor.servers.guest_metadata import GuestMetadatas
from minova.conductor.servers.task_handlers import task_registry
from minova.conductor.servers.terminate import Terminate
from minova.conductor.tasks.worker import Spawn, TaskWorker
from minova.conductor.tokens.console_tokens import Consoles
from minova.conductor.tokens.guest_secrets import GuestSecretKeeper
from minova.conductor.tokens.image_tokens import ImageTokens
from minova.conductor.tokens.sealing import Sealing
from minova.conductor.unexpected.guest_reports import GuestReports
from minova.conductor.unexpected.images import ImageReports
from minova.context import service_context
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.contracts.scheduler import SchedulerApi
from minova.db.engine import Database
from minova.hardware.guest.features import NEED_SECRETS
from minova.hardware.pci_alias import parse_aliases
from minova.messaging.dispatch import Implementation
from minova.messaging.notifier import Notifier
from minova.messaging.rpc import Rpc
from minova.objects.hosts.service import SERVICE_VERSION, Service
from minova.objects.network.vif import NEUTRON
from minova.safe_mode import SafeMode
from minova.service import RpcService, Runnable
from minova.witness import Witness

if TYPE_CHECKING:
    from minova.conductor.network.neutron.ports import NeutronPorts


LOG = logging.getLogger(__name__)
# Seconds within which a conductor of another cloud answers, if there is one.
FIRST_LOOK = 1.0


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> Runnable:
    parse_aliases(conf.pci.alias, pci_in_placement=conf.filter_scheduler.pci_in_placement)  # stops the start if wrong
    db = database.connect(conf, stopping)
    witness = Witness(Path(conf.state_path) / "cloud-conductor")
    database.join_cloud(db, rpc, witness, stopping)
    require_own_broker(conf, rpc)
    database.follow_levels(conf, db, rpc)
    rpc.warn_of_unknown_senders()
    manager = make_manager(
        conf,
        db,
        clients.scheduler(rpc),
        clients.compute(rpc),
        host=conf.host,
        stopping=stopping,
        own_topic=clients.conductor(rpc),
        notifier=Notifier(conf),
        levels=rpc.levels.by_topic,
        leases=database.of_its_own(conf),
        dry_runs=clients.dry_runs(rpc),
        safe_mode=rpc.safe_mode,
        witness=witness,
    )
    rpc.reconnects.on_reconnect(manager.broker_is_back)
    server = lambda: rpc.server(ConductorApi, implementation(manager), host=conf.host)  # noqa: E731
    return RpcService("minova-conductor", manager, server, stopping, leave=manager.worker.leave)


def implementation(manager: ConductorManager) -> Implementation:
    """Returns what serves ConductorApi: its collaborators."""
    return Implementation(
        parts=msgspec.structs.astuple(manager.collaborators),
        safe_mode=manager.safe_mode,
        require_disk_room=manager.worker.db.require_room,
        note_contact=manager.collaborators.services.note_contact,
        note_refused=manager.collaborators.services.note_refused,
    )


def require_own_broker(conf: cfg.ConfigOpts, rpc: Rpc) -> None:
    """Raises InvalidConfiguration if a conductor of another cloud answers: each would take messages of the other cloud.

    Without an answer within FIRST_LOOK there is most likely no other conductor. Messages of another cloud are refused
    in any case.
    """
    if not rpc.is_shared:
        return
    try:
        probe = clients.conductor(rpc, retry=clients.TRIES_BEFORE_ERROR, timeout=FIRST_LOOK)
        probe.heartbeat(service_context(), host=conf.host, binary=BINARY)
    except errors.AnotherCloud as error:
        raise errors.InvalidConfiguration(f"[DEFAULT] transport_url: {error}") from None
    except errors.MinovaError as error:
        LOG.debug("No conductor of another cloud has answered: %s", error)


def make_manager(
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
    own_topic: ConductorApi | None = None,
    notifier: Notifier | None = None,
    levels: Callable[[], Mapping[str, str]] = dict,
    leases: Database | None = None,
    dry_runs: SchedulerApi | None = None,
    safe_mode: SafeMode | None = None,
    witness: Witness | None = None,
) -> ConductorManager:
    """Makes a ConductorManager with its collaborators.

    `compute`: returns the client of a host.
    `own_topic`: a client of the conductors, to probe whether the broker delivers messages.
    `dry_runs`: a client of the schedulers with a short time-out.
    `leases`: the database with a connection for the lease alone.
    `levels`: the version of each contract that every service serves, by topic.
    `clock`: the wall clock of this host, for times that people read.
    `ticks`: its monotonic clock; None uses `clock` if that is given. Leases use the cloud clock.
    `spawn`: runs work in the background; None: the worker has threads of its own.
    `notifier`: None: no notifications are sent.
    `safe_mode`: of the process. `witness`: what this conductor has seen of its cloud.
    """
    ticks = ticks or clock or time.monotonic
    clock = clock or time.time
    stopping = stopping or threading.Event()
    worker = TaskWorker(
        db,
        host=host,
        lease=float(conf.conductor.worker_lease),
        threads=conf.conductor.workers,
        leases=leases,
        clock=clock,
        ticks=ticks,
        spawn=spawn,
        observe=None if notifier is None else InstanceNotifications(conf, notifier, host=host, clock=clock).observe,
        wait=stopping.wait,
        safe_mode=safe_mode,
        witness=witness,
    )
    witnesses = Witnesses(worker)
    sealing = Sealing.of_file(conf.guest_secrets.key_file)
    image_tokens = ImageTokens(worker, ticks)
    down_time = float(conf.service_down_time)
    liveness = Liveness(db, down_time=down_time, clock=ticks)
    computes = ComputeClient(compute, token_for=image_tokens.token_for, absent_hosts=liveness.absent_hosts)
    probe = BrokerProbe(own_topic, host=host, binary=BINARY, down_time=down_time, clock=ticks)
    quotas = Quotas(conf, worker)
    groups = Groups(conf, worker, quotas)
    hints = InterfaceNotifier(worker, computes)
    security_groups = SecurityGroups(worker, quotas, hints)
    ports = Ports(worker, quotas, security_groups, hints)
    neutron = _neutron(conf, worker)
    backends: dict[str, NetworkBackend] = {"": ServerPorts(ports, security_groups, hints)}
    if neutron is not None:
        backends[NEUTRON] = neutron
    guest_reports = GuestReports(conf, worker, liveness)
    builds = BuildInstances(conf, worker, scheduler, computes, groups, hints, end_built=guest_reports.end_builds)
    failures = FailedAttempts(conf, worker, computes, liveness, hints)
    images = Images(worker, quotas)
    attachments = Attachments(ports, security_groups, hints, quotas, worker.at)
    move_changes = MoveChanges(conf, worker)
    bindings = None if neutron is None else neutron.bindings
    move_debts = MoveDebts(worker, computes, liveness, move_changes)
    destinations = MoveDestinations(conf, worker, move_changes, LiveQueue(conf))
    moves = MoveSteps(worker, computes, liveness, move_changes, destinations, move_debts, bindings)
    start_moves = StartMoves(conf, worker, scheduler, computes, liveness, groups, quotas, move_changes, destinations)
    kinds = action_kinds(conf, worker, quotas, images, attachments, builds, start_moves, dry_runs or scheduler)
    begins = BeginActions(conf, worker, computes, kinds)
    ends = EndActions(worker, kinds, of_every_kind(worker, attachments), begins)
    action_reports = ActionReports(worker, kinds, begins, ends)
    actions = ServerActions(worker, liveness, quotas, kinds, begins, ends, action_reports, levels=levels)
    terminate = Terminate(conf, worker, computes, liveness, hints, ends.abandon)
    action_tasks = ActionTasks(worker, actions)
    registry = task_registry(
        conf,
        worker,
        computes,
        builds=builds,
        failures=failures,
        terminate=terminate,
        actions=action_tasks,
        moves=MoveTasks(worker, start_moves, moves),
    )
    audit_results = AuditResults(worker)
    ranges = LocalRanges(levels, conf.networks.local_ranges)
    collaborators = ConductorCollaborators(
        worker=worker,
        services=Services(
            conf,
            worker,
            liveness,
            witnesses,
            own=_record(host),
            clock=ticks,
            broker_is_up=probe.is_up,
            levels=levels,
            guest_keys=sealing.shown_ids,
        ),
        broker_probe=probe,
        witnesses=witnesses,
        compute_nodes=ComputeNodes(
            worker,
            audit_results,
            levels,
            lambda: int(conf.conductor.max_automatic_removals),
            withheld=frozenset() if sealing else NEED_SECRETS,
        ),
        audit_results=audit_results,
        guest_reports=guest_reports,
        image_reports=ImageReports(worker),
        servers=Servers(conf, worker, builds, quotas, NetworkBackends(backends), levels),
        dry_runs=DryRuns(conf, quotas, dry_runs or scheduler, groups),
        build_reports=BuildReports(worker, failures),
        terminate=terminate,
        shelving=ShelvedOffloads(conf, worker, actions),
        deletions=Deletions(conf, worker, terminate, actions, liveness),
        actions=actions,
        action_reports=action_reports,
        interfaces=ServerInterfaces(worker, attachments, actions),
        consoles=Consoles(conf, worker),
        guest_metadata=GuestMetadatas(worker),
        attributes=ServerAttributes(worker, quotas, ends.abandon, conf.scheduler.default_availability_zone),
        migrations=Migrations(worker),
        evacuations=Evacuations(conf, worker, liveness, builds, groups, ends.abandon, dry_runs or scheduler, levels),
        moves=moves,
        move_orders=MoveOrders(worker, move_changes, moves),
        move_debts=move_debts,
        move_previews=MovePreviews(
            worker, liveness, start_moves, quotas, dry_runs or scheduler, actions.require_levels
        ),
        confirmations=Confirmations(conf, worker, actions),
        flavors=Flavors(worker),
        images=images,
        aggregates=Aggregates(worker),
        image_caching=ImageCaching(
            conf,
            worker,
            liveness,
            compute,
            image_tokens.token_for,
            notifier,
            host=host,
            wait=stopping.wait,
            ticks=ticks,
            spawn=spawn,
        ),
        groups=groups,
        key_pairs=KeyPairs(worker, quotas),
        quotas=quotas,
        networks=Networks(worker, quotas, ranges, hints),
        subnets=Subnets(worker, quotas, ranges, hints),
        subnet_pools=SubnetPools(worker, quotas),
        address_groups=AddressGroups(worker, quotas, hints),
        ports=ports,
        network_tags=NetworkTags(worker),
        neutron=neutron,
        neutron_interfaces=NeutronInterfaces(worker, neutron, computes),
        security_groups=security_groups,
        reconcile=Reconcile(conf, worker, registry, computes, liveness),
        purge=Purge(conf, worker, stopping),
        placement_audit=PlacementAudit(worker),
        image_tokens=image_tokens,
        guest_secrets=GuestSecretKeeper(worker, sealing),
    )
    return ConductorManager(conf, db, collaborators, host=host, stopping=stopping, notifier=notifier)


def _neutron(conf: cfg.ConfigOpts, worker: TaskWorker) -> "NeutronPorts | None":
    """Returns None if all networks are minova's own. Raises InvalidConfiguration."""
    if conf.neutron.backend != "neutron":
        return None
    # Imported here, because importing keystoneauth takes a noticeable part of the start, and clouds without Neutron
    # need not wait.
    from minova.conductor.network.neutron.ports import NeutronPorts  # noqa: PLC0415
    from minova.neutron_client import NeutronClient  # noqa: PLC0415

    return NeutronPorts(worker, NeutronClient(conf), conf.neutron.ovs_bridge)


def _record(host: str) -> Service:
    """The conductor's own row in `services`. Its uuid is derived from its host, so each start finds the same row."""
    service_uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, f"minova:service:{BINARY}:{host}"))
    return Service(uuid=service_uuid, host=host, binary=BINARY, topic=ConductorApi.TOPIC, version=SERVICE_VERSION)


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    rpc = Rpc(conf)
    return [compose(conf, rpc, stopping), *gauges.compose(conf, rpc, stopping)]


def main() -> NoReturn:
    launch("minova-conductor", compose_process)
