"""minova-compute: runs and looks after the guests of its host. It has no access to the database."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, cast

from oslo_config import cfg

from minova import virt
from minova.cmd.startup import clients
from minova.cmd.startup.launch import launch
from minova.compute.actions.action_run import ActionProgress, Repeated, repeated
from minova.compute.actions.images import Snapshots
from minova.compute.actions.operations import Operations
from minova.compute.actions.results import UnreportedResults
from minova.compute.actions.runner import InstanceActions
from minova.compute.adoptions import Adoptions
from minova.compute.conductor_retry import ConductorRetry
from minova.compute.guest_records import GuestRecords
from minova.compute.guest_secrets import HostSecrets
from minova.compute.host_identity import IdentifiedConductor, LocalIdentity
from minova.compute.images.cache import ImageCache
from minova.compute.images.precaching import Precaching
from minova.compute.images.source import ImageSource
from minova.compute.images.uploads import ImageUploads, Uploads
from minova.compute.instances.abandonment import ShutdownGate
from minova.compute.instances.background import Background
from minova.compute.instances.base_images import BaseImages
from minova.compute.instances.builds import FRESH_CLAIM, Builder
from minova.compute.instances.clean_stops import CleanStops
from minova.compute.instances.guest_starts import GuestStarts
from minova.compute.instances.interfaces import Interfaces
from minova.compute.instances.power_states import PowerStates
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.compute.instances.workers import GuestWorkers, Spawn
from minova.compute.manager import ComputeManager
from minova.compute.membership import CloudMembership
from minova.compute.methods import ComputeCollaborators
from minova.compute.moves.live_phases import LivePhases
from minova.compute.moves.move_records import MoveRecords
from minova.compute.moves.phases import ColdPhases, MoveImages
from minova.compute.moves.runner import MoveRunner
from minova.compute.periodic.auditor import Auditor
from minova.compute.periodic.guest_reports import GuestReporter
from minova.compute.periodic.guests_in_trouble import GuestsInTrouble
from minova.compute.periodic.hardware_records import HardwareRecords
from minova.compute.periodic.periodic_tasks import PeriodicTasks
from minova.compute.tracker.monitors import Monitors
from minova.compute.tracker.nodes import Nodes, settings_from
from minova.concurrency.daemon_pool import DaemonPool
from minova.contracts.compute import ComputeApi
from minova.contracts.conductor import ConductorApi
from minova.messaging.dispatch import Implementation
from minova.messaging.rpc import Rpc
from minova.safe_mode import SafeMode
from minova.service import RpcService, Runnable
from minova.virt.driver import ComputeDriver
from minova.virt.libvirt.guest_files import root_files
from minova.witness import Witness


def compose(conf: cfg.ConfigOpts, rpc: Rpc, stopping: threading.Event) -> Runnable:
    manager = make_manager(
        conf,
        virt.load(conf),
        clients.conductor(rpc),
        host=conf.host,
        images=ImageCache(conf),
        stopping=stopping,
        identity=LocalIdentity.of(conf),
        learn_levels=rpc.levels.learn,
        safe_mode=rpc.safe_mode,
        witness=Witness(Path(conf.state_path) / "cloud-compute"),
        learn_cloud=rpc.cloud.learn,
        results=UnreportedResults(Path(conf.state_path) / "actions"),
        records=GuestRecords(Path(conf.state_path) / "guests"),
    )
    return RpcService(
        "minova-compute",
        manager,
        lambda: rpc.server(ComputeApi, Implementation(parts=(manager,), safe_mode=manager.safe_mode), host=conf.host),
        stopping,
    )


def make_manager(
    conf: cfg.ConfigOpts,
    driver: ComputeDriver,
    conductor: ConductorApi,
    *,
    host: str,
    images: ImageSource,
    uploads: Uploads | None = None,
    clock: Callable[[], float] | None = None,
    ticks: Callable[[], float] | None = None,
    spawn: Spawn | None = None,
    stopping: threading.Event | None = None,
    identity: LocalIdentity | None = None,
    learn_levels: Callable[[Mapping[str, str]], None] = lambda levels: None,
    fresh_claim: float = FRESH_CLAIM,
    results: UnreportedResults | None = None,
    records: GuestRecords | None = None,
    safe_mode: SafeMode | None = None,
    witness: Witness | None = None,
    learn_cloud: Callable[[str], None] = lambda uuid: None,
    repeated: Repeated = repeated,
) -> ComputeManager:
    """Makes a ComputeManager with everything that it delegates to.

    `uploads`: None: images are uploaded to `[glance] endpoint_override`.
    `spawn`: runs work in the background; None: the compute has threads of its own, bounded by `max_concurrent_builds`.
    `clock`: this host's wall clock.
    `ticks`: this host's monotonic clock, for durations; None: uses `clock` if that is given, for tests.
    `identity`, `stopping` and `learn_levels`: see ComputeManager.
    `fresh_claim`: see Builder.
    `repeated`: how actions report that they are in progress; see `action_run`.
    `results`: results of actions that no conductor has received yet; None: there are none, and new ones are lost with
      the process.
    `records`: of this host's guests; None: there are none, and new ones are lost with the process.
    `safe_mode`: of the process.
    `witness`: what this host has seen of its cloud; None: it ends with the process.
    `learn_cloud`: receives the identity of the host's cloud.
    """
    safe_mode = safe_mode or SafeMode()
    ticks = ticks or clock or time.monotonic
    clock = clock or time.time
    stopping = stopping or threading.Event()
    if identity is not None:
        conductor = cast(ConductorApi, IdentifiedConductor(conductor, identity))
    records = records or GuestRecords()
    gate = ShutdownGate()
    guarded, guarded_conductor = gate.guard(driver), gate.guard(conductor)
    workers = GuestWorkers(conf.max_concurrent_builds, spawn, conf.max_concurrent_guest_starts)
    repeat = ConductorRetry(_pause_of(stopping), safe_mode=safe_mode)
    secrets = HostSecrets(host, guarded_conductor, repeat)
    driver.use_secrets(secrets)
    monitors = Monitors(conf.compute_monitors, guarded, source=conf.compute_driver, clock=clock)
    nodes = Nodes(settings_from(conf, host), guarded, guarded_conductor, monitors.metrics, repeat, records.all)
    power_states = PowerStates(host, guarded_conductor, guarded.guest_state)
    common = _Common(conf, host, guarded, guarded_conductor, images, ticks, repeat)
    builder = _builder(common, nodes, records, gate, fresh_claim)
    background = Background(workers, builder, safe_mode)
    progress = ActionProgress(host, guarded_conductor, clock=ticks, repeat=repeat, repeated=repeated)
    snapshots = Snapshots(
        conf, host, guarded, guarded_conductor, uploads or ImageUploads(conf), progress, repeat=repeat
    )
    auditor = Auditor(
        guarded,
        nodes,
        builder,
        power_states,
        HardwareRecords(host, guarded, guarded_conductor),
        background=background,
        ticks=ticks,
    )
    bases = BaseImages(host, guarded, guarded_conductor, images)
    operations = Operations(
        conf,
        host,
        guarded,
        guarded_conductor,
        images,
        snapshots,
        progress,
        builder.removals,
        secrets,
        builder.vif_plug_waiter,
        bases,
    )
    actions = InstanceActions(
        host,
        operations,
        guarded.power_state,
        guarded_conductor,
        nodes,
        builder.domains,
        power_states,
        progress,
        time_limit=float(conf.conductor.action_timeout),
        repeat=repeat,
        results=results,
        clock=ticks,
    )
    guest_starts = GuestStarts(
        guarded,
        workers,
        builder.domains,
        power_states,
        builder.vif_plug_waiter,
        bases,
        pause=_pause_of(stopping),
        clock=ticks,
    )
    guest_reports = GuestReporter(host, guarded, guarded_conductor, builder, background)
    adoptions = Adoptions(
        host,
        guarded,
        guarded_conductor,
        builder,
        guest_reports,
        guest_starts,
        background,
        resumes_guests=conf.resume_guests_state_on_host_boot,
        clock=ticks,
    )
    interfaces = Interfaces(host, guarded, guarded_conductor, builder.domains, actions.is_unreported, clock=ticks)
    collaborators = ComputeCollaborators(
        gate=gate,
        driver=guarded,
        conductor=guarded_conductor,
        own_driver=driver,
        own_conductor=conductor,
        workers=workers,
        background=background,
        nodes=nodes,
        power_states=power_states,
        builder=builder,
        actions=actions,
        moves=_move_runner(common, nodes, records, builder),
        snapshots=snapshots,
        auditor=auditor,
        adoptions=adoptions,
        interfaces=interfaces,
        guest_reports=guest_reports,
        precaching=Precaching(images, DaemonPool("image caching", 1).spawn, check=gate.check, ticks=ticks),
        periodic_tasks=_periodic_tasks(
            common, nodes, builder, auditor, power_states, interfaces, guest_reports, background
        ),
    )
    return ComputeManager(
        conf,
        collaborators,
        host=host,
        stopping=stopping,
        identity=identity,
        learn_levels=learn_levels,
        safe_mode=safe_mode,
        membership=CloudMembership(safe_mode, witness or Witness(None), learn=learn_cloud, ticks=ticks),
    )


class _Common(NamedTuple):
    """Arguments of most parts of a compute. `driver` and `conductor` pass through the gate."""

    conf: cfg.ConfigOpts
    host: str
    driver: ComputeDriver
    conductor: ConductorApi
    images: ImageSource
    ticks: Callable[[], float]
    repeat: ConductorRetry


def _builder(common: _Common, nodes: Nodes, records: GuestRecords, gate: ShutdownGate, fresh_claim: float) -> Builder:
    conf, host, driver, conductor, images, ticks, repeat = common
    waiter = VifPlugWaiter(
        host,
        conductor,
        timeout=float(conf.vif_plugging_timeout),
        is_fatal=conf.vif_plugging_is_fatal,
        clock=ticks,
        repeat=repeat,
    )
    return Builder(
        host,
        driver,
        conductor,
        images,
        nodes,
        clock=ticks,
        check=gate.check,
        repeat=repeat,
        fresh_claim=fresh_claim,
        vif_plug_waiter=waiter,
        records=records,
        stops=CleanStops(driver, lambda: float(conf.shutdown_timeout), clock=ticks),
    )


def _move_runner(common: _Common, nodes: Nodes, records: GuestRecords, builder: Builder) -> MoveRunner:
    conf, host, driver, conductor, images, ticks, repeat = common
    move_images = MoveImages(host, driver, conductor, images)
    move_records = MoveRecords(driver, nodes, records)
    cold = ColdPhases(conf, host, driver, move_images, nodes, move_records, builder.vif_plug_waiter)
    live = LivePhases(host, driver, conductor, move_images, nodes, move_records, builder.vif_plug_waiter, ticks)
    return MoveRunner(
        host,
        conductor,
        builder.domains,
        {**cold.phases(), **live.phases()},
        {**cold.reported(), **live.reported()},
        given_up={**cold.given_up(), **live.given_up()},
        clock=ticks,
        repeat=repeat,
    )


def _periodic_tasks(
    common: _Common,
    nodes: Nodes,
    builder: Builder,
    auditor: Auditor,
    power_states: PowerStates,
    interfaces: Interfaces,
    guest_reports: GuestReporter,
    background: Background,
) -> PeriodicTasks:
    conf, host, driver, conductor, *_ = common
    return PeriodicTasks(
        conf,
        driver,
        conductor,
        builder,
        auditor,
        power_states,
        interfaces,
        guest_reports,
        GuestsInTrouble(conf, driver, nodes, builder.domains, background, clock=common.ticks),
        host=host,
        background=background,
    )


def _pause_of(stopping: threading.Event) -> Callable[[float], bool]:
    """Returns the pause between repeated calls. A stop of the service does not end the repetitions, because running
    work has its own time to finish; the gate ends them.
    """

    def pause(seconds: float) -> bool:
        if stopping.wait(seconds):
            time.sleep(seconds)
        return False

    return pause


def compose_process(conf: cfg.ConfigOpts, stopping: threading.Event) -> Sequence[Runnable]:
    return [compose(conf, Rpc(conf), stopping)]


def main() -> NoReturn:
    root_files.start_helper()
    launch("minova-compute", compose_process)
