"""Moves of guests between hosts, while they are off or while they run."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from minova import errors
from minova.objects.servers.disk_export import TransferKey
from minova.objects.servers.instance import Instance
from minova.objects.servers.live_migration import (
    GuestReport,
    LiveDestination,
    LiveOutcome,
    LiveProgress,
    LiveSource,
)
from minova.objects.servers.states import PowerState
from minova.virt.libvirt.driver.cold_migration import ColdMigration


class LibvirtMigration(ColdMigration):
    @property
    def moves_guests(self) -> bool:
        """Guests of libvirt's test hypervisor have no disks."""
        return self._real

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

    def arrive(self, instance: Instance, attempt: int) -> PowerState:
        _refuse()

    def stay(self, instance_uuid: str) -> PowerState:
        _refuse()


def _refuse() -> NoReturn:
    raise errors.HypervisorError("Guests of this hypervisor do not move")
