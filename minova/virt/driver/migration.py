"""Moves of guests between hosts: their disks while they are off, or the guests themselves while they run.

A cold move, and its undoing (S: source, D: destination; the row changes its host between import and definition):

    S export_disks -> D import_disks -> S stop_export -> D define_moved, PowerDriver.power_on -> S destroy(RowHost(D))
    failed before the row changed its host: D destroy(RowHost(S)); the guest of S is as it was
    reverted: D destroy(RowHost(S)) -> S define_moved with a later attempt

A resize on the same host is `define_moved` with a later attempt and the new flavor.

A live migration:

    S live_source -> D check_live, prepare_live -> S live_migrate -> D await_guest -> S hold_disks -> D arrive -> S destroy(RowHost(D))
    failed: D destroy(RowHost(S)); after any doubt both report `guest_side`, and the conductor decides
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

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


class MigrationDriver(Protocol):
    @property
    def moves_guests(self) -> bool:
        """False: guests stay on their hosts."""
        ...

    # -- cold ----------------------------------------------------------------------------------------------------------

    def require_movable(self, instance: Instance, *, images: Collection[str] = ()) -> None:
        """Raises ImageUnacceptable if each destination of the guest would refuse its disks, or if this host cannot serve a file of `images`
        that the guest has. Raises HypervisorError if some of its writes would be lost. Called before the guest is shut down.

        `images`: digests of files of the guest's image.
        """
        ...

    def export_disks(
        self, instance: Instance, migration_uuid: str, key: TransferKey, *, images: Collection[str] = ()
    ) -> DiskExport:
        """Serve the files of the guest, which is off, for reading, to the holder of the key, until `stop_export` or the end of
        this process. Idempotent: a repeat returns what is served, or serves it anew with this key. `images`: as in `require_movable`;
        what this host cannot serve of them is left out.

        Raises GuestStateUnexpected if the guest is not off, DisksOfAnotherHost if another host has made its disks since.
        """
        ...

    def stop_export(self, migration_uuid: str) -> None:
        """Idempotent."""
        ...

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
        """Fetch the files and fit the disks to the instance's flavor; define no domain. Idempotent: complete files are not
        fetched again. Files of an earlier attempt on this host are replaced.

        `check` is called several times a second; an exception of it ends the copy. `image_path`: as in `prepare`; its sweep must
        wait until this returns. The file may be missing if no disk is based on it; kernel and ramdisk are beside it. `before`: the
        flavor of the disks at the source; None: the instance's.

        Raises HardwareNotOffered if this host cannot run the guest, HypervisorError if a file is not one that this guest can have,
        DiskFull, DisksOfAnotherHost if a later attempt has made the disks, SavedMemoryKept if its saved memory does not fit the flavor.
        """
        ...

    def fetch_image(
        self, path: Path, export: DiskExport, file: ExportedFile, key: TransferKey, check: Callable[[], None]
    ) -> None:
        """Fetch one of `export.images`, straight to the path. The caller checks the bytes. `check`: as in `import_disks`."""
        ...

    def define_moved(
        self, instance: Instance, node: str, attempt: int, data: GuestData = NO_DATA, *, stayed_off: bool = False
    ) -> None:
        """Define the domain on the disks that are here, marked with the attempt; it stays off. The disks become this host's, are
        fitted to the instance's flavor, and the config drive is written anew. Idempotent.

        Saved memory that was here before is removed if the disks have been another attempt's since: it is older than they are.
        `stayed_off`: the guest has not run in that attempt, so its memory stays.

        The instance's row must name this host. Raises NotFound if there are no disks, DisksOfAnotherHost if a later attempt has
        made them, GuestStateUnexpected if the guest runs in another attempt.
        """
        ...

    # -- live ----------------------------------------------------------------------------------------------------------

    def live_source(self, instance: Instance, migration_uuid: str, key: TransferKey) -> LiveSource:
        """Describe the guest, and serve the files that libvirt does not copy, as `export_disks` does. Raises
        GuestNotRunning if it does not run, GuestBusy if a job occupies it.
        """
        ...

    def check_live(self, instance: Instance, source: LiveSource, *, block: bool | None) -> None:
        """Check whether the guest can run here; changes nothing. `block` None: copy the disks unless they are shared.

        Raises HardwareNotOffered for the CPU or other hardware, Conflict if `block` differs from what the disks are.
        """
        ...

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
        """Make what the guest needs here: disks of the same size to copy into, networks, filters. Idempotent. Raises as
        `check_live` and `import_disks`.
        """
        ...

    def live_migrate(
        self,
        instance: Instance,
        destination: LiveDestination,
        progress: Callable[[LiveProgress], None],
    ) -> LiveOutcome:
        """Migrate the guest and return once its copy here is off, or stands still while it is handed over
        (`LiveOutcome.handing_over`); joins a migration that an earlier process has begun.
        `progress` is called several times a second; an exception of it aborts the migration.

        Raises LiveMigrationAborted after `abort_live` or the time-out: the guest runs here. Raises PostCopyFailed if its memory does
        not arrive, HypervisorError if libvirt says that it has failed. After any error `guest_side` says what is here.
        """
        ...

    def abort_live(self, instance_uuid: str) -> None:
        """Ask a migration to end; the guest continues to run here. Raises GuestStateUnexpected if none runs, or if it is in
        post-copy.
        """
        ...

    def force_complete_live(self, instance_uuid: str) -> None:
        """Switch the migration to post-copy if that is permitted, else pause the guest until it has arrived. Raises
        GuestStateUnexpected if no migration runs.
        """
        ...

    def guest_side(self, instance_uuid: str) -> GuestReport:
        """Returns what this host has of the guest."""
        ...

    def await_guest(self, instance_uuid: str, attempt: int, check: Callable[[], None]) -> None:
        """Return once the guest is here, whole and paused, and libvirt no longer works on its migration. `check` is called several
        times a second; an exception of it ends the wait. Raises GuestMissing if it does not come any more,
        GuestBusy if libvirt works on it for too long.
        """
        ...

    def hold_disks(self, instance: Instance, destination: LiveDestination) -> None:
        """Hold the disks of a guest that the destination has whole, so that nothing continues it here before `stay`. A guest that has
        left needs no hold. Idempotent. Raises GuestStateUnexpected if the guest goes on here, or its disks cannot be held.
        """
        ...

    def settle_live(self, instance_uuid: str) -> None:
        """Wait for a while until libvirt has ended the guest of a migration with the outcome `handing_over`."""
        ...

    def arrive(self, instance: Instance, attempt: int) -> PowerState:
        """Take the disks of the guest that has arrived, and resume it if it waits for that. The row must name this host. A
        guest that its user had paused stays paused. Idempotent.

        Raises NotFound if there is no domain of this attempt.
        """
        ...

    def stay(self, instance_uuid: str) -> PowerState:
        """Resume the guest here if it is paused, and hold its disks no longer: at the source, on the verdict that it never arrived. Not for a guest that its user
        has paused. Raises NotFound if there is no domain, GuestBusy if libvirt still works on the migration.
        """
        ...
