"""A hypervisor whose guests do not move."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import ClassVar, NoReturn

from minova import errors
from minova.objects.catalogue.flavor import Flavor
from minova.objects.servers.disk_export import DiskExport, ExportedFile, TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestReport,
    LiveDestination,
    LiveOutcome,
    LiveProgress,
    LiveSource,
)
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import NO_DATA, GuestData


class Immovable:
    moves_guests: ClassVar[bool] = False

    def has_disks(self, instance: Instance) -> bool:
        return True

    def require_movable(self, instance: Instance, *, images: Collection[str] = ()) -> None:
        _refuse()

    def export_disks(
        self, instance: Instance, migration_uuid: str, key: TransferKey, *, images: Collection[str] = ()
    ) -> DiskExport:
        _refuse()

    def stop_export(self, migration_uuid: str) -> None:
        pass

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
        _refuse()

    def fetch_image(
        self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, check: Callable[[], None]
    ) -> None:
        _refuse()

    def define_moved(
        self, instance: Instance, node: str, attempt: int, data: GuestData = NO_DATA, *, stayed_off: bool = False
    ) -> None:
        _refuse()

    def live_source(self, instance: Instance, migration_uuid: str, key: TransferKey) -> LiveSource:
        _refuse()

    def check_live(self, instance: Instance, source: LiveSource, *, block: bool | None) -> None:
        _refuse()

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
        _refuse()

    def live_migrate(
        self, instance: Instance, destination: LiveDestination, progress: Callable[[LiveProgress], None]
    ) -> LiveOutcome:
        _refuse()

    def abort_live(self, instance_uuid: str) -> None:
        _refuse()

    def force_complete_live(self, instance_uuid: str) -> None:
        _refuse()

    def guest_side(self, instance_uuid: str) -> GuestReport:
        _refuse()

    def await_guest(self, instance_uuid: str, attempt: int, check: Callable[[], None]) -> None:
        _refuse()

    def hold_disks(self, instance: Instance, destination: LiveDestination) -> None:
        _refuse()

    def settle_live(self, instance_uuid: str) -> None:
        _refuse()

    def arrive(self, instance: Instance, attempt: int) -> PowerState:
        _refuse()

    def stay(self, instance_uuid: str) -> PowerState:
        _refuse()


def _refuse() -> NoReturn:
    raise errors.HypervisorError("Guests of this hypervisor do not move")
