"""Moves of fake guests: a record goes from one hypervisor to another."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import ClassVar

import msgspec
from oslo_config import cfg

from minova import errors
from minova.objects.actions.power_rules import OFF
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestReport,
    GuestSide,
    LiveDestination,
    LiveMode,
    LiveOutcome,
    LivePhase,
    LiveProgress,
    LiveSource,
)
from minova.objects.servers.states import PowerState, VmState
from minova.virt.driver.domains import NO_DATA, GuestData
from minova.virt.fake.power import FakePower

_SIDES = {
    PowerState.RUNNING: GuestSide.RUNNING,
    PowerState.PAUSED: GuestSide.PAUSED,
    PowerState.CRASHED: GuestSide.CRASHED,
}


class FakeMigration(FakePower):
    """`live_rounds`: how often a live migration reports its progress. `between_rounds` is called in between.
    `hands_over`: a guest that leaves stays paused here until `settle_live` or `stay`.
    """

    moves_guests: ClassVar[bool] = True

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self.live_rounds = 3
        self.between_rounds: Callable[[], None] = lambda: None
        # Guests whose memory was lost in post-copy.
        self.lost_memory: set[str] = set()
        self.hands_over = True
        self._handed_over: set[str] = set()
        # What was asked of migrations in progress, by instance.
        self._leaving: dict[str, set[str]] = {}

    def has_disks(self, instance: Instance) -> bool:
        """Fake guests have no disks: their record stands for them."""
        return self.guest_side(instance.uuid).side is not GuestSide.ABSENT

    def require_movable(self, instance: Instance, *, images: Collection[str] = ()) -> None:
        """Fake guests have no disks."""

    def export_disks(
        self, instance: Instance, migration_uuid: str, key: TransferKey, *, images: Collection[str] = ()
    ) -> DiskExport:
        with self._lock:
            self._begin("export_disks")
            domain = self._domain(instance.uuid)
            if domain.power_state not in OFF:
                raise errors.GuestStateUnexpected(f"The domain of {instance.uuid} is not off")
            return DiskExport(host=domain.node, attempt=domain.attempt, address="127.0.0.1", port=1)

    def stop_export(self, migration_uuid: str) -> None:
        self._begin("stop_export")

    def import_disks(
        self,
        instance: Instance,
        attempt: int,
        export: DiskExport,
        key: TransferKey,
        image_path: Path | None,
        check: Callable[[], None],
        *,
        before: Flavor | None = None,
    ) -> None:
        self._begin("import_disks")
        check()

    def fetch_image(
        self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, check: Callable[[], None]
    ) -> None:
        """Fake guests have no image."""

    def define_moved(
        self, instance: Instance, node: str, attempt: int, data: GuestData = NO_DATA, *, stayed_off: bool = False
    ) -> None:
        with self._lock:
            self._begin("define_moved")
            existing = self._domains.get(instance.uuid)
            if existing is not None and existing.attempt < attempt:
                if existing.power_state not in OFF:
                    raise errors.GuestStateUnexpected(f"The domain of {instance.uuid} runs")
                del self._domains[instance.uuid]
            self.prepare(instance, node, attempt, None)
            if existing is not None:
                self._write(
                    msgspec.structs.replace(
                        self._domain(instance.uuid),
                        console=existing.console,
                        boots=existing.boots,
                        power_state=existing.power_state,
                        saved=existing.saved,
                    )
                )

    def live_source(self, instance: Instance, migration_uuid: str, key: TransferKey) -> LiveSource:
        with self._lock:
            self._begin("live_source")
            domain = self._domain(instance.uuid)
            if domain.power_state in OFF:
                raise errors.GuestNotRunning(f"The domain of {instance.uuid} is off")
            export = DiskExport(host=domain.node, attempt=domain.attempt)
            return LiveSource(xml="", inactive_xml="", cpu_xml=None, sizes={}, export=export)

    def check_live(self, instance: Instance, source: LiveSource, *, block: bool | None) -> None:
        self._begin("check_live")

    def prepare_live(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        source: LiveSource,
        key: TransferKey,
        image_path: Path | None,
        check: Callable[[], None],
    ) -> LiveDestination:
        """The record is paused until `arrive`."""
        with self._lock:
            self._begin("prepare_live")
            self.prepare(instance, node, attempt, None)
            self._turn_to(instance.uuid, PowerState.PAUSED)
        return LiveDestination(
            mode=LiveMode.BLOCK, uri="", address="127.0.0.1", tls_name=None, xml="", persistent_xml=""
        )

    def live_migrate(
        self, instance: Instance, destination: LiveDestination, progress: Callable[[LiveProgress], None]
    ) -> LiveOutcome:
        self._begin("live_migrate")
        requests = self._leaving.setdefault(instance.uuid, set())
        try:
            for step in range(self.live_rounds):
                progress(_progress(instance.flavor.memory_mb << 20, step, self.live_rounds))
                if "abort" in requests:
                    raise errors.LiveMigrationAborted(f"The live migration of {instance.uuid} was aborted")
                if "force" in requests:
                    break
                self.between_rounds()
        finally:
            del self._leaving[instance.uuid]
        if self.hands_over and instance.vm_state is not VmState.PAUSED:
            self._handed_over.add(instance.uuid)
            self._turn_to(instance.uuid, PowerState.PAUSED)
            return LiveOutcome(arrives_paused=True, seconds=0.0, handing_over=True)
        self._turn_to(instance.uuid, PowerState.SHUTDOWN)
        return LiveOutcome(arrives_paused=True, seconds=0.0, downtime_ms=0)

    def await_guest(self, instance_uuid: str, attempt: int, check: Callable[[], None]) -> None:
        with self._lock:
            self._begin("await_guest")
            domain = self._domains.get(instance_uuid)
            if domain is None or domain.attempt != attempt or domain.power_state in OFF:
                raise errors.GuestMissing(f"The guest of {instance_uuid} has not come")

    def hold_disks(self, instance: Instance, destination: LiveDestination) -> None:
        with self._lock:
            self._begin("hold_disks")
            domain = self._domains.get(instance.uuid)
            if domain is not None and domain.power_state not in OFF and instance.uuid not in self._handed_over:
                raise errors.GuestStateUnexpected(f"The guest of {instance.uuid} goes on here")

    def settle_live(self, instance_uuid: str) -> None:
        with self._lock:
            self._begin("settle_live")
            if instance_uuid in self._handed_over:
                self._handed_over.discard(instance_uuid)
                self._turn_to(instance_uuid, PowerState.SHUTDOWN)

    def abort_live(self, instance_uuid: str) -> None:
        self._begin("abort_live")
        self._orders_of(instance_uuid).add("abort")

    def force_complete_live(self, instance_uuid: str) -> None:
        self._begin("force_complete_live")
        self._orders_of(instance_uuid).add("force")

    def _orders_of(self, instance_uuid: str) -> set[str]:
        if instance_uuid not in self._leaving:
            raise errors.GuestStateUnexpected(f"No migration of instance {instance_uuid} runs")
        return self._leaving[instance_uuid]

    def guest_side(self, instance_uuid: str) -> GuestReport:
        with self._lock:
            self._begin("guest_side")
            domain = self._domains.get(instance_uuid)
        if domain is None:
            return GuestReport(side=GuestSide.ABSENT)
        side = _SIDES.get(domain.power_state, GuestSide.SHUT_OFF)
        if instance_uuid in self._handed_over and side is GuestSide.PAUSED:
            side = GuestSide.PAUSED_BY_MIGRATION
        if instance_uuid in self.lost_memory and domain.power_state not in OFF:
            side = GuestSide.POST_COPY_FAILED
        return GuestReport(side=side, attempt=domain.attempt)

    def arrive(self, instance: Instance, attempt: int) -> PowerState:
        with self._lock:
            self._begin("arrive")
            domain = self._domain(instance.uuid)
            if domain.attempt != attempt:
                raise errors.NotFound(f"The domain of {instance.uuid} is of attempt {domain.attempt}, not {attempt}")
            paused = instance.vm_state is VmState.PAUSED
            return self._turn_to(instance.uuid, PowerState.PAUSED if paused else PowerState.RUNNING)

    def stay(self, instance_uuid: str) -> PowerState:
        with self._lock:
            self._begin("stay")
            self._handed_over.discard(instance_uuid)
            state = self._domain(instance_uuid).power_state
            return self._turn_to(instance_uuid, PowerState.RUNNING) if state is PowerState.PAUSED else state


def _progress(memory: int, step: int, steps: int) -> LiveProgress:
    done = memory * step // steps
    return LiveProgress(
        phase=LivePhase.MEMORY,
        memory_total=memory,
        memory_processed=done,
        memory_remaining=memory - done,
        speed=memory // steps,
        seconds=float(step),
    )
