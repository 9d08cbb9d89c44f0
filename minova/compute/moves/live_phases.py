"""The phases of a live migration on its two hosts: see `objects/servers/moves.py`."""

import logging
from collections.abc import Callable, Mapping

import msgspec

from minova import errors
from minova.compute.instances.vif_plug_waiter import VifPlugWaiter
from minova.compute.moves.move_records import MoveRecords
from minova.compute.moves.phases import CancelCheck, MoveImages, Phase, Reported, require_served
from minova.compute.tracker.nodes import Nodes
from minova.concurrency.outside_waits import waiting
from minova.context import RequestContext
from minova.contracts.conductor import ConductorApi
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import GuestSide, LiveProgress
from minova.objects.servers.moves import MigrationOrder, MoveMessage, MovePhase, PhaseResult
from minova.objects.servers.states import VmState
from minova.virt.driver import ComputeDriver

LOG = logging.getLogger(__name__)
# Seconds between two reports of the progress, which also bring what users want meanwhile.
REPORTS = 1.0
_RUNS = frozenset({GuestSide.RUNNING, GuestSide.POST_COPY})


class LivePhases:
    """`clock` returns monotonic seconds."""

    def __init__(
        self,
        host: str,
        driver: ComputeDriver,
        conductor: ConductorApi,
        images: MoveImages,
        nodes: Nodes,
        records: MoveRecords,
        vif_plug_waiter: VifPlugWaiter,
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._driver = driver
        self._conductor = conductor
        self._images = images
        self._nodes = nodes
        self._records = records
        self._vif_plug_waiter = vif_plug_waiter
        self._clock = clock

    def phases(self) -> Mapping[MovePhase, Phase]:
        return {
            MovePhase.DESCRIBE: self._describe,
            MovePhase.CHECK: self._check,
            MovePhase.PREPARE: self._prepare,
            MovePhase.MIGRATE: self._migrate,
            MovePhase.LAND: self._land,
            MovePhase.HOLD: self._hold,
            MovePhase.ARRIVE: self._arrive,
            MovePhase.LOOK: self._look,
            MovePhase.LOOK_THERE: self._look,
            MovePhase.STAY: self._stay,
            MovePhase.HALT: self._halt,
            MovePhase.HALT_THERE: self._halt,
            MovePhase.CLOSE: self._close,
        }

    def reported(self) -> Mapping[MovePhase, Reported]:
        return {MovePhase.MIGRATE: self._records.note_left, MovePhase.ARRIVE: self._records.note_accepted}

    def given_up(self) -> Mapping[MovePhase, Reported]:
        return {MovePhase.CHECK: self._records.note_given_up, MovePhase.ARRIVE: self._records.pause_stray}

    # -- forward ---------------------------------------------------------------------------------------------------

    def _describe(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        assert move.key is not None
        if not self._driver.moves_guests:
            raise errors.HardwareNotOffered(f"The hypervisor of {self._host} does not move guests")
        return PhaseResult(live_source=self._driver.live_source(move.instance, move.migration.uuid, move.key))

    def _check(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Raises as `MigrationDriver.check_live`, and if there is no room."""
        assert move.live_source is not None
        if not self._driver.moves_guests:
            raise errors.HardwareNotOffered(f"The hypervisor of {self._host} does not move guests")
        tracker = self._nodes.tracker(move.migration.dest_node or "")
        with tracker.move_claim(ctx, move.instance, move.migration, move.limits):
            self._records.require_none_newer(move)
            self._driver.check_live(_fitted(move), move.live_source, block=move.block)
            withheld = self._images.fetch(ctx, move.instance, check)
            require_served(withheld, move.instance.image, move.live_source.export)
        return PhaseResult()

    def _prepare(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        assert move.live_source is not None
        assert move.key is not None
        migration = move.migration
        path = self._images.fetch_here(ctx, move.instance, move.live_source.export, move.key, check)
        destination = self._driver.prepare_live(
            _fitted(move), migration.dest_node or "", migration.attempt, move.live_source, move.key, path, check
        )
        return PhaseResult(live_destination=destination)

    def _migrate(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Live-migrates the guest. After a success this host runs no part of it, or libvirt is still handing it over."""
        assert move.live_destination is not None
        self._records.note_leaving(move)
        with waiting("the destination of a live migration") as wait:
            watch = _Watch(ctx, move, check, self._driver, self._conductor, self._host, self._clock, wait.moved)
            outcome = self._driver.live_migrate(move.instance, move.live_destination, watch)
        LOG.info(
            "Instance %s has left for %s within %.1f s, %s ms of them standing still",
            move.instance.uuid,
            move.migration.dest_compute,
            outcome.seconds,
            "?" if outcome.downtime_ms is None else outcome.downtime_ms,
        )
        if outcome.handing_over:
            # The guest stands still: what else is to be done here waits.
            return PhaseResult(handing_over=True)
        self._driver.stop_export(move.migration.uuid)
        return PhaseResult(power_state=self._driver.power_state(move.instance.uuid))

    def _land(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        with waiting("a guest of another host"):
            self._driver.await_guest(move.instance.uuid, move.migration.attempt, check)
        return PhaseResult()

    def _hold(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        assert move.live_destination is not None
        self._driver.hold_disks(move.instance, move.live_destination)
        return PhaseResult()

    def _arrive(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The guest runs before Neutron has bound its interfaces: it must not stand still for that. A failure is reported with what is
        here of the guest: while that is whole, it can still arrive.
        """
        migration = move.migration
        try:
            state = self._driver.arrive(move.instance, migration.attempt)
        except errors.StaleAttempt:
            raise
        except Exception as error:  # noqa: BLE001  - reported as any other
            LOG.warning("Instance %s has not arrived: %s", move.instance.uuid, error)
            return PhaseResult.failed(error, self._driver.guest_side(move.instance.uuid))
        node = migration.dest_node or ""
        self._records.note_settled(ctx, move.instance, migration, node)
        self._records.keep(move.instance, migration, node, state)
        self._bind(ctx, move, migration.attempt, check)
        return PhaseResult(power_state=state)

    def _bind(self, ctx: RequestContext, move: MoveMessage, attempt: int, check: CancelCheck) -> None:
        """Bind the guest's interfaces of Neutron to this host. Raises StaleAttempt; a guest whose interfaces are not bound runs all the
        same.
        """
        try:
            self._vif_plug_waiter.bound(ctx, move.instance, attempt, check)
        except errors.StaleAttempt:
            raise
        except errors.MinovaError as error:
            LOG.error("Instance %s is here, but its interfaces are not bound: %s", move.instance.uuid, error)

    # -- in doubt --------------------------------------------------------------------------------------------------

    def _look(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        return PhaseResult(guest=self._driver.guest_side(move.instance.uuid))

    def _halt(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """Pause the guest, which runs on the other host, too."""
        if self._driver.guest_side(move.instance.uuid).side in _RUNS:
            self._driver.pause(move.instance.uuid)
        return PhaseResult()

    def _close(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """End a guest whose memory is lost, so that its disks can be used again. Raises GuestStateUnexpected if it runs."""
        uuid = move.instance.uuid
        self._driver.stop_export(move.migration.uuid)
        side = self._driver.guest_side(uuid).side
        if side in {GuestSide.RUNNING, GuestSide.PAUSED}:
            raise errors.GuestStateUnexpected(f"The guest of instance {uuid} is whole here: {side}")
        self._driver.power_off(uuid)
        return PhaseResult()

    # -- back ------------------------------------------------------------------------------------------------------

    def _stay(self, ctx: RequestContext, move: MoveMessage, check: CancelCheck) -> PhaseResult:
        """The guest is here, as it was before. Raises GuestMissing if it is not: then the destination's may be the only one."""
        uuid, migration = move.instance.uuid, move.migration
        self._driver.stop_export(migration.uuid)
        if self._driver.guest_side(uuid).side is GuestSide.ABSENT:
            raise errors.GuestMissing(f"Host {self._host} does not have the guest of instance {uuid}")
        if migration.status == "migrating":
            if migration.old_vm_state is not VmState.PAUSED:
                self._driver.stay(uuid)
            # Before the switch nothing has bound the interfaces elsewhere. The guest runs first: see `_arrive`.
            if move.switched_back is not False:
                self._bind(ctx, move, move.instance.attempt, check)
        ended = msgspec.structs.replace(migration, status="error")
        self._records.note_settled(ctx, move.instance, ended, migration.source_node)
        return PhaseResult(power_state=self._driver.power_state(uuid))


class _Watch:
    """Reports the progress of a migration, and obeys what the answers say."""

    def __init__(
        self,
        ctx: RequestContext,
        move: MoveMessage,
        check: CancelCheck,
        driver: ComputeDriver,
        conductor: ConductorApi,
        host: str,
        clock: Callable[[], float],
        moved: Callable[[], None],
    ) -> None:
        self._ctx = ctx
        self._moved = moved
        self._seen = (0, 0)
        self._move = move
        self._check = check
        self._driver = driver
        self._conductor = conductor
        self._host = host
        self._clock = clock
        self._reported = float("-inf")
        self._obeyed = MigrationOrder.NONE

    def __call__(self, progress: LiveProgress) -> None:
        """Raises StaleAttempt if the migration is not wanted any more."""
        self._check()
        processed = (progress.memory_processed, progress.disk_processed)
        if processed != self._seen:
            self._seen = processed
            self._moved()
        if self._clock() - self._reported < REPORTS:
            return
        self._reported = self._clock()
        key = self._move.phase_key
        try:
            order = self._conductor.migration_progress(self._ctx, phase=key, host=self._host, progress=progress)
        except errors.ServiceUnavailable as error:
            LOG.debug("A later report of the progress may arrive: %s", error)
            return
        if order is not self._obeyed:
            self._obey(order)

    def _obey(self, order: MigrationOrder) -> None:
        uuid = self._move.instance.uuid
        try:
            if order is MigrationOrder.ABORT:
                self._driver.abort_live(uuid)
            elif order is MigrationOrder.FORCE_COMPLETE:
                self._driver.force_complete_live(uuid)
        except errors.MinovaError as error:
            LOG.info("%s of the live migration of instance %s is tried again: %s", order, uuid, error)
            return
        self._obeyed = order


def _fitted(move: MoveMessage) -> Instance:
    """Returns the instance as its row will be at the destination."""
    return msgspec.structs.replace(move.instance, numa_topology=move.migration.new_numa_topology)
